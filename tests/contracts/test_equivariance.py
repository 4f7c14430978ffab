"""Relative coordinates learn as fast on a badly scaled target as on a well scaled one.

Scaling coordinate i by s_i scales the chains and the learned factor with it and changes nothing
else: the whole run is the same run in other units.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tfp_adaptive as tfpa
from tests.contracts.comparisons import assert_close, log_det_of
from tests.support import targets
from tests.support.catalogue import DEFAULT, KERNELS

TARGET = targets.SKEWED
MALA = KERNELS[0]
NUM_STEPS = 30
SCALE = np.geomspace(1e-3, 1e3, 7)[[3, 0, 6, 2, 5, 1, 4]]

PRECONDITIONERS = {
    'cholesky': tfpa.preconditioners.cholesky,
    'bordered': lambda initial_scale: tfpa.preconditioners.banded(1, 2, initial_scale),
    'real_nvp': lambda initial_scale: tfpa.preconditioners.real_nvp([8], initial_scale),
}
"""A linear one, one with steps of its own for its parts, and a flow.

The gradients and moves of every linear family in other units are in the unit tests.
"""


def _kernel(preconditioner, scale, entry):
    return entry.make(
        lambda x: TARGET.log_prob(x / scale),
        NUM_STEPS,
        preconditioner=preconditioner(0.2 * scale),
    )


@functools.cache
def _program(preconditioner, entry):
    """A step in any units: the initial scale is in the kernel results already."""

    @tf.function(autograph=False)
    def step(state, results, scale, seed):
        return _kernel(preconditioner, scale, entry).one_step(state, results, seed=seed)

    return step


def _run(preconditioner, scale, seed, entry=DEFAULT):
    """Chains and results in units of `scale`, as a run from the same whitened start."""
    scale = tf.constant(scale, tf.float64)
    kernel = _kernel(preconditioner, scale, entry)
    state = scale * TARGET.draw(seed, [8], 'float64')
    step, results = _program(preconditioner, entry), kernel.bootstrap_results(state)
    for i in range(NUM_STEPS):
        state, results = step(state, results, scale, tf.constant([seed, i]))
    log_det = log_det_of(kernel, state, results.adaptation.preconditioner)
    whitened = log_det - tf.reduce_sum(tf.math.log(scale))
    return state / scale, results.log_accept_ratio, results.adaptation.optimizer, whitened


@pytest.mark.parametrize('name', PRECONDITIONERS)
def test_units_do_not_matter(name, seed):
    # two steps of a flow take long to trace
    entry = MALA if name == 'real_nvp' else DEFAULT
    scaled, plain = (
        _run(PRECONDITIONERS[name], scale, seed, entry=entry) for scale in (SCALE, np.ones(7))
    )
    assert_close(scaled, plain, rtol=1e-6)


def test_units_matter_in_euclidean_coordinates(seed):
    """The same comparison tells them apart."""

    def euclidean(initial_scale):
        return tfpa.preconditioners.cholesky(initial_scale, coordinates='euclidean')

    scaled, plain = (_run(euclidean, scale, seed)[0] for scale in (SCALE, np.ones(7)))
    assert np.max(np.abs(scaled - plain)) > 0.1
