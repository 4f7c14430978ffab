"""Every kernel of the catalogue in every way TFP composes kernels, in graph mode and under XLA.

The product takes most of an hour and is among the slow tests. The default run holds every
composition once in graph mode, with kernels in turn, unless it is a part of another one;
test_composition has one under XLA.
"""

import functools
import itertools

import pytest
import tensorflow as tf

from tests.integration.compositions import COMPOSITIONS, NUM_ADAPTATION_STEPS, NUM_CHAINS
from tests.support import targets
from tests.support.catalogue import ON_DENSITIES

TARGET = targets.LIST

IN_TURN = ('mala', 'random_walk', 'adaptive_metropolis')
"""Kernels of the default run, one a composition: those that are cheap to trace."""

WITH_PRODUCTS = {'adapter_of_transformed': 'hmc2'}
"""And one that takes Hessian-vector products."""

PARTS = ('plain', 'transformed', 'dual_averaging', 'simple_step_size', 'exchange')
"""Compositions that others contain."""


def _cases():
    cases = []
    for index, composition in enumerate(COMPOSITIONS):
        name = composition.name
        in_turn = WITH_PRODUCTS.get(name, IN_TURN[index % len(IN_TURN)])
        for entry, mode in itertools.product(ON_DENSITIES, ('graph', 'xla')):
            is_default = (entry.name, mode) == (in_turn, 'graph') and name not in PARTS
            marks = [] if is_default else [pytest.mark.slow]
            case = f'{name}-{entry.name}-{mode}'
            cases.append(pytest.param(composition, entry, mode, marks=marks, id=case))
    return cases


@pytest.mark.parametrize(('composition', 'entry', 'mode'), _cases())
def test_composition(composition, entry, mode, seed):
    def make(target_log_prob_fn, **overrides):
        return entry.make(target_log_prob_fn, NUM_ADAPTATION_STEPS, **overrides)

    state = TARGET.draw(seed, [NUM_CHAINS])
    program = tf.function(
        functools.partial(composition.run, make, TARGET),
        jit_compile=mode == 'xla',
        autograph=False,
    )
    outcome = program(state, tf.constant([seed, 5]))
    composition.verify(outcome, make(TARGET.log_prob).bootstrap_results(state))
