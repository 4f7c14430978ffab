"""Chains go to where the mass of a `Model` is."""

from typing import Any

import tensorflow as tf

from tfp_adaptive.internal import log_density, packing
from tfp_adaptive.internal.chains import where
from tfp_adaptive.sampling.targets.model import Model
from tfp_adaptive.tuning import arrive as descents


def arrive(
    model: Model, layout: Any, parts: list, seed: Any, max_gradients: Any
) -> descents.Arrival:
    """Moves chains to where the mass is.

    Far from the mass, own coordinates make a curved valley of what is a straight way without them.
    So chains descend without them first, and those that have found a far better place by it go on
    from there.

    Args:
      model: the target.
      layout: `packing.Layout` of its parts.
      parts: [*batch, *event].
      seed: int32 [2].
      max_gradients: most gradients of a descent, scalar int32.
    """

    def descend(log_prob_fn, parts):
        target = log_density.packed_log_density(log_prob_fn, layout, parts)
        return descents.arrive(target, packing.pack(layout, parts), seed, max_gradients)

    def changed(model, other, parts):
        """The same place in the coordinates of the other model."""
        return other.unconstrain(model.constrain(parts))

    if model.plain is None:
        return descend(model.log_prob_fn, parts)
    first = descend(model.plain.log_prob_fn, changed(model, model.plain, parts))
    shape = packing.batch_shape_of(layout, parts[0])
    there = packing.unpack(layout, first.position, shape, like=parts)
    there = changed(model.plain, model, there)
    here = packing.pack(layout, parts)
    gain = model.log_prob_fn(*there) - model.log_prob_fn(*parts)
    is_far_better = tf.reshape(gain, [-1]) > descents.LOST + here.shape[-1]
    begin = where(is_far_better, packing.pack(layout, there), here)
    found = descend(model.log_prob_fn, packing.unpack(layout, begin, shape, like=parts))
    return found._replace(
        is_restarted=found.is_restarted | (first.is_restarted & is_far_better),
        num_gradients=found.num_gradients + first.num_gradients,
        num_values=found.num_values + first.num_values + 2,
    )
