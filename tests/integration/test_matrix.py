"""Every kernel of the catalogue in every way TFP composes kernels, in graph mode and under XLA.

The product takes most of an hour and is among the slow tests. The default run holds every
composition once in graph mode, with kernels in turn, and one under XLA; test_composition has two
more under XLA.
"""

import functools
import itertools

import pytest
import tensorflow as tf

from tests.integration.compositions import COMPOSITIONS, NUM_ADAPTATION_STEPS, NUM_CHAINS
from tests.support import targets
from tests.support.catalogue import ON_DENSITIES

TARGET = targets.LIST

IN_TURN = ('mala', 'random_walk', 'gradient_mala_exact')
"""Kernels of the default run, one a composition: those that are cheap to trace."""

IN_ADDITION = (
    ('adapter_of_transformed', 'hmc2', 'graph'),
    ('exchange', 'hmc2_momentum', 'graph'),
    ('exchange', 'random_walk', 'xla'),
)


def _cases():
    cases = []
    for index, composition in enumerate(COMPOSITIONS):
        in_turn = (composition.name, IN_TURN[index % len(IN_TURN)], 'graph')
        for entry, mode in itertools.product(ON_DENSITIES, ('graph', 'xla')):
            case = (composition.name, entry.name, mode)
            is_slow = case != in_turn and case not in IN_ADDITION
            marks = [pytest.mark.slow] if is_slow else []
            cases.append(pytest.param(composition, entry, mode, marks=marks, id='-'.join(case)))
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
