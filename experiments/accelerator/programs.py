"""The programs that are measured, written as StableHLO."""

import hashlib
import json
import pathlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from experiments import data as data_sets
from experiments import targets
from experiments.benchmark.kernels import PRECONDITIONERS
from experiments.benchmark.scaling_targets import autoregression, simulated_regression
from experiments.config import Config
from experiments.targets.gaussian import whiten
from experiments.targets.logistic_regression import design_matrix
from tfp_adaptive.internal import devices

PLATFORMS = ('CPU', 'GPU')

_MANIFEST = 'programs.json'
_PEER_DATA = 'peers.npz'
_INITIAL_SCALE = 0.1
_PHI = 0.7
_CONDITION_NUMBER = 100.0
_LONGER_FROM = 100
"""Dimensions with two leapfrog steps instead of one."""


class Case(NamedTuple):
    """One target with one kernel.

    Attributes:
      event_size: d.
      log_prob: makes the log-density of q [C, d]; called within the program.
      preconditioner: of the kernel.
    """

    event_size: int
    log_prob: Callable[[], Callable]
    preconditioner: Callable

    def kernel(self, num_adaptation_steps: int) -> tfpa.EntropyAdaptiveHMC:
        """With a velocity that is kept in part, as the default of `sample`."""
        return tfpa.EntropyAdaptiveHMC(
            self.log_prob(),
            num_leapfrog_steps=1 if self.event_size < _LONGER_FROM else 2,
            momentum_refreshment=0.6,
            num_adaptation_steps=num_adaptation_steps,
            preconditioner=self.preconditioner(),
        )

    def start(self, num_chains: int, seed: tf.Tensor) -> tf.Tensor:
        """First positions [C, d]."""
        return _INITIAL_SCALE * tf.random.stateless_normal([num_chains, self.event_size], seed)


def make_case(name: str, preconditioner: str, **options: Any) -> Case:
    """A case by the settings of its target.

    Args:
      name: autoregression, simulated_regression, or a target of the experiments.
      preconditioner: as in the benchmark.
      **options: of the target.
    """
    factory = PRECONDITIONERS[preconditioner]
    if name == 'autoregression':
        return Case(options['num_dims'], lambda: autoregression(_PHI), factory)
    if name == 'simulated_regression':
        return Case(options['num_dims'], lambda: simulated_regression(**options), factory)
    target = targets.make(name, **options)
    return Case(target.event_size, lambda: target.log_prob, factory)


def gradients(case: Case, num_chains: int) -> Callable:
    """(seed, num_steps) -> positions [C, d] after as many log-densities with gradients."""

    def run(seed, num_steps):
        log_prob = case.log_prob()
        position = case.start(num_chains, tf.stack([seed, 0]))

        def body(step, position):
            value, gradient = tfp.math.value_and_gradient(log_prob, position)
            # no step at all, which the compiler cannot know
            stride = tf.cast(seed * num_steps < 0, position.dtype)
            return step + 1, position + stride * (gradient + value[:, tf.newaxis])

        return tf.while_loop(lambda step, _: step < num_steps, body, (0, position))[1]

    return run


def steps(case: Case, num_chains: int, num_adaptation_steps: int) -> Callable:
    """(seed, num_warmup_steps, num_results) -> what a run of the kernel leaves.

    The result is the mean position [d] of all chains as sampling begins, the means over each
    chain's draws of the first, second and fourth powers of the distance from it, [C, d] each, and
    each chain's acceptance [C].
    """

    def run(seed, num_warmup_steps, num_results):
        kernel = case.kernel(num_adaptation_steps)
        position = case.start(num_chains, tf.stack([seed, 0]))

        def learn(step, position, results):
            step_seed = tf.random.experimental.stateless_fold_in(tf.stack([seed, 1]), step)
            position, results = kernel.one_step(position, results, seed=step_seed)
            return step + 1, position, results

        start = 0, position, kernel.bootstrap_results(position)
        _, position, results = tf.while_loop(lambda step, *_: step < num_warmup_steps, learn, start)
        frozen = kernel.frozen(results)
        middle = tf.reduce_mean(position, axis=0)

        def draw(step, position, results, sums):
            step_seed = tf.random.experimental.stateless_fold_in(tf.stack([seed, 2]), step)
            position, results = frozen.one_step(position, results, seed=step_seed)
            squared = (position - middle) ** 2
            accepted = tf.cast(results.is_accepted, position.dtype)
            new = position - middle, squared, squared**2, accepted
            return step + 1, position, results, tuple(a + b for a, b in zip(sums, new, strict=True))

        zeros = tf.zeros_like(position)
        sums = zeros, zeros, zeros, zeros[:, 0]
        first = 0, position, frozen.bootstrap_results(position), sums
        sums = tf.while_loop(lambda step, *_: step < num_results, draw, first)[-1]
        count = tf.cast(tf.maximum(num_results, 1), position.dtype)
        return (middle, *(each / count for each in sums))

    return run


def export(
    config: Config, folder: pathlib.Path
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Writes all programs, and what `measure.py` has to know of them.

    A file is named after what is in it, so that a program which has not changed keeps its name.

    Args:
      config: of the experiment `accelerator`.
      folder: made if missing.

    Returns:
      What each program is of, with its files; and each run of another sampler.
    """
    settings = config.settings
    folder.mkdir(parents=True, exist_ok=True)
    entries, peers = [], []
    for label, options in config.chosen_targets():
        chains = options.pop('num_chains')
        peers += _peers(label, options)
        case = make_case(**options)
        entries += [
            {'target': label, **_export(case, num_chains, platform, settings, folder)}
            for num_chains in chains
            for platform in PLATFORMS
        ]
    manifest = {'settings': settings, 'programs': entries, 'peers': peers}
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1))
    _write_peer_data(peers, folder)
    return entries, peers


def _peers(label, options) -> list[dict[str, Any]]:
    """What `measure.py` has to know of each run of ChEES-HMC on a target."""
    chains = options.pop('peer_chains', [])
    density = {**options, 'phi': _PHI}
    return [
        {
            'program': f'ChEES-HMC, {label}, {num_chains} chains',
            'target': label,
            'num_chains': num_chains,
            'density': density,
        }
        for num_chains in chains
    ]


def _write_peer_data(peers, folder) -> None:
    """Arrays that the densities of the peers need."""
    found: dict[str, Any] = {}
    for density in (peer['density'] for peer in peers):
        if density['name'] == 'logistic_regression':
            covariates, labels = data_sets.load(density['data'])
            found |= {'design': design_matrix(covariates), 'labels': labels}
        elif density['name'] == 'gaussian':
            found['whitening'], _ = whiten(density['kind'], density['num_dims'], _CONDITION_NUMBER)
    np.savez(folder / _PEER_DATA, **found)


def _export(case, num_chains, platform, settings, folder) -> dict[str, Any]:
    steps_of = steps(case, num_chains, settings['num_warmup_steps'])
    # the package writes another program where TensorFlow sees an accelerator
    with mock.patch.object(devices, 'has_accelerator', return_value=platform == 'GPU'):
        return {
            'num_dims': case.event_size,
            'num_chains': num_chains,
            'platform': platform,
            'gradients': _write(gradients(case, num_chains), 2, folder),
            'steps': _write(steps_of, 3, folder),
        }


def _write(function, num_arguments, folder) -> dict[str, Any]:
    """Writes a function of whole numbers; its file, and the shapes of what it returns."""

    @tf.function(jit_compile=True, autograph=False)
    def of_numbers(*numbers):
        return tf.nest.flatten(function(*numbers))

    specs = [tf.TensorSpec([], tf.int32)] * num_arguments
    shapes = [shape.as_list() for shape in of_numbers.get_concrete_function(*specs).output_shapes]
    lower = of_numbers.experimental_get_compiler_ir(*specs)
    # names of functions hold counters of this process
    text = re.sub(r'_\d+_', '_', lower(stage='stablehlo'))
    name = f'{hashlib.sha256(text.encode()).hexdigest()[:16]}.mlir'
    (folder / name).write_bytes(lower(stage='stablehlo_serialized'))
    return {'file': name, 'num_arguments': num_arguments, 'shapes': shapes}
