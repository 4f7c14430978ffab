"""Stochastic volatility of the S&P 500: a latent path and three parameters that move all of it.

Centred model, with returns y_1 .. y_n in per cent, demeaned:

    h_1     ~ N(0, sigma^2 / (1 - phi^2))
    h_{t+1} ~ N(phi h_t, sigma^2)
    y_t     ~ N(0, exp(mu + h_t))
    (phi + 1)/2 ~ Beta(20, 1.5);  mu ~ Cauchy(0, 2);  sigma ~ HalfCauchy(0, 1)

The state is q = (h_1, .., h_n, x, mu, s) with (phi + 1)/2 = sigmoid(x) and sigma = softplus(s):
the path first and the three globals last, as a bordered preconditioner expects them.

The density is the yardstick of the experiment, so it is written in the few forms that XLA turns
into vector code on one core, for the value and for what automatic differentiation makes of it:
sums over the path and broadcasts along it are products with a constant vector (plain reductions
run one add after the other), and neighbours are cut out by `tf.split` (its gradient is a
concatenation; that of a slice is a padding, which does not vectorise). A gradient costs 0.4 times
that of the textbook expression.
"""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from experiments import optional
from experiments.targets.base import Moments, Target

NUM_GLOBALS = 3

_BETA_1, _BETA_2 = 20.0, 1.5
_LOG_BETA = math.lgamma(_BETA_1) + math.lgamma(_BETA_2) - math.lgamma(_BETA_1 + _BETA_2)
_MU_SCALE = 2.0
_FIRST_AND_LAST_DAY = ('2010-06-25', '2020-06-24')
_GYM_MOMENTS = Moments(
    names=('phi', 'mu', 'sigma'),
    mean=(0.95419, -0.6083, 0.33880),
    sd=(0.00910, 0.1566, 0.02938),
    source='Inference Gym ground truth (log returns; its priors on mu and sigma are wider)',
)


class Globals(NamedTuple):
    """Parameters of the volatility process, constrained; any shape."""

    phi: tf.Tensor
    mu: tf.Tensor
    sigma: tf.Tensor


def constrain(globals_):
    """(x, mu, s) on the last axis -> `Globals`."""
    x, mu, s = tf.unstack(globals_, axis=-1)
    return Globals(tf.tanh(x / 2), mu, tf.nn.softplus(s))


def returns(num_points: int | None = None) -> np.ndarray:
    """Demeaned daily log returns of the S&P 500 in per cent, the last `num_points` of 2516."""
    prices = optional.load('inference_gym.internal.datasets.sp500_closing_prices').CLOSING_PRICES
    log_returns = np.diff(np.log(prices))
    if num_points is not None:
        if not 2 <= num_points <= log_returns.size:
            raise ValueError(f'num_points must lie in [2, {log_returns.size}]; got {num_points}.')
        log_returns = log_returns[-num_points:]
    return 100 * (log_returns - log_returns.mean())


def dates(num_points: int) -> np.ndarray:
    """Days of the last `num_points` returns, datetime64: the series has the first and last of all.

    The days between are spread evenly, so that weekends and holidays move a day by a few at most.
    """
    first, last = (np.datetime64(day, 's') for day in _FIRST_AND_LAST_DAY)
    size = returns().size
    seconds = (np.arange(1, size + 1) / size * (last - first).astype(float)).astype(int)
    return (first + seconds.astype('timedelta64[s]'))[-num_points:]


def stochastic_volatility(num_points: int | None = None) -> Target:
    """The target, of event size n + 3.

    Args:
      num_points: n, length of the series, its most recent part. Default `None`: all 2516 days.

    Returns:
      A `Target`. Its initial state is overdispersed in the globals, x ~ N(3, .5^2) and mu, s ~
      N(-.5, .5^2), with the path an AR(1) draw given them. A path near zero instead, such as
      h ~ N(0, 0.1^2), looks like sigma -> 0: chains fall into the neck of the funnel and adapt
      to it.
    """
    y = returns(num_points)
    n = y.size
    return Target(
        name='stochastic_volatility',
        event_size=n + NUM_GLOBALS,
        log_prob=make_log_prob(y),
        initial_state=lambda num_chains, seed: _initial_state(n, num_chains, seed),
        provenance='S&P 500 closing prices 2010-2020 of Inference Gym; model of Hirt, Titsias & '
        'Dellaportas (2021), section 5.4 and appendix I, centred',
        reference=_GYM_MOMENTS if num_points is None else None,
    )


def make_log_prob(y: np.ndarray):
    """The log-density of q [..., n + 3] given returns y [n], normalising constants included."""
    n = y.size
    squared_returns = y**2
    constant = -n * np.log(2 * np.pi) + np.log(4 / (_MU_SCALE * np.pi**2)) - _LOG_BETA

    def log_prob(q):
        h, globals_ = tf.split(q, [n, NUM_GLOBALS], axis=-1)
        x, mu, s = tf.unstack(globals_, axis=-1)
        phi, _, sigma = constrain(globals_)
        first, later = tf.split(h, [1, n - 1], axis=-1)
        earlier, _ = tf.split(h, [n - 1, 1], axis=-1)
        innovation = later - _repeat(phi, n - 1) * earlier
        squares = (1 - phi**2) * first[..., 0] ** 2 + _total(innovation**2)
        weighted = tf.constant(squared_returns, q.dtype) * tf.exp(-h)
        log_prior = (
            (_BETA_1 + 0.5) * tf.math.log_sigmoid(x)
            + (_BETA_2 + 0.5) * tf.math.log_sigmoid(-x)
            - tf.math.log1p((mu / _MU_SCALE) ** 2)
            - tf.math.log1p(sigma**2)
            + tf.math.log_sigmoid(s)
        )
        log_path = -n * tf.math.log(sigma) - squares / (2 * sigma**2)
        log_data = -(n * mu + _total(h) + tf.exp(-mu) * _total(weighted)) / 2
        return tf.constant(constant, q.dtype) + log_prior + log_path + log_data

    return log_prob


def _total(values: tf.Tensor) -> tf.Tensor:
    """Sum over the last axis."""
    return tf.tensordot(values, tf.ones([values.shape[-1]], values.dtype), axes=1)


def _repeat(scalar: tf.Tensor, count: int) -> tf.Tensor:
    """[...] -> [..., count]."""
    return tf.tensordot(scalar[..., tf.newaxis], tf.ones([1, count], scalar.dtype), axes=1)


def _initial_state(n: int, num_chains: int, seed) -> tf.Tensor:
    globals_seed, path_seed = tf.unstack(tfp.random.split_seed(seed, 2))
    noise = tf.random.stateless_normal([num_chains, NUM_GLOBALS], globals_seed)
    globals_ = tf.constant([3.0, -0.5, -0.5]) + 0.5 * noise
    phi, _, sigma = constrain(globals_)
    shocks = sigma * tf.random.stateless_normal([n, num_chains], path_seed)
    shocks = tf.concat([shocks[:1] / tf.sqrt(1 - phi**2), shocks[1:]], axis=0)
    path = tf.scan(lambda h, shock: phi * h + shock, shocks)
    return tf.concat([tf.transpose(path), globals_], axis=-1)
