"""The first stage of a warm-up: every chain goes from where it starts to the typical set.

Each chain descends U = -log pi by L-BFGS. On its way it fits a Gaussian to the curvature that it
has met, N(q, H) at each iterate q, and keeps the one whose evidence bound

    ELBO = E log pi(q + z) + log det(H) / 2 + constant,    z ~ N(0, H)

is the largest, as Pathfinder does (Zhang, Carpenter, Gelman & Vehtari 2022): the end of the descent
where the density has a mode with a volume around it, and a place before the end where the descent
runs into a spike without volume. The chain then starts from a draw of that Gaussian.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import chains, lbfgs, loops, random
from tfp_adaptive.tuning import descent, donors
from tfp_adaptive.typing import LogDensity, Tensor

_MAX_GRADIENTS = 10_000
_NUM_PAIRS = 8
_NUM_DRAWS = 4
_RESOLUTION = 10
_CONVERGED = 0.01
_FLAT_STEPS = 4
"""Nats: a descent ends after so many steps in a row that promise less by their quadratic model. A
single one does not count: where scales differ by much, the model learns the wide ones last."""
LOST = 10.0
"""Nats: a chain is lost if its log-density lies this and D below the best, and its evidence bound
this and D / 2 below the best bound."""
_WIDTHS = (1.0, 0.5, 0.2, 0.05)


class Arrival(NamedTuple):
    """Where the chains are, and what it took.

    Attributes:
      position: [C, D]; a chain that started in the typical set stays.
      is_restarted: [C] bool; it was lost, and starts from a draw of another chain's Gaussian.
      is_funnel: scalar bool; the descents ended at very different densities, and all chains stay.
      resolved: [C, D], the first place on the way where rounding leaves the log-density less than a
        nat uncertain, or the start if there was none. A `walk` can begin there.
      end: [C, D], where the descents led; as `position`, but for funnels.
      num_gradients: scalar int32, gradients a chain took.
      num_values: scalar int32, log-densities without gradient a chain took.
    """

    position: Tensor
    is_restarted: Tensor
    is_funnel: Tensor
    resolved: Tensor
    end: Tensor
    num_gradients: Tensor
    num_values: Tensor


class _Gaussian(NamedTuple):
    """The best Gaussian of a path so far, every field [C, ...]."""

    centre: Tensor
    log_prob: Tensor
    memory: lbfgs.Memory
    bound: Tensor


class _Path(NamedTuple):
    """All descents under way."""

    descent: descent.Descent
    best: _Gaussian
    start: Tensor
    """Log-density where the chains started."""
    resolved: Tensor
    """[C, D], the first place whose log-density is resolved; the start before there is one."""
    is_resolved: Tensor
    num_flat: Tensor
    """Steps in a row that promised less than `_CONVERGED`."""
    is_done: Tensor
    num_gradients: Tensor
    num_values: Tensor


def arrive(target: LogDensity, position: Tensor, seed: Tensor, max_gradients: Tensor) -> Arrival:
    """Moves chains to the typical set.

    A chain stays where it is if its log-density there is what a draw's would be, or if no Gaussian
    with a finite evidence bound was met. Chains in a mode that has neither the density nor the
    evidence of the others are started from the others.

    In a funnel, Gaussians have about the same evidence all the way down, and descents end anywhere.
    So if the other chains' densities differ by more than draws of a Gaussian do, all stay, and
    should `walk`.

    Args:
      target: on packed positions.
      position: [C, D], where the log-density is finite.
      seed: int32 [2].
      max_gradients: most gradients a chain may take, a scalar int32; 10,000 at most.

    Returns:
      An `Arrival`.

    Reference: L. Zhang, B. Carpenter, A. Gelman, A. Vehtari. Pathfinder: parallel quasi-Newton
    variational inference. JMLR 23, 2022, algorithms 1 to 4.
    """
    path_seed, draw_seed, donor_seed = random.split(seed, 3)

    def goes_on(path, _):
        return (path.num_gradients < max_gradients) & ~tf.reduce_all(path.is_done)

    def step(path, normal):
        return _step(target, path, normal), loops.varying(normal)

    # the same noise at every place, so that bounds differ by the places alone
    normal = _normal(position, path_seed, [_NUM_DRAWS])

    # a density that holds a loop of its own can be differentiated in a bounded loop alone
    path, _ = tf.while_loop(
        goes_on, step, (_begin(position), normal), maximum_iterations=_MAX_GRADIENTS
    )
    here, best = path.start, path.best
    width = donors.typical_depth(position.shape[-1])
    has_moved = tf.math.is_finite(best.bound) & (here < best.log_prob - width)
    best = best._replace(
        centre=chains.where(has_moved, best.centre, position),
        log_prob=tf.where(has_moved, best.log_prob, here),
    )
    is_lost = _is_lost(best)
    is_funnel = _is_funnel(best, width)
    can_give = tf.math.is_finite(best.bound) & ~is_lost
    donor, is_restarted = donors.choose(can_give, is_lost, donor_seed)
    best = tf.nest.map_structure(lambda x: tf.gather(x, donor), best)
    moved, num_values = _draw_near(target, best, width, draw_seed)
    end = chains.where(has_moved | is_restarted, moved, position)
    return Arrival(
        position=tf.where(is_funnel, position, end),
        is_restarted=is_restarted & ~is_funnel,
        is_funnel=is_funnel,
        resolved=path.resolved,
        end=end,
        num_gradients=path.num_gradients,
        num_values=path.num_values + num_values,
    )


def _begin(position):
    """A step of length zero, which takes the first gradient within the loop."""
    zero = tf.zeros_like(position[:, 0])
    first = descent.begin(position, zero, _NUM_PAIRS)
    return _Path(
        descent=first,
        best=_Gaussian(position, zero, first.memory, zero - np.inf),
        start=zero,
        resolved=position,
        is_resolved=tf.zeros_like(zero, tf.bool),
        num_flat=tf.zeros_like(zero, tf.int32),
        is_done=tf.zeros_like(zero, tf.bool),
        num_gradients=tf.constant(0),
        num_values=tf.constant(0),
    )


def _step(target, path, normal):
    """One gradient: a trial of the line search, and a new direction where it succeeds."""
    now = path.descent
    trial = now.position + now.length[:, tf.newaxis] * now.direction
    log_prob, score = target.value_and_score(trial)
    potential, gradient = -log_prob, -score
    is_first = tf.equal(path.num_gradients, 0)
    rounding = _RESOLUTION * np.finfo(potential.dtype.as_numpy_dtype).eps
    noise = rounding * tf.where(is_first, tf.zeros_like(potential), tf.abs(now.potential))
    after, is_taken, is_stuck = descent.advance(now, trial, potential, gradient, noise)
    is_flat = is_taken & (-after.slope / 2 < tf.maximum(noise, _CONVERGED))
    num_flat = tf.where(is_flat, path.num_flat + 1, tf.where(is_taken, 0, path.num_flat))
    is_over = (num_flat >= _FLAT_STEPS) | is_stuck
    candidate, num_values = _fit(target, after, normal)
    better = is_taken & ~path.is_done & (candidate.bound > path.best.bound)
    is_clear = is_taken & (rounding * tf.abs(potential) < 1)
    return _Path(
        descent=lbfgs.select(path.is_done, now, after),
        best=lbfgs.select(better, candidate, path.best),
        start=tf.where(is_first, log_prob, path.start),
        resolved=chains.where(is_clear & ~path.is_resolved, trial, path.resolved),
        is_resolved=path.is_resolved | is_clear,
        num_flat=num_flat,
        is_done=path.is_done | is_over,
        num_gradients=path.num_gradients + 1,
        num_values=path.num_values + num_values,
    )


def _fit(target, now, normal):
    """The Gaussian of the curvature met so far and its bound; log-densities that it took."""

    def add(index, total, z):
        total += target.value(now.position + tf.gather(z, index))
        return index + 1, total, loops.varying(z)

    _, total, _ = tf.while_loop(
        lambda index, *_: index < _NUM_DRAWS,
        add,
        (tf.constant(0), tf.zeros_like(now.potential), lbfgs.draw(now.memory, normal)),
        maximum_iterations=_NUM_DRAWS,
    )
    bound = total / _NUM_DRAWS + lbfgs.log_det(now.memory) / 2
    bound = tf.where(tf.math.is_finite(bound), bound, -np.inf * tf.ones_like(bound))
    return _Gaussian(now.position, -now.potential, now.memory, bound), _NUM_DRAWS


def _normal(position, seed, shape=()):
    """What `lbfgs.draw` takes for draws [*shape, C, D]."""
    size = position.shape[-1] + _NUM_PAIRS
    normal = random.normal([*shape, tf.shape(position)[0], size], seed, position.dtype)
    return tf.ensure_shape(normal, [*shape, position.shape[0], size])


def _is_lost(best):
    """Whether a chain is in a mode with neither the density nor the evidence of the best, [C]."""
    num_dims = best.centre.shape[-1]
    is_low = best.log_prob < tf.reduce_max(best.log_prob) - (LOST + num_dims)
    has_less = best.bound < tf.reduce_max(best.bound) - (LOST + num_dims / 2)
    return is_low & has_less


def _is_funnel(best, width):
    """Whether chains ended at very different densities with about the same evidence.

    The lowest and the highest tenth do not count.
    """
    num_dims = best.centre.shape[-1]
    is_used = best.bound >= tf.reduce_max(best.bound) - (LOST + num_dims / 2) / 2
    ordered = tf.sort(tf.where(is_used, best.log_prob, np.inf))
    num_used = tf.reduce_sum(tf.cast(is_used, tf.int32))
    last = tf.maximum(num_used - 1, 0)
    low, high = tf.gather(ordered, num_used // 10), tf.gather(ordered, last - num_used // 10)
    return high > low + width


def _draw_near(target, best, width, seed):
    """A draw of each Gaussian, nearer to its centre where the density is lower than a draw's."""
    z = lbfgs.draw(best.memory, _normal(best.centre, seed))

    def draw(index, position, is_placed, z):
        trial = best.centre + tf.gather(tf.constant(_WIDTHS, z.dtype), index) * z
        fits = target.value(trial) >= best.log_prob - width
        position = chains.where(fits & ~is_placed, trial, position)
        return index + 1, position, is_placed | fits, loops.varying(z)

    _, position, *_ = tf.while_loop(
        lambda index, *_: index < len(_WIDTHS),
        draw,
        (tf.constant(0), best.centre, tf.zeros_like(best.bound, tf.bool), z),
        maximum_iterations=len(_WIDTHS),
    )
    return position, len(_WIDTHS)
