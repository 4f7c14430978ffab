"""A learned proposal without its learning."""

import functools
from typing import Any

import tensorflow as tf

from tfp_adaptive.internal import random
from tfp_adaptive.kernels import base, metropolis
from tfp_adaptive.kernels.geometry import check_preconditioner, make_move
from tfp_adaptive.kernels.gradient_adaptive import Adaptation, Noise
from tfp_adaptive.typing import Info, Preconditioner, Proposal, Sampler


class FrozenKernel(base.SamplerKernel):
    """An exact Metropolis-Hastings kernel with a fixed preconditioner.

    Usually made by `kernel.frozen(kernel_results)`. Its graph holds no adaptation code, and the
    preconditioner travels in `kernel_results.adaptation.preconditioner`, so that one compiled
    program serves every proposal of the same shape.

    Example:
      >>> frozen = kernel.frozen(results)
      >>> draws = tfp.mcmc.sample_chain(
      ...     100, state, kernel=frozen, trace_fn=None, seed=(0, 1))
    """

    def __init__(
        self,
        target_log_prob_fn,
        proposal: Proposal,
        preconditioner: Preconditioner,
        parameters_of_preconditioner: Any,
        step_size=1.0,
        name: str | None = None,
    ):
        """Initializes this kernel.

        Args:
          target_log_prob_fn: callable of the state parts [*batch, *event] -> [*batch].
          proposal: for instance `proposals.leapfrog(2)`.
          preconditioner: for instance `preconditioners.cholesky()`.
          parameters_of_preconditioner: its parameters, for instance C [D, D].
          step_size: factor on C; a scalar, or one value per chain.
          name: prefix of operation names. Default: 'frozen_kernel'.
        """
        parameters = dict(locals())
        sampler = frozen_sampler(proposal, preconditioner, parameters_of_preconditioner)
        super().__init__(parameters, sampler)

    @property
    def is_calibrated(self) -> bool:
        """`True`."""
        return True


def frozen_sampler(proposal: Proposal, preconditioner: Preconditioner, parameters: Any) -> Sampler:
    """The proposal at fixed parameters: nothing but the gradients of the move.

    Args:
      proposal: how a move is made.
      preconditioner: the family of factors C.
      parameters: of the preconditioner.

    Returns:
      A `Sampler` whose adaptation holds the parameters, so that a compiled program takes them as
      an argument.
    """
    check_preconditioner(preconditioner, proposal)
    return Sampler(
        init=lambda target, state: Adaptation(parameters),
        init_info=functools.partial(_init_info, proposal),
        draw=functools.partial(draw_noise, proposal),
        step=functools.partial(_step, proposal, preconditioner),
        uses_score=proposal.uses_score,
        uses_velocity=proposal.uses_velocity,
        sequence_limit=proposal.sequence_limit,
        num_values=0 if proposal.uses_score else 1,
    )


def _init_info(proposal, dtype):
    num_gradients = tf.constant(1 if proposal.uses_score else 0)
    return Info(tf.zeros([], dtype), (), (), (), (), tf.constant(0), num_gradients, ())


def draw_noise(proposal, seed, num_chains, event_size, dtype):
    """Noise of a move and its acceptance, and of nothing else."""
    move_seed, accept_seed = random.split(seed, 2)
    return Noise(
        move=proposal.draw(move_seed, num_chains, event_size, dtype),
        entropy=(),
        log_uniform=metropolis.draw_log_uniform(accept_seed, num_chains, dtype),
    )


def _step(proposal, preconditioner, target, state, adaptation, info, noise, step_size, step):
    del step
    make = make_move(target.event, proposal, preconditioner)
    move = make(target, adaptation.preconditioner, step_size, state, noise.move)
    transition = metropolis.metropolis_hastings(move, noise.log_uniform)
    info = info._replace(
        accept_prob=tf.reduce_mean(metropolis.accept_prob(transition)),
        num_nonfinite=info.num_nonfinite + metropolis.num_nonfinite(transition),
        num_gradients=info.num_gradients + move.num_gradients,
    )
    return transition, adaptation, info
