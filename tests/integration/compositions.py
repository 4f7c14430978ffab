"""The ways TFP composes a kernel: adapters, transformations, replica exchange, reducers, drivers.

Adding a way is one line in `COMPOSITIONS`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tests.contracts.comparisons import all_finite, is_identical

tfb, tfmc = tfp.bijectors, tfp.experimental.mcmc

NUM_ADAPTATION_STEPS, NUM_STEPS = 10, 16
NUM_CHAINS = 8
INVERSE_TEMPERATURES = [1.0, 0.25]


class Outcome(NamedTuple):
    """What a composition leaves behind.

    Attributes:
      states: draws, or what the driver makes of them.
      learned: parameters of the preconditioner, after each step seen or after the last alone.
      step: the kernel's count of steps, likewise.
      rest: what the composition's own `check` looks at.
    """

    states: Any
    learned: Any
    step: Any
    rest: Any = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Composition:
    """A way to use a kernel.

    Attributes:
      name: for test ids.
      run: (make, target, state, seed) -> `Outcome`, inside a program; `make` is a function of a
        log-density and of overrides that makes the kernel.
      check: of the outcome, beside that it is finite and that the kernel learned in it.
    """

    name: str
    run: Callable
    check: Callable = lambda outcome: None

    def verify(self, outcome, bootstrapped):
        """Asserts what holds for all compositions, then what holds for this one."""
        assert all_finite([outcome.states, outcome.learned])
        if np.ndim(outcome.step):
            _check_learned_once(outcome.learned, outcome.step)
        else:
            assert outcome.step == NUM_STEPS
            assert not is_identical(outcome.learned, bootstrapped.adaptation.preconditioner)
        self.check(outcome)


def _check_learned_once(learned, step):
    """It moves up to the last step of adaptation, and not at all after."""
    leaves = [np.reshape(leaf, [len(leaf), -1]) for leaf in tf.nest.flatten(learned)]
    rows, step = np.concatenate(leaves, axis=1), np.asarray(step)
    learning, after = rows[step <= NUM_ADAPTATION_STEPS], rows[step >= NUM_ADAPTATION_STEPS]
    assert len(learning) > 2
    assert len(after) > 2
    assert np.all(np.any(learning[:-1] != learning[1:], axis=1))
    np.testing.assert_array_equal(after, np.broadcast_to(after[0], after.shape))


def ours(results):
    """The results of our kernel inside those of the wrappers around it."""
    names = ('inner_results', 'post_swap_replica_results')
    while not hasattr(results, 'adaptation'):
        results = next(getattr(results, name) for name in names if hasattr(results, name))
    return results


def _seen(results):
    return ours(results).adaptation.preconditioner, ours(results).step


# ---- kernels around the kernel


def _around(wrap, keep=lambda results: (), num_results=NUM_STEPS):
    """`tfp.mcmc.sample_chain` of the kernel that wrap(make, target, state) makes."""

    def run(make, target, state, seed):
        states, (seen, rest) = tfp.mcmc.sample_chain(
            num_results,
            state,
            kernel=wrap(make, target, state),
            trace_fn=lambda _, results: (_seen(results), keep(results)),
            seed=seed,
        )
        return Outcome(states, *seen, rest)

    return run


def _bijectors(state):
    return [tfb.Scale(2.0), tfb.Shift(1.0)] if isinstance(state, list) else tfb.Scale(2.0)


def _transformed(kernel, state):
    return tfp.mcmc.TransformedTransitionKernel(kernel, _bijectors(state))


def _exchange(target, make_kernel):
    return tfp.mcmc.ReplicaExchangeMC(
        target.log_prob, inverse_temperatures=INVERSE_TEMPERATURES, make_kernel_fn=make_kernel
    )


def _dual(kernel):
    return tfp.mcmc.DualAveragingStepSizeAdaptation(kernel, NUM_ADAPTATION_STEPS + 2)


def _simple(kernel):
    return tfp.mcmc.SimpleStepSizeAdaptation(kernel, NUM_ADAPTATION_STEPS + 2)


def _per_chain(make, target):
    """From timid to bold, so that an adapter has to move them apart."""
    return make(target.log_prob, step_size=np.geomspace(0.5, 20, NUM_CHAINS)[:, np.newaxis])


def _step_size(results):
    return ours(results).step_size


def _check_step_size(outcome):
    """It moves while the adapter adapts, and then stays."""
    steps = np.asarray(outcome.rest)
    assert np.all(np.ptp(steps, axis=0) > 0)
    last = steps[NUM_ADAPTATION_STEPS + 2 :]
    np.testing.assert_array_equal(last, np.broadcast_to(last[0], last.shape))


def _check_step_sizes(outcome):
    _check_step_size(outcome)
    assert outcome.rest.shape == (NUM_STEPS, NUM_CHAINS, 1)
    growth = outcome.rest[-1] / outcome.rest[0]
    assert growth[0] > 1 > growth[-1]


def _is_swap_accepted(results):
    while not hasattr(results, 'is_swap_accepted'):
        results = results.inner_results
    return results.is_swap_accepted


def _check_swaps(outcome):
    assert np.any(outcome.rest)


def _check_every_second_step(outcome):
    np.testing.assert_array_equal(np.diff(outcome.step), 2)


# ---- drivers


def _experimental_sample_chain(make, target, state, seed):
    draws = tfmc.sample_chain(
        make(target.log_prob),
        NUM_STEPS,
        state,
        trace_fn=lambda state, results: (state, _seen(results)),
        seed=seed,
    )
    states, seen = draws.trace
    return Outcome(states, *seen)


def _sample_chain_with_burnin(make, target, state, seed):
    draws = tfmc.sample_chain_with_burnin(
        NUM_STEPS - 4,
        state,
        kernel=make(target.log_prob),
        num_burnin_steps=4,
        trace_fn=lambda state, results: (state, _seen(results)),
        seed=seed,
    )
    states, seen = draws.trace
    return Outcome(states, *seen)


def _check_burn_in(outcome):
    np.testing.assert_array_equal(outcome.step, np.arange(5, NUM_STEPS + 1))


def _step_kernel(make, target, state, seed):
    end, results = tfmc.step_kernel(
        NUM_STEPS,
        state,
        kernel=make(target.log_prob),
        return_final_kernel_results=True,
        seed=seed,
    )
    return Outcome(end, *_seen(results))


def _sample_fold(make, target, state, seed):
    reductions, end, results = tfmc.sample_fold(
        NUM_STEPS,
        state,
        kernel=make(target.log_prob),
        reducer=[tfmc.ExpectationsReducer(), tfmc.CovarianceReducer(event_ndims=0)],
        seed=seed,
    )
    return Outcome(reductions, *_seen(results), end)


def _check_reductions(outcome):
    """The mean and variance of every coordinate of every chain over the steps."""
    for mean, variance, end in zip(*outcome.states, outcome.rest, strict=True):
        assert mean.shape == variance.shape == end.shape
        assert np.all(np.asarray(variance) >= 0)
        assert np.any(np.asarray(variance) > 0)


def _with_reductions(make, target, state, seed):
    reducer = tfmc.ExpectationsReducer()
    states, seen, results = tfp.mcmc.sample_chain(
        NUM_STEPS,
        state,
        kernel=tfmc.WithReductions(make(target.log_prob), reducer),
        trace_fn=lambda _, results: _seen(results),
        return_final_kernel_results=True,
        seed=seed,
    )
    return Outcome(states, *seen, reducer.finalize(results.reduction_results))


def _check_mean(outcome):
    for mean, states in zip(outcome.rest, outcome.states, strict=True):
        np.testing.assert_allclose(mean, np.mean(states, axis=0), rtol=1e-4, atol=1e-4)


COMPOSITIONS = (
    Composition('plain', _around(lambda make, target, state: make(target.log_prob))),
    Composition(
        'transformed',
        _around(lambda make, target, state: _transformed(make(target.log_prob), state)),
    ),
    Composition(
        'dual_averaging',
        _around(lambda make, target, state: _dual(make(target.log_prob)), _step_size),
        _check_step_size,
    ),
    Composition(
        'dual_averaging_per_chain',
        _around(lambda make, target, state: _dual(_per_chain(make, target)), _step_size),
        _check_step_sizes,
    ),
    Composition(
        'simple_step_size',
        _around(lambda make, target, state: _simple(make(target.log_prob)), _step_size),
        _check_step_size,
    ),
    Composition(
        'simple_step_size_per_chain',
        _around(lambda make, target, state: _simple(_per_chain(make, target)), _step_size),
        _check_step_sizes,
    ),
    Composition(
        'adapter_of_transformed',
        _around(
            lambda make, target, state: _dual(_transformed(make(target.log_prob), state)),
            _step_size,
        ),
        _check_step_size,
    ),
    Composition(
        'transformed_adapter',
        _around(
            lambda make, target, state: _transformed(_dual(make(target.log_prob)), state),
            _step_size,
        ),
        _check_step_size,
    ),
    Composition(
        'exchange',
        _around(lambda make, target, state: _exchange(target, make), _is_swap_accepted),
        _check_swaps,
    ),
    Composition(
        'exchange_of_adapters',
        _around(
            lambda make, target, state: _exchange(target, lambda fn: _dual(make(fn))),
            lambda results: results.is_swap_accepted,
        ),
        _check_swaps,
    ),
    Composition(
        'transformed_exchange',
        _around(
            lambda make, target, state: _transformed(_exchange(target, make), state),
            _is_swap_accepted,
        ),
        _check_swaps,
    ),
    Composition(
        'discarding',
        _around(
            lambda make, target, state: tfmc.SampleDiscardingKernel(
                make(target.log_prob), num_burnin_steps=2, num_steps_between_results=1
            ),
            num_results=NUM_STEPS // 2,
        ),
        _check_every_second_step,
    ),
    Composition(
        'thinning',
        _around(
            lambda make, target, state: tfmc.ThinningKernel(
                make(target.log_prob), num_steps_to_skip=1
            ),
            num_results=NUM_STEPS // 2,
        ),
        _check_every_second_step,
    ),
    Composition(
        'sharded',
        _around(lambda make, target, state: tfmc.Sharded(make(target.log_prob), 'chains')),
    ),
    Composition('with_reductions', _with_reductions, _check_mean),
    Composition('sample_fold', _sample_fold, _check_reductions),
    Composition('step_kernel', _step_kernel),
    Composition('experimental_sample_chain', _experimental_sample_chain),
    Composition('sample_chain_with_burnin', _sample_chain_with_burnin, _check_burn_in),
)
