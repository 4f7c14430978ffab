"""What the experiments of Dahlin, Wills & Ninness (2018) share: their proposals and measures."""

import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from experiments import effective_size
from experiments.benchmark import fresh_process
from experiments.config import ConfigError
from experiments.tables import rhat, spread

_PROPOSALS: dict[str, Callable[[int], Any]] = {
    'pmMH0': lambda memory: tfpa.proposals.random_walk(),
    'pmMH1': lambda memory: tfpa.proposals.langevin(),
    'pmMH2': lambda memory: tfpa.proposals.newton(),
    'BFGS': lambda memory: tfpa.proposals.quasi_newton('bfgs', memory),
    'SR1': lambda memory: tfpa.proposals.quasi_newton('sr1', memory),
    'LS': lambda memory: tfpa.proposals.quasi_newton('ls', memory),
}
LAG = 250
"""Autocorrelations that the paper sums."""


def check(settings: dict[str, Any]) -> None:
    """Refuses settings that make no experiment.

    Raises:
      ConfigError: for an unknown proposal, or draws that are not whole rounds of the lanes.
    """
    unknown = set(settings['proposals']) - set(_PROPOSALS)
    if unknown:
        raise ConfigError(
            f'proposals={",".join(sorted(unknown))}: there are {", ".join(_PROPOSALS)}.'
        )
    if settings['num_results'] % settings['memory']:
        raise ConfigError(
            f'num_results={settings["num_results"]} must be a multiple of '
            f'memory={settings["memory"]}, for each lane to have as many draws.'
        )


def every_seed(
    module: str, settings: dict[str, Any], folder: pathlib.Path, progress: bool
) -> list[dict[str, Any]]:
    """The `runs` of `module.measure` for every seed, each in a fresh process.

    What a seed has found is kept until all are done, so that a run that was interrupted goes on.

    Args:
      module: with a `measure` of (settings, seed), run as a program.
      settings: of the experiment.
      folder: of the experiment's results.
      progress: whether to tell of every seed.
    """
    return fresh_process.keep_each(
        lambda case: fresh_process.run(module, case, f'seed {case["seed"]}'),
        {f'seed-{seed}': {'settings': settings, 'seed': seed} for seed in settings['seeds']},
        folder,
        progress,
    )


def chains(
    name: str,
    correlation: float,
    seed: int,
    model: Any,
    estimator: tfpa.estimators.Estimator,
    truth: tuple[float, ...],
    settings: dict[str, Any],
    *,
    is_compiled: bool = True,
) -> tuple[Any, dict[str, Any], np.ndarray]:
    """Chains from `truth` with one proposal: (run, measures, draws of each lane as a chain).

    Args:
      name: of the proposal.
      correlation: of the noise before and after a step.
      seed: of the chains.
      model: with a `log_prior`.
      estimator: of the likelihood.
      truth: where chains start.
      settings: of the experiment.
      is_compiled: by XLA.
    """
    proposal = _PROPOSALS[name](settings['memory'])
    kernel = tfpa.PseudoMarginal(
        estimator,
        model.log_prior,
        settings['num_warmup_steps'],
        proposal,
        auxiliary_correlation=correlation,
    )
    start = np.tile(np.array(truth, np.float32), [settings['num_chains'], 1])
    options: dict[str, Any] = {} if is_compiled else {'jit_compile': False}
    with warnings.catch_warnings():
        # of slow mixing, which the table is about
        warnings.simplefilter('ignore', tfpa.sampling.SamplingWarning)
        run = tfpa.sample(
            model.log_prior,
            settings['num_results'],
            settings['num_warmup_steps'],
            initial_state=tf.constant(start),
            kernel=kernel,
            num_steps_between_results=0,
            seed=(seed, 1),
            progress=False,
            **options,
        )
    num_lanes = getattr(proposal, 'num_lanes', 1)
    states = np.asarray(run.states, np.float64)
    lanes = states.reshape(-1, num_lanes * states.shape[1], states.shape[2])
    estimates = run.diagnostics.num_sampling_gradients * settings['num_chains']
    last = tf.constant(states[-1].astype(np.float32))
    measures = {
        'acceptance': run.diagnostics.accept_prob,
        **efficiency(lanes, estimates, run.timings.sampling),
        'published_inefficiency': published_inefficiency(states),
        'variance': float(kernel.log_estimate_variance(last, seed=(seed, 2))),
        'seconds_per_step': run.timings.sampling / settings['num_results'],
    }
    return run, measures, lanes


def efficiency(lanes: np.ndarray, estimates: float, seconds: float) -> dict[str, float]:
    """Effective sizes, and what they cost.

    Args:
      lanes: [N, C, D].
      estimates: of the likelihood, that they took.
      seconds: likewise.
    """
    min_ess, max_rhat = effective_size.smallest(lanes)
    return {
        'min_ess': min_ess,
        'inefficiency': lanes.shape[0] * lanes.shape[1] / min_ess,
        'max_rhat': max_rhat,
        'ess_per_estimate': min_ess / estimates,
        'ess_per_second': min_ess / seconds,
    }


def moments(lanes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(means, their standard errors), each [D].

    Args:
      lanes: [N, C, D].
    """
    ess = np.asarray(tfpa.sampling.diagnose(lanes, 1)[0])
    return lanes.mean(axis=(0, 1)), lanes.std(axis=(0, 1)) / np.sqrt(ess)


def published_inefficiency(states: np.ndarray) -> float:
    """1 + 2 sum of the first 250 autocorrelations of draws in a row, as the paper takes it.

    Lanes that are interleaved look independent by it. Mean over coordinates and chains that move;
    NaN if none does.

    Args:
      states: [N, C, D].
    """
    centred = states - states.mean(axis=0)
    spectrum = np.abs(np.fft.rfft(centred, 2 * len(states), axis=0)) ** 2
    covariance = np.fft.irfft(spectrum, axis=0)[: LAG + 1]
    moves = covariance[0] > 0
    if not np.any(moves):
        return float('nan')
    correlations = covariance[1:, moves] / covariance[0, moves]
    return float(np.mean(1 + 2 * np.sum(correlations, axis=0)))


COLUMNS = (
    *('rho', 'proposal', 'acceptance', 'noise', 'inefficiency by lane', 'as in the paper'),
    *('max R-hat', 'max |z|'),
)
"""Of `cells`."""
NOTE = (
    'rho: correlation of the noise before and after a step. Noise: half the variance of the '
    'difference of two log-estimates that follow one another. Inefficiency: draws per effective '
    'draw, each lane of a quasi-Newton proposal counted as a chain; as in the paper: by '
    f'{LAG} autocorrelations of the lanes interleaved. ESS: smallest over coordinates of q and of '
    'q^2; an estimate with its score counts as one. Seconds are of sampling, compilation apart; a '
    'step moves all chains. Medians over seeds.'
)
"""On `COLUMNS` and on efficiency."""


def cells(correlation: float | None, name: str, own: list[dict[str, Any]]) -> list[Any]:
    """The first cells of a row, over the runs of one proposal: as in `COLUMNS`."""
    errors = [run['max_z'] for run in own if run['max_z'] is not None]
    return [
        *('-' if correlation is None else f'{correlation:g}', name),
        *(middle(own, 'acceptance'), middle(own, 'variance')),
        *(middle(own, 'inefficiency'), middle(own, 'published_inefficiency')),
        *(rhat(max(run['max_rhat'] for run in own)), max(errors) if errors else None),
    ]


SPEED_COLUMNS = ('ms / step', 'ESS / s', 'quartiles')
"""Of `speed`."""


def speed(own: list[dict[str, Any]]) -> list[Any]:
    """The last cells of a row: as in `SPEED_COLUMNS`."""
    speeds = [run['ess_per_second'] for run in own]
    return [
        *(1e3 * middle(own, 'seconds_per_step'), middle(own, 'ess_per_second')),
        spread(np.quantile(speeds, [0.25, 0.75])),
    ]


def distance(lanes: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of the means of two sets of draws, in standard errors.

    Args:
      lanes: [N, C, D].
      other: likewise, of any N and C.
    """
    (mean, error), (other_mean, other_error) = map(moments, (lanes, other))
    return float(np.max(np.abs(mean - other_mean) / np.hypot(error, other_error)))


def middle(own: list[dict[str, Any]], key: str) -> float:
    """The median of a measure over runs."""
    return float(np.median([run[key] for run in own]))
