"""The core step of pseudo-marginal samplers: propose theta and noise, estimate, accept.

For every chain, with the lane (q, u, u~) whose turn it is, step size eps and covariance Sigma:

    S   = eps^2 H, with H = Sigma, a quasi-Newton matrix of the other lanes, or H(q, u)
    q'  ~ N(q + s S g(q, u~) / 2, S),   s = min(1, 2 / eps^2)
    u'  = rho u + sqrt(1 - rho^2) xi,   and u~' likewise;   xi ~ N(0, I)
    accept (q', u', u~') with probability min(1, exp(-Delta)),
        Delta = log p(q, u) - log p(q', u') + log N(q' | q) - log N(q | q')

The other lanes stay as they are, so S is the same in both directions: a Metropolis-Hastings step
within a Gibbs sampler over the lanes. An H(q, u) is that of the place the move starts from, in
either direction. As published, the forward density uses the S of the lane's last move instead,
which is no such step: that chain is biased.

The share s of the drift is one in most cases, and always as published. With the long steps that a
low acceptance makes in one dimension the whole drift would lead from a tail to beyond the other
one: of chains that started there some never moved.
"""

import functools
from typing import Any

import tensorflow as tf

from tfp_adaptive.internal import chains, factorization, loops, random
from tfp_adaptive.internal.curvature import stable_scale
from tfp_adaptive.kernels import lanes, metropolis, windowed
from tfp_adaptive.kernels.gradient_adaptive import Adaptation, Noise
from tfp_adaptive.kernels.marginal_design import Design, Draw, Marginal, Scaled
from tfp_adaptive.proposals import gaussian
from tfp_adaptive.tuning import MetricEstimator
from tfp_adaptive.typing import ChainState, Move, Sampler, Tensor


def split(metric: MetricEstimator) -> MetricEstimator:
    """The same metric with eps kept apart from C: a quasi-Newton matrix takes the place of C.

    Args:
      metric: dense.
    """
    log_det = metric.preconditioner.log_det

    def both(scaled):
        size = scaled.factor.shape[-1]
        return log_det(scaled.factor) + size * tf.math.log(scaled.step_size)

    return metric._replace(
        preconditioner=metric.preconditioner._replace(log_det=both), scale=Scaled
    )


def sampler(design: Design, axes: windowed.Axes) -> Sampler:
    """A sampler that tunes Sigma and eps for the first `num_adaptation_steps` steps.

    Args:
      design: of the step.
      axes: of the tuning.
    """
    made = windowed.windowed_sampler(axes)
    return made._replace(
        init=functools.partial(_init, design, axes),
        init_info=functools.partial(_init_info, design, made.init_info),
        uses_score=design.proposal.uses_score,
    )


def fixed(design: Design, parameters: Scaled) -> Sampler:
    """The moves alone.

    Args:
      design: of the step.
      parameters: that were learned.
    """
    made = windowed.fixed_sampler(mover(design), parameters)
    return made._replace(uses_score=design.proposal.uses_score)


def mover(design: Design) -> windowed.Mover:
    """The move as the tuning knows it.

    Args:
      design: of the step.
    """
    return windowed.Mover(
        draw=functools.partial(_draw, design),
        move=functools.partial(_move, design),
        stable_fraction=0.5,
    )


def _init(design, axes, target, state):
    dtype, size = state.position.dtype, target.event.size
    guess = tf.ones([], dtype)
    if design.proposal.uses_score:
        noise = lanes.last(state.memory).noise
        guess = axes.mover.stable_fraction * stable_scale(target.at(noise), state)
    guess, metric = windowed.first_guess(axes, target, state, guess)
    factor = guess * axes.metric.unit(size, dtype)
    rule = axes.step_size_rule.init(tf.zeros([], dtype))
    learning = windowed.Tuning(rule, metric, factor)
    return Adaptation(axes.metric.scale(factor, tf.ones([], dtype)), learning)


def _init_info(design, init_info, dtype):
    # beside the estimates at the start, that behind the first scale
    num_estimates = design.num_estimates(0) + int(design.proposal.uses_score)
    return init_info(dtype)._replace(num_gradients=tf.constant(num_estimates))


def _draw(design, seed, num_chains, event_size, dtype):
    proposal_seed, noise_seed, drift_seed, accept_seed = random.split(seed, 4)
    return Noise(
        move=Draw(
            random.normal([num_chains, event_size], proposal_seed, dtype),
            random.normal([num_chains, design.noise_size], noise_seed, dtype),
            random.normal([num_chains, design.drift_noise_size], drift_seed, dtype),
        ),
        entropy=(),
        log_uniform=metropolis.draw_log_uniform(accept_seed, num_chains, dtype),
    )


def _move(design, target, parameters, step_size, state, noise):
    memory = state.memory
    lane = lanes.take(memory, memory.turn)
    if design.proposal.num_lanes == 1:
        lane = lane._replace(position=state.position, log_prob=state.log_prob, score=state.score)
    here, memory = _factor(design, memory, lane, parameters, step_size)
    forward = _factor_of_last_move(lane, here) if design.is_published else here
    draw, share = noise.move, _share(design, parameters, step_size)
    whitened = draw.proposal + share * _pull(design, forward, lane)
    position = lane.position + tf.linalg.matvec(forward, whitened)
    proposed = _evaluate(
        design,
        target,
        position,
        refreshed(design, lane.noise, draw.noise),
        refreshed(design, lane.drift_noise, draw.drift_noise),
        _square(here) if design.is_published else lane.matrix,
    )
    backward = here
    if design.proposal.local_matrix is not None:
        backward, _ = _factor(design, memory, proposed, parameters, step_size)
    back, volume = whitened, 0.0
    if backward is not forward:
        back = tf.linalg.triangular_solve(backward, (position - lane.position)[..., tf.newaxis])
        back, volume = back[..., 0], _log_det(backward) - _log_det(forward)
    back += share * _pull(design, backward, proposed)
    kinetic = (chains.squared_norm(back) - chains.squared_norm(draw.proposal)) / 2
    move = _as_move(lane, proposed, lane.log_prob - proposed.log_prob + kinetic + volume)
    transition = metropolis.metropolis_hastings(move, noise.log_uniform)
    new = _chosen(transition.is_accepted, proposed, lane)
    after = transition.state._replace(memory=lanes.put(memory, new))
    transition = transition._replace(state=after)
    accept_prob = metropolis.accept_prob(transition)
    num_estimates = design.num_estimates(target.event.size)
    return windowed.Step(transition, accept_prob, num_estimates)


def _factor(design, memory, lane, parameters, step_size):
    """The Cholesky factor of S, [D, D] or [C, D, D], and the memory with its counts."""
    eps = step_size * parameters.step_size
    eps = eps if eps.shape.rank == 0 else eps[..., tf.newaxis]
    proposal = design.proposal
    if proposal.matrix is None and proposal.local_matrix is None:
        return eps * parameters.factor, memory
    sigma = tf.linalg.matmul(parameters.factor, parameters.factor, transpose_b=True)
    if proposal.matrix is None:
        matrix = proposal.local_matrix(lane.matrix, sigma)
    else:
        matrix = proposal.matrix(*lanes.others(memory), sigma)
    covariance = tf.square(eps) * matrix.value
    if proposal.trust_region:
        covariance = gaussian.limited(covariance, tf.square(eps) * sigma)
    corrected = memory.num_corrected + tf.cast(matrix.is_corrected, tf.int32)
    memory = memory._replace(num_pairs=matrix.num_pairs, num_corrected=corrected)
    return factorization.cholesky(covariance), memory


def _factor_of_last_move(lane, factor):
    """That of the lane's own covariance; at its first move there is none yet."""
    has_moved = tf.linalg.trace(lane.matrix)[:, tf.newaxis, tf.newaxis] > 0
    return factorization.cholesky(tf.where(has_moved, lane.matrix, _square(factor)))


def _share(design, parameters, step_size):
    """Of the drift, which is taken no farther than by H g; a scalar or, as eps is, [C, 1]."""
    if design.is_published or not design.proposal.uses_score:
        return 1.0
    eps = step_size * parameters.step_size
    # the trust region halves the covariance of H = Sigma
    most = 4.0 if design.proposal.trust_region else 2.0
    return tf.minimum(most / tf.square(eps), 1.0)


def _pull(design, factor, lane):
    """L^T g / 2: the drift, whitened."""
    if not design.proposal.uses_score:
        return tf.zeros_like(lane.position)
    score = lane.drift_score if design.drift_noise_size else lane.score
    return tf.linalg.matvec(factor, score, transpose_a=True) / 2


def refreshed(design: Design, noise: Tensor, draw: Tensor) -> Tensor:
    """The noise of the next estimate, by a step of Crank and Nicolson.

    Args:
      design: of the step.
      noise: of this one.
      draw: standard normals.
    """
    return design.correlation * noise + (1 - design.correlation**2) ** 0.5 * draw


def _evaluate(design, target, position, noise, drift_noise, matrix):
    """The lane at a position, with the estimates that it needs."""
    nothing = tf.zeros_like(position[:, :0])
    density = target.at(noise)
    if not design.proposal.uses_score:
        log_prob = density.value(position)
        return lanes.Lane(position, log_prob, nothing, nothing, noise, drift_noise, matrix)
    log_prob, score = density.value_and_score(position)
    drift_score = nothing
    if design.drift_noise_size:
        drift_score = target.at(drift_noise).value_and_score(position)[1]
    if design.proposal.local_matrix is not None:
        matrix = _hessian(density, position)
    return lanes.Lane(position, log_prob, score, drift_score, noise, drift_noise, matrix)


def _hessian(density, position):
    """[C, D, D], row by row: a loop is compiled once, whatever D is."""

    def row(direction):
        return density.hessian_vector_product(position, tf.zeros_like(position) + direction)

    with loops.errors_leave_no_trace():
        rows = tf.map_fn(row, tf.eye(position.shape[-1], dtype=position.dtype))
    return tf.transpose(rows, [1, 0, 2])


def first_memory(design: Design, target: Marginal, position: Tensor, noise: Draw) -> lanes.Memory:
    """All lanes at the start of the chain.

    Args:
      design: of the step.
      target: the posterior.
      position: [C, D].
      noise: of the estimates.
    """
    empty = tf.zeros_like(position[:, :, tf.newaxis] * position[:, tf.newaxis])
    matrix = empty if design.is_published else empty[:, :0, :0]
    lane = _evaluate(design, target, position, noise.noise, noise.drift_noise, matrix)
    return lanes.repeat(lane, design.proposal.num_lanes)


def _as_move(lane, proposed, energy_change) -> Move:
    return Move(
        proposed=ChainState(proposed.position, proposed.log_prob, proposed.score),
        rejected=ChainState(lane.position, lane.log_prob, lane.score),
        energy_change=energy_change,
        midpoint=(),
        midpoint_score=(),
        curvature=0,
        num_gradients=0,
        trajectory=(),
    )


def _chosen(is_accepted, proposed, lane) -> Any:
    def choose(new, old):
        shape = [-1] + [1] * (new.shape.rank - 1)
        return tf.where(tf.reshape(is_accepted, shape), new, old)

    return tf.nest.map_structure(choose, proposed, lane)


def _square(factor):
    return tf.linalg.matmul(factor, factor, transpose_b=True)


def _log_det(factor):
    return tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)), axis=-1)
