"""Kernel-adaptive Metropolis in which each half of the chains learns from the other half.

    for the first half, then for the second:
        z <- where the chains of the other half are now
        one Metropolis-Hastings step of the proposals made of z

Given the other half each step leaves the target invariant, and so does the whole for the product of
the targets of all chains, from the first step on; nothing has to stop. Chains of one half are
conditionally independent; across halves they depend on each other.
"""

import functools

import tensorflow as tf

from tfp_adaptive.internal import chains, random
from tfp_adaptive.kernels import embedding_adaptive, metropolis, moment_adaptive
from tfp_adaptive.kernels.embedding_adaptive import Axes, Learning, Shape
from tfp_adaptive.kernels.gradient_adaptive import Adaptation, Noise
from tfp_adaptive.proposals import kernel_embedding
from tfp_adaptive.proposals.kernel_embedding import Embedding
from tfp_adaptive.typing import Sampler, Tensor


def ensemble_sampler(axes: Axes) -> Sampler:
    """A sampler that learns nu alone, for the first `num_adaptation_steps` steps.

    Args:
      axes: the subsample size is not used: z is half of the chains.

    Returns:
      A `Sampler` whose adaptation is an `Adaptation` of an `Embedding` without points.
    """
    return Sampler(
        init=functools.partial(_init, axes),
        init_info=moment_adaptive.init_info,
        draw=_draw,
        step=functools.partial(_step, axes),
        uses_score=False,
        num_values=2,
    )


def fixed_ensemble_sampler(shape: Shape, embedding: Embedding) -> Sampler:
    """The same with a fixed nu.

    Args:
      shape: of the proposal.
      embedding: without points.
    """

    def step(target, state, adaptation, info, noise, step_size, step):
        transition = _move(shape, target, adaptation.preconditioner, step_size, state, noise, step)
        return transition, adaptation, embedding_adaptive.count(info, transition)

    return Sampler(
        init=lambda target, state: Adaptation(embedding),
        init_info=embedding_adaptive.fixed_info,
        draw=_draw,
        step=step,
        uses_score=False,
        num_values=2,
    )


def _init(axes, target, state):
    _half(state.position)
    size, dtype = target.event.size, state.position.dtype
    log_scale = moment_adaptive.initial_log_scale(size, dtype)
    _, count = moment_adaptive.pooled_start(target, state, axes.pool_fn)
    scale = moment_adaptive.first_scale(axes.scale_rule, log_scale)
    points = tf.zeros([0, size], dtype)
    embedding = embedding_adaptive.scaled(axes.shape, points, log_scale)
    return Adaptation(embedding, Learning(scale, count, ()))


def _half(position: Tensor) -> int:
    count = chains.count(position)
    if not isinstance(count, int) or count < 4 or count % 2:
        raise ValueError(
            "mode='ensemble' needs an even number of chains, at least 4 and known when the program "
            f'is built; got `current_state` with {count} chains.'
        )
    return count // 2


def _draw(seed, num_chains, event_size, dtype):
    move_seed, accept_seed = random.split(seed, 2)
    return Noise(
        kernel_embedding.draw(num_chains // 2, move_seed, num_chains, event_size, dtype),
        (),
        metropolis.draw_log_uniform(accept_seed, num_chains, dtype),
    )


def _move(shape, target, embedding, step_size, state, noise, step):
    half = _half(state.position)
    first, second = slice(0, half), slice(half, 2 * half)

    def rows(nest, part):
        return tf.nest.map_structure(lambda x: x[part] if x.shape.rank else x, nest)

    def moved(part, arrange, others):
        # a target may know its chains by their places: all of them are evaluated
        own = target._replace(value=lambda x: target.value(arrange(x, others))[part])
        cloud = embedding._replace(points=others)
        return embedding_adaptive.move(
            shape,
            *(own, cloud, rows(step_size, part), rows(state, part), rows(noise, part), step),
        )

    one = moved(first, lambda x, others: tf.concat([x, others], 0), state.position[second])
    two = moved(second, lambda x, others: tf.concat([others, x], 0), one.state.position)
    return tf.nest.map_structure(lambda a, b: tf.concat([a, b], axis=0), one, two)


def _step(axes, target, state, adaptation, info, noise, step_size, step):
    embedding = adaptation.preconditioner
    transition = _move(axes.shape, target, embedding, step_size, state, noise, step)
    totals = moment_adaptive.total(axes.pool_fn, state, transition, ())
    is_learning = (step < axes.num_adaptation_steps) & (totals.num_alive > 0)
    is_learning &= axes.shape.cycle.is_exploring(step)

    def learn():
        learning = adaptation.optimizer
        is_last = embedding_adaptive.last_step(axes, step)
        scale, log_scale = moment_adaptive.next_scale(
            axes.scale_rule, learning.scale, totals, is_last
        )
        learned = embedding_adaptive.scaled(axes.shape, embedding.points, log_scale)
        return Adaptation(learned, learning._replace(scale=scale))

    adaptation = tf.cond(is_learning, learn, lambda: adaptation)
    log_det = tf.math.log(adaptation.preconditioner.scale)
    return transition, adaptation, moment_adaptive.report(info, totals, transition, log_det)
