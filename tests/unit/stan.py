"""Stan's tuning in plain Python, one chain at a time, as its manual and its paper publish it."""

import math

import numpy as np


class DualAveraging:
    """Hoffman & Gelman (2014), Algorithm 5, in the names of Stan."""

    def __init__(self, step_size, delta, gamma=0.05, t0=10.0, kappa=0.75):
        self.mu = math.log(10 * step_size)
        self.delta, self.gamma, self.t0, self.kappa = delta, gamma, t0, kappa
        self.counter, self.s_bar, self.x_bar = 0, 0.0, 0.0

    def learn(self, accept_stat):
        """The next step size."""
        self.counter += 1
        eta = 1 / (self.counter + self.t0)
        self.s_bar = (1 - eta) * self.s_bar + eta * (self.delta - accept_stat)
        x = self.mu - self.s_bar * math.sqrt(self.counter) / self.gamma
        x_eta = self.counter**-self.kappa
        self.x_bar = (1 - x_eta) * self.x_bar + x_eta * x
        return math.exp(x)

    def complete(self):
        """The step size to keep."""
        return math.exp(self.x_bar)


def window_ends(num_warmup, init_buffer=75, base_window=25, term_buffer=50):
    """(draws that count, draws after which the metric is renewed) by Stan's counter."""
    if num_warmup < 20:
        return [], []
    if init_buffer + base_window + term_buffer > num_warmup:
        init_buffer, term_buffer = int(0.15 * num_warmup), int(0.1 * num_warmup)
        base_window = num_warmup - (init_buffer + term_buffer)
    size, following = base_window, init_buffer + base_window - 1
    collected, ends = [], []
    for counter in range(num_warmup):
        if init_buffer <= counter < num_warmup - term_buffer:
            collected.append(counter)
        if counter == following:
            ends.append(counter)
            if following == num_warmup - term_buffer - 1:
                continue
            size *= 2
            following = counter + size
            if following == num_warmup - term_buffer - 1:
                continue
            if following + 2 * size >= num_warmup - term_buffer:
                following = num_warmup - term_buffer - 1
    return collected, ends


def regularised_covariance(draws):
    """n / (n + 5) of the sample covariance and 1e-3 * 5 / (n + 5) of the identity."""
    n = len(draws)
    return n / (n + 5) * np.cov(draws.T) + 1e-3 * 5 / (n + 5) * np.eye(draws.shape[1])
