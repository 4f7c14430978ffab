"""The No-U-Turn Sampler of TFP with the classical warm-up, in whitened coordinates."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive import tuning
from tfp_adaptive.internal import chains
from tfp_adaptive.kernels import base, windowed, windowed_base
from tfp_adaptive.kernels.energy_gradients import proposal_factor
from tfp_adaptive.tuning import MetricEstimator, Schedule, StepSizeRule
from tfp_adaptive.typing import ChainState, Tensor, Transition


class Trajectories(NamedTuple):
    """What is counted of each chain since the bootstrap."""

    num_leapfrogs: Tensor
    """int32 [*batch]: leapfrog steps, each a gradient of this chain."""


class WindowedNUTS(windowed_base.WindowedKernel):
    """`tfp.mcmc.NoUTurnSampler` tuned as in Stan: dual averaging, and a metric in windows.

    One step, for every chain at q: the trajectory runs on z, where q + step_size * eps * C z is the
    position, with unit mass and unit step. During the first `num_adaptation_steps` steps eps and C
    are tuned as in `WindowedHMC`, by the mean acceptance probability over the tree of each chain,
    and then the harmonic mean over chains, so that the step suits chains in narrow places too.

    `KernelResults.log_accept_ratio` is the logarithm of that average, or -inf where the trajectory
    diverged, that is, where its energy error passed `max_energy_diff`; `info.num_nonfinite` counts
    such trajectories. `info.num_gradients` counts the leapfrog steps of the longest trajectory of
    each step, for which all chains of a batch wait; `memory.num_leapfrogs` counts each chain's own.

    Unlike `tfp.experimental.mcmc.windowed_adaptive_nuts` it is a kernel: it takes any state
    structure, can be stopped and resumed at any step, and pools over replicas.

    Reference: M. Hoffman, A. Gelman. The No-U-Turn Sampler. JMLR 2014; Stan reference manual,
    automatic parameter tuning.

    Example:
      >>> kernel = tfpa.WindowedNUTS(target_log_prob_fn, num_adaptation_steps=500)
      >>> warm_up = tfp.mcmc.sample_chain(
      ...     500, state, kernel=kernel, trace_fn=None, return_final_kernel_results=True,
      ...     seed=(0, 1))
      >>> frozen = kernel.frozen(warm_up.final_kernel_results)
    """

    def __init__(
        self,
        target_log_prob_fn: Callable,
        num_adaptation_steps: int = 1000,
        metric: MetricEstimator | None = None,
        *,
        step_size_rule: StepSizeRule | None = None,
        schedule: Schedule | None = None,
        target_accept_prob: float = 0.8,
        max_tree_depth: int = 10,
        max_energy_diff: float = 1000.0,
        step_size=1.0,
        pool_fn: Callable[[list], list] | None = None,
        name: str | None = None,
    ):
        """Initializes this kernel.

        Args:
          target_log_prob_fn: callable of the state parts, each [*batch, *event], that returns the
            log-density, shape [*batch]; differentiable.
          num_adaptation_steps: steps that learn, a Python int; bitwise constant after. Default
            1000.
          metric: how C is estimated. Default `None`: `tuning.variance()`.
          step_size_rule: how eps is tuned. Default `None`: `tuning.dual_averaging` with
            `target_accept_prob`, after `tuning.initial_step_search`.
          schedule: when the metric is renewed. Default `None`: `tuning.windows()`.
          target_accept_prob: in (0, 1), steers eps unless `step_size_rule` is given. Default 0.8.
          max_tree_depth: at most 2^max_tree_depth - 1 leapfrog steps a trajectory. Default 10.
          max_energy_diff: energy error at which a trajectory is called divergent. Default 1000.
          step_size: factor on eps C; a scalar, or one value per chain. Default 1.
          pool_fn: as in `WindowedHMC`. Default `None`: one replica.
          name: prefix of operation names. Default: 'windowed_nuts'.

        Raises:
          TypeError: if `target_log_prob_fn` is not callable, or an axis is not made by its module.
          ValueError: if an argument is out of its range.
        """
        parameters = dict(locals())
        _check_limits(max_tree_depth, max_energy_diff)
        rule = windowed_base.default_rule(target_accept_prob)
        mover = _mover(metric or tuning.variance(), max_tree_depth, max_energy_diff)
        super().__init__(parameters, mover, rule)

    def _initial_memory(self, parts, log_prob, grads):
        return _no_trajectories(log_prob)

    def frozen(self, kernel_results: base.KernelResults) -> 'FrozenNUTS':
        """The learned proposal as a kernel of its own, with no adaptation code in its graph.

        Args:
          kernel_results: results of this kernel, for instance the final ones of the warm-up.

        Returns:
          A `FrozenNUTS` with eps C and the step size of `kernel_results`.

        Raises:
          TypeError: if `kernel_results` are not those of a kernel of this package.
        """
        windowed_base.check_results(kernel_results)
        return FrozenNUTS(
            self.target_log_prob_fn,
            self._axes.metric,
            kernel_results.adaptation.preconditioner,
            max_tree_depth=self._parameters['max_tree_depth'],
            max_energy_diff=self._parameters['max_energy_diff'],
            step_size=kernel_results.step_size,
            name=self._parameters['name'],
        )


class FrozenNUTS(base.SamplerKernel):
    """`tfp.mcmc.NoUTurnSampler` with a fixed factor; made by `WindowedNUTS.frozen`.

    Example:
      >>> kernel = tfpa.WindowedNUTS(target_log_prob_fn, num_adaptation_steps=0)
      >>> frozen = kernel.frozen(kernel.bootstrap_results(state))
      >>> draws = tfp.mcmc.sample_chain(100, state, kernel=frozen, trace_fn=None, seed=(0, 1))
    """

    def __init__(
        self,
        target_log_prob_fn: Callable,
        metric: MetricEstimator,
        parameters_of_preconditioner: Any,
        *,
        max_tree_depth: int = 10,
        max_energy_diff: float = 1000.0,
        step_size=1.0,
        name: str | None = None,
    ):
        """Initializes this kernel.

        Args:
          target_log_prob_fn: callable of the state parts [*batch, *event] -> [*batch].
          metric: the estimator whose family of factors is used.
          parameters_of_preconditioner: of eps C.
          max_tree_depth: at most 2^max_tree_depth - 1 leapfrog steps a trajectory. Default 10.
          max_energy_diff: energy error at which a trajectory is called divergent. Default 1000.
          step_size: factor on eps C; a scalar, or one value per chain. Default 1.
          name: prefix of operation names. Default: 'frozen_nuts'.
        """
        parameters = dict(locals())
        mover = _mover(metric, max_tree_depth, max_energy_diff)
        super().__init__(parameters, windowed.fixed_sampler(mover, parameters_of_preconditioner))

    @property
    def is_calibrated(self) -> bool:
        """`True`."""
        return True

    def _initial_memory(self, parts, log_prob, grads):
        return _no_trajectories(log_prob)


def _no_trajectories(log_prob):
    return Trajectories(tf.zeros_like(log_prob, tf.int32))


def _check_limits(max_tree_depth, max_energy_diff) -> None:
    if (
        isinstance(max_tree_depth, bool)
        or not isinstance(max_tree_depth, int)
        or max_tree_depth < 1
    ):
        raise ValueError(f'`max_tree_depth` must be an int of at least 1; got {max_tree_depth!r}.')
    if not max_energy_diff > 0:
        raise ValueError(f'`max_energy_diff` must be positive; got {max_energy_diff!r}.')


def _mover(metric, max_tree_depth, max_energy_diff) -> windowed.Mover:
    def move(target, parameters, step_size, state, seed):
        factor = proposal_factor(metric.preconditioner, parameters, step_size)
        kernel = tfp.mcmc.NoUTurnSampler(
            _whitened(target, factor, state.position),
            step_size=tf.ones([], state.position.dtype),
            max_tree_depth=max_tree_depth,
            max_energy_diff=max_energy_diff,
        )
        start = tf.zeros_like(state.position)
        # in a graph the density that TFP evaluates here is computed by nobody
        results = kernel.bootstrap_results(start)._replace(
            target_log_prob=state.log_prob, grads_target_log_prob=[factor.transpose(state.score)]
        )
        end, results = kernel.one_step(start, results, seed=seed)
        has_moved = tf.reduce_any(end != 0, axis=-1) & tf.math.is_finite(results.target_log_prob)
        has_moved &= tf.math.is_finite(state.log_prob)
        gradient = results.grads_target_log_prob[0] / step_size
        num_leapfrogs = tf.cast(results.leapfrogs_taken, tf.int32)
        score = metric.inverse_transpose(parameters, gradient)
        after = ChainState(
            chains.where(has_moved, state.position + factor.forward(end), state.position),
            chains.where(has_moved, results.target_log_prob, state.log_prob),
            chains.where(has_moved, score, state.score),
            memory=Trajectories(state.memory.num_leapfrogs + num_leapfrogs),
        )
        accept_prob, ratio = _acceptance(state, results)
        return windowed.Step(
            Transition(after, after, ratio, has_moved), accept_prob, tf.reduce_max(num_leapfrogs)
        )

    return windowed.Mover(
        draw=lambda seed, num_chains, event_size, dtype: seed,
        move=move,
        stable_fraction=0.5,
        mean=windowed.HARMONIC,
    )


def _acceptance(state, results):
    """[C] mean over the tree, and [C] its logarithm, -inf for trajectories that were no good."""
    ratio = results.log_accept_ratio
    is_number = tf.math.is_finite(state.log_prob) & ~tf.math.is_nan(ratio)
    impossible = tf.fill(tf.shape(ratio), tf.constant(float('-inf'), ratio.dtype))
    ratio = tf.where(is_number, ratio, impossible)
    accept_prob = tf.exp(tf.minimum(ratio, 0))
    return accept_prob, tf.where(results.has_divergence, impossible, ratio)


def _whitened(target, factor, origin):
    """The log-density at origin + F z, z [C, D], with its gradient in closed form.

    As a sum of its value and zero times its slope: TensorFlow keeps the functions of
    `tf.custom_gradient` for good, and all that they hold with them.
    """

    def log_prob(z):
        fixed = tf.stop_gradient(z)
        value, score = target.value_and_score(origin + factor.forward(fixed))
        slope = tf.stop_gradient(factor.transpose(score))
        zeros = chains.sum_of_row(tf.math.multiply_no_nan(slope, z - fixed))
        return tf.stop_gradient(value) + zeros

    return log_prob
