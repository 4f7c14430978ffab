"""Moves through a non-linear preconditioner, and their derivatives in its parameters.

Notation: q = f(z) with f the flow and J = Df; the chain moves by leapfrog of unit mass on z under
    U~(z) = U(f(z)) - log|det J(z)|,    grad U~ = J^T grad U - grad log|det J|
so z and everything that depends on it is rebuilt from q with the parameters of the moment, and only
q, log pi and grad log pi are ever carried. The proposal q' = f(z_L) has the log volume
log|det J(z_L)| + log det(I + D) with D = kappa h^2 (Hessian of U~) at the midpoint.

Fast derivatives hold each z_l inside grad U~(z_l), and each gradient of U, constant; exact ones let
everything flow. The midpoint is held at its q in both.
"""

import tensorflow as tf

from tfp_adaptive.internal import chains, outer_products
from tfp_adaptive.typing import ChainState, LinearMap, LogDensity

_NUM_FORMS = 2  # the log-determinant and the penalty
_RANGE = 0.25
_ZERO = tf.UnconnectedGradients.ZERO


def mover(proposal, flow):
    """(target, parameters, step_size, state, noise) -> move, with nothing to learn from."""

    def move(target, parameters, step_size, state, noise):
        return _move(proposal, flow, target, parameters, step_size, state, noise, is_exact=True)

    return move


def differentiable_mover(proposal, flow, objective, log_det, *, is_exact):
    """`Geometry.differentiable_move` of a flow."""
    proposal = proposal.learning or proposal

    def differentiable_move(target, parameters, step_size, state, noise, objective_state):
        still = tf.nest.map_structure(tf.zeros_like, parameters)
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(still)
            moving = flow.retract(parameters, still)
            move = _move(proposal, flow, target, moving, step_size, state, noise, is_exact=is_exact)
            finite = tf.math.is_finite(move.energy_change)
            finite &= chains.all_finite(move.proposed.position)
            loss = objective.loss(
                tf.where(finite, move.energy_change, 0),
                state.position,
                chains.keep(finite, move.proposed.position),
                objective_state,
            )
            move = move._replace(log_volume=move.log_volume - log_det(moving))

        def gradients(is_used):
            weight = tf.cast(is_used, loss.dtype)
            return tuple(
                tape.gradient(value, still, output_gradients=weight, unconnected_gradients=_ZERO)
                for value in (loss, move.log_volume)
            )

        return move, gradients

    return differentiable_move


def gradient_at_rest(flow, value_fn, parameters):
    """Gradient of value_fn(retract(parameters, tangent)) at tangent zero."""
    still = tf.nest.map_structure(tf.zeros_like, parameters)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(still)
        value = value_fn(flow.retract(parameters, still))
    return tape.gradient(value, still, unconnected_gradients=_ZERO)


def residual(flow, target, parameters, step_size, midpoint, score, curvature):
    """The map from x to D x at the midpoint [C, D], given in the space of the target."""
    z = flow.inverse(parameters, midpoint)

    def apply(x):
        product = target.hessian_vector_product(midpoint, _push(flow, parameters, z, x))
        product = _pull(flow, parameters, z, product)[0]
        return -curvature * step_size**2 * (product + _bend(flow, parameters, z, score, x))

    return apply


def gradient(flow, slopes, is_used, where, estimate, entropy_weight):
    """`Geometry.gradient` of a flow."""
    loss, volume = slopes(is_used)
    estimate = estimate._replace(forms=outer_products.keep(is_used, estimate.forms))
    entropy, num_products = entropy_gradient(flow, where, estimate)
    total = tf.nest.map_structure(
        lambda a, b, c: a - entropy_weight * (b + c), loss, volume, entropy
    )
    return total, num_products


def entropy_gradient(flow, where, estimate):
    """Gradient of sum left^T D right over the forms of the estimate, the midpoint's q held.

    Costs two Hessian-vector products for each of the two forms of every chain, if the estimate
    cost any.
    """
    target, parameters, step_size, midpoint, score, curvature = where
    zeros = tf.nest.map_structure(tf.zeros_like, parameters)
    left, right = outer_products.stack(estimate.forms)
    if left.shape[0] == 0:
        return zeros, 0
    midpoint, score = _finite_rows(midpoint), _finite_rows(score)

    def copies(x, number):
        return tf.tile(x, [number, 1])

    def products():
        z = copies(flow.inverse(parameters, midpoint), 2 * _NUM_FORMS)
        moved = _push(flow, parameters, z, tf.concat([right, left], axis=0))
        moved = tf.reshape(moved, [2 * _NUM_FORMS, -1, midpoint.shape[-1]])
        # one by one, so that a program holds one copy of the target's derivatives
        moved = tf.map_fn(lambda x: target.hessian_vector_product(midpoint, x), moved)
        return _finite_rows(tf.reshape(moved, [-1, midpoint.shape[-1]]))

    def gradient():
        held = products()

        def value(moving):
            z = flow.inverse(moving, midpoint)
            stretched = _pull(flow, moving, copies(z, 2 * _NUM_FORMS), held)[0]
            bent = _bend(flow, moving, copies(z, _NUM_FORMS), copies(score, _NUM_FORMS), right)
            rows = tf.concat([tf.concat([left, right], axis=0) * stretched, left * bent], axis=0)
            rows = tf.reshape(tf.reduce_sum(rows, axis=-1), [3 * _NUM_FORMS, -1])
            per_chain = tf.reduce_sum(rows, axis=0)[:, tf.newaxis]
            return -tf.reduce_sum(curvature * step_size**2 * per_chain)

        return gradient_at_rest(flow, value, parameters)

    is_spent = estimate.num_hessian_vector_products > 0
    return tf.cond(is_spent, gradient, lambda: zeros), tf.where(is_spent, 2 * _NUM_FORMS, 0)


def _move(proposal, flow, target, parameters, step_size, state, noise, *, is_exact):
    """A move of the proposal on z, as a move on q."""
    size = state.position.shape[-1]
    pulled = _pull_back(flow, target, parameters, is_exact=is_exact)
    position, log_prob, score = _start(state)
    z = flow.inverse(parameters, position)
    start = ChainState(
        z,
        log_prob + flow.forward(parameters, z)[1],
        _covector(flow, parameters, z, log_prob, score, is_exact=is_exact),
        state.velocity,
    )
    # a chain that overflows sends no NaN to the shared parameters
    factor = LinearMap(
        forward=lambda x: chains.drop_nonfinite_gradient(step_size * x),
        transpose=lambda x: chains.drop_nonfinite_gradient(step_size * x[..., :size]),
    )
    move = proposal.propose(pulled, factor, start, noise)
    proposed = move.proposed
    position, log_volume = flow.forward(parameters, _kept(proposed.position))
    return move._replace(
        proposed=ChainState(
            position, proposed.score[:, -1], proposed.score[:, size:-1], proposed.velocity
        ),
        rejected=state._replace(velocity=move.rejected.velocity),
        midpoint=flow.forward(parameters, _kept(move.midpoint))[0],
        midpoint_score=move.midpoint_score[:, size:-1],
        log_volume=log_volume,
    )


def _start(state):
    """(position, log-density, score) with the origin, -inf and zero for chains without density.

    The move of such a chain is rejected for its energy, but a NaN in its row of a product with
    shared parameters would be a NaN in their derivative, even at weight zero.
    """
    has_density = tf.math.is_finite(state.log_prob)
    has_density &= chains.all_finite(state.position) & chains.all_finite(state.score)
    return (
        chains.keep(has_density, state.position),
        tf.where(has_density, state.log_prob, tf.constant(float('-inf'), state.log_prob.dtype)),
        chains.keep(has_density, state.score),
    )


def _finite_rows(x):
    """Rows that are finite, and zeros for the others."""
    return chains.keep(chains.all_finite(x), x)


def _pull_back(flow, target, parameters, *, is_exact) -> LogDensity:
    """The target on z, whose scores are covectors of `_covector`; on the way with log-density 0."""

    def value_and_score(z):
        is_near = _is_near(z)
        z = _kept(z)
        q, log_volume = flow.forward(parameters, z)
        if is_exact:
            log_prob, score = target.value_and_score(q)
            value = log_prob
        else:
            fixed = tf.stop_gradient(q)
            log_prob, score = map(tf.stop_gradient, target.value_and_score(fixed))
            value = log_prob + tf.reduce_sum(score * (q - fixed), axis=-1)
        covector = _covector(flow, parameters, z, log_prob, score, is_exact=is_exact)
        impossible = tf.constant(float('-inf'), z.dtype)
        return tf.where(is_near, value + log_volume, impossible), covector

    def score(z):
        z = _kept(z)
        q = flow.forward(parameters, z)[0]
        score = target.score(q) if is_exact else tf.stop_gradient(target.score(tf.stop_gradient(q)))
        return _covector(flow, parameters, z, tf.zeros_like(z[:, 0]), score, is_exact=is_exact)

    return target._replace(value_and_score=value_and_score, score=score)


def _is_near(z):
    """Where powers of z that a flow and its derivatives may take stay in range."""
    return tf.reduce_all(tf.abs(z) < z.dtype.max**_RANGE, axis=-1)


def _kept(z):
    """Positions that are near, and the origin for the others."""
    return chains.drop_nonfinite_gradient(chains.keep(_is_near(z), z))


def _covector(flow, parameters, z, log_prob, score, *, is_exact):
    """[C, 2 D + 1]: grad of the log-density on z, then score and log-density on q."""
    z = z if is_exact else tf.stop_gradient(z)
    pulled, slope = _pull(flow, parameters, z, score)
    return tf.concat([pulled + slope, score, log_prob[:, tf.newaxis]], axis=-1)


def _pull(flow, parameters, z, covector):
    """(J^T covector, grad log|det J|) at z."""
    z = tf.identity(z)
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(z)
        q, log_volume = flow.forward(parameters, z)
    pulled = tape.gradient(q, z, output_gradients=covector, unconnected_gradients=_ZERO)
    return pulled, tape.gradient(log_volume, z, unconnected_gradients=_ZERO)


def _push(flow, parameters, z, x):
    """J x, as the derivative of the linear map u -> J^T u."""
    u = tf.zeros_like(x)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(u)
        pulled, _ = _pull(flow, parameters, z, u)
    return tape.gradient(pulled, u, output_gradients=x, unconnected_gradients=_ZERO)


def _bend(flow, parameters, z, score, x):
    """Hessian of score . f + log|det J| at z, the score held, times x."""
    z = tf.identity(z)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(z)
        slope = tf.add(*_pull(flow, parameters, z, score))
    return tape.gradient(slope, z, output_gradients=x, unconnected_gradients=_ZERO)
