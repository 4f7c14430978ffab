"""Particle filters whose log-estimate hardly changes with a small change of their noise.

Notation (T observations, N particles, S state size):
    x_tj   particle, [S];  w_tj  its weight;  a_tj  its ancestor
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfp_adaptive.estimators.records import Estimator
from tfp_adaptive.estimators.resampling import systematic
from tfp_adaptive.internal import arguments, loops


class _Cloud(NamedTuple):
    """The particles of one time."""

    particles: tf.Tensor
    """[*batch, N, S]."""
    log_weights: tf.Tensor
    """[*batch, N]."""
    increments: Any
    """[*batch, N, L], log p(x_t, y_t | x_{t-1}) of the last L steps of each ancestry, the oldest
    first; or ()."""


class _Model(NamedTuple):
    """A state space model, as `particle_filter` was given it."""

    initial_fn: Callable
    transition_fn: Callable
    """Returns a pair."""
    observation_log_prob_fn: Callable
    initial_log_prob_fn: Callable | None
    transition_log_prob_fn: Callable | None
    lag: int
    sort: bool

    @property
    def is_smoothed(self) -> bool:
        return self.transition_log_prob_fn is not None

    def held(self, particles):
        """Particles, which the smoothed score holds fixed."""
        return tf.stop_gradient(particles) if self.is_smoothed else particles


def particle_filter(
    initial_fn: Callable,
    transition_fn: Callable,
    observation_log_prob_fn: Callable,
    observations: Any,
    num_particles: int = 100,
    *,
    state_size: int = 1,
    is_guided: bool = False,
    initial_log_prob_fn: Callable | None = None,
    transition_log_prob_fn: Callable | None = None,
    lag: int = 10,
    sort: bool = True,
) -> Estimator:
    """Likelihood of a state space model, by a bootstrap or a guided particle filter.

        x_0j from the initial law;  w_tj = p(y_t | x_tj);  log p = sum_t log (1/N) sum_j w_tj
        and for t = 1, ..., T - 1: a_t = systematic resampling of the particles, sorted by their
        first coordinate (unless `sort=False`);  x_tj from the transition of x_{t-1, a_tj}

    which is unbiased for the likelihood. Sorting makes a small change of the noise a small change
    of the particles, and the estimates of a correlated chain correlated.

    Given the densities of the model, the derivative of the log-estimate is the score by Fisher's
    identity, smoothed with a fixed lag L:

        sum_t sum_j W_{t+L, j} grad log p(x_t, y_t | x_{t-1}),  along the ancestry of particle j

    with normalized weights W and particles held fixed; its own derivative is that of the complete
    data. Without the densities it is the derivative of the estimate with noise and ancestors held
    fixed, which is not the score, even on average, and a poor guide where many are resampled.

    Args:
      initial_fn: (noise [*batch, N, S], *parts) -> particles at t = 0, [*batch, N, S].
      transition_fn: (noise [*batch, N, S], particles [*batch, N, S], last observation, this
        observation, *parts) -> particles [*batch, N, S]; for a guided filter a pair of them and
        of log p(x_t | x_{t-1}) - log q(x_t | x_{t-1}, y_t), [*batch, N]. The bootstrap filter must
        not look at this observation.
      observation_log_prob_fn: (observation, particles [*batch, N, S], *parts) -> [*batch, N].
      observations: [T, ...], floating.
      num_particles: N. Default 100.
      state_size: S. Default 1.
      is_guided: whether `transition_fn` returns a pair. Default `False`.
      initial_log_prob_fn: (particles [*batch, N, S], *parts) -> log p(x_0), [*batch, N]. Default
        `None`: no smoothed score.
      transition_log_prob_fn: (new particles, particles, last observation, this observation,
        *parts) -> log p(x_t | x_{t-1}), [*batch, N]. Default `None`: no smoothed score.
      lag: L >= 1, observations after x_t that its smoothing waits for. Default 10.
      sort: whether particles are sorted. With independent noise (`auxiliary_correlation=0`)
        nothing depends on it, and with hundreds of particles a filter that does not sort takes a
        quarter of the time. Default `True`.

    Returns:
      An `Estimator` with T (1 + N S) numbers of noise.

    Raises:
      ValueError: if a count is not positive, there are no observations, or one of the two densities
        is missing; when it is called, if one of the functions returns another shape.

    Reference: N. Gordon, D. Salmond, A. Smith 1993 for the filter; G. Deligiannidis, A. Doucet,
    M. Pitt. The correlated pseudo-marginal method. JRSS B 2018, for the sorting.

    Example:
      >>> estimator = tfpa.estimators.particle_filter(
      ...     lambda z, theta: z,
      ...     lambda z, x, last, now, theta: theta[..., tf.newaxis, tf.newaxis] * x + z,
      ...     lambda y, x, theta: tfp.distributions.Normal(x[..., 0], 1.0).log_prob(y),
      ...     observations=tf.constant([0.1, 0.7, -0.2]), num_particles=20)
      >>> noise = tf.random.stateless_normal([4, 63], seed=(0, 1))
      >>> estimator.log_likelihood(noise, tf.fill([4], 0.5)).shape
      TensorShape([4])
    """
    arguments.count('num_particles', num_particles, least=1)
    arguments.count('state_size', state_size, least=1)
    arguments.count('lag', lag, least=1)
    observations = tf.convert_to_tensor(observations)
    if not observations.shape.rank or not observations.shape[0]:
        raise ValueError(
            f'`observations` must be a tensor [T, ...] with T > 0; got shape {observations.shape}.'
        )
    if (initial_log_prob_fn is None) != (transition_log_prob_fn is None):
        raise ValueError(
            '`transition_log_prob_fn` and `initial_log_prob_fn` make the smoothed score together; '
            'got one of them.'
        )
    model = _Model(
        initial_fn,
        transition_fn if is_guided else _unguided(transition_fn),
        observation_log_prob_fn,
        initial_log_prob_fn,
        transition_log_prob_fn,
        lag,
        sort,
    )
    num_steps = observations.shape[0]

    def log_likelihood(noise, *parts):
        data = tf.cast(observations, noise.dtype)
        uniforms, normals = _over_time(noise, num_steps, num_particles, state_size)
        carried = _first(model, normals[0], data[0], parts)
        if num_steps > 1:
            inputs = uniforms[1:], normals[1:], data[:-1], data[1:]
            step = functools.partial(_next, model, parts)
            with loops.errors_leave_no_trace():
                carried = tf.foldl(step, inputs, initializer=carried)
        cloud, total, complete = carried
        if not model.is_smoothed:
            return total
        complete = _completed(complete, cloud, tf.reduce_sum(cloud.increments, axis=-1))
        return tf.stop_gradient(total) + (complete - tf.stop_gradient(complete))

    noise_size = num_steps * (1 + num_particles * state_size)
    return Estimator(noise_size, log_likelihood, num_steps * num_particles)


def _unguided(transition_fn):
    """A proposal that is the transition itself."""
    return lambda *arguments: (transition_fn(*arguments), 0.0)


def _first(model, normals, now, parts):
    """(particles at t = 0, their log-estimate, what has been smoothed)."""
    particles = model.initial_fn(normals, *parts)
    particles = tf.ensure_shape(tf.broadcast_to(particles, tf.shape(normals)), normals.shape)
    particles = model.held(particles)
    log_weights = _observed(model, now, particles, parts)
    increments, complete = (), ()
    if model.is_smoothed:
        prior = model.initial_log_prob_fn(particles, *parts)
        first = log_weights + _checked(prior, log_weights.shape, 'initial_log_prob_fn')
        waiting = [[0, 0]] * first.shape.rank + [[model.lag - 1, 0]]
        increments = tf.pad(first[..., tf.newaxis], waiting)
        complete = tf.zeros_like(first[..., 0])
    return _Cloud(particles, log_weights, increments), _log_mean(log_weights), complete


def _next(model, parts, carried, inputs):
    """The same one observation later."""
    cloud, total, complete = carried
    uniform, normals, last, now = inputs
    cloud, oldest = resampled(cloud, uniform, model.sort), ()
    particles, log_ratio = model.transition_fn(normals, cloud.particles, last, now, *parts)
    particles = model.held(_checked(particles, normals.shape, 'transition_fn'))
    observed = _observed(model, now, particles, parts)
    increments = ()
    if model.is_smoothed:
        new = model.transition_log_prob_fn(particles, cloud.particles, last, now, *parts)
        new = _checked(new, observed.shape, 'transition_log_prob_fn')
        oldest = cloud.increments[..., 0]
        new = (observed + new)[..., tf.newaxis]
        increments = tf.concat([cloud.increments[..., 1:], new], axis=-1)
    weights = _checked(observed + log_ratio, observed.shape, 'transition_fn')
    cloud = _Cloud(particles, weights, increments)
    return cloud, total + _log_mean(cloud.log_weights), _completed(complete, cloud, oldest)


def resampled(cloud: _Cloud, uniform: tf.Tensor, sort: bool = True) -> _Cloud:
    """Systematic resampling; the weights are left as they were.

    Args:
      cloud: of particles.
      uniform: [*batch] in (0, 1).
      sort: whether particles are taken in the order of their first coordinate. Default `True`.
    """
    particles, log_weights, increments = cloud
    rank = log_weights.shape.rank - 1
    weights = tf.stop_gradient(tf.nn.softmax(log_weights, axis=-1))
    ancestors = systematic(weights, uniform, particles[..., 0] if sort else None)

    def take(x):
        return tf.gather(x, ancestors, axis=rank, batch_dims=rank)

    return cloud._replace(
        particles=take(particles), increments=tf.nest.map_structure(take, increments)
    )


def _observed(model, now, particles, parts):
    """Log-density of an observation, [*batch, N]."""
    log_prob = model.observation_log_prob_fn(now, particles, *parts)
    return _checked(log_prob, particles.shape[:-1], 'observation_log_prob_fn')


def _checked(value, shape, name):
    """What a function of the user has returned, which would broadcast to something else."""
    value = tf.convert_to_tensor(value)
    if not value.shape.is_compatible_with(shape):
        raise ValueError(
            f'`{name}` must return shape {shape}, for chains, particles and state in that order; '
            f'got {value.shape}.'
        )
    return value


def _completed(complete, cloud, oldest):
    """The sum of what has waited long enough to be smoothed, with what now has."""
    if isinstance(oldest, tuple):
        return complete
    weights = tf.stop_gradient(tf.nn.softmax(cloud.log_weights, axis=-1))
    # a particle without weight may have no density either: 0 times -inf
    counted = tf.where(weights > 0, oldest, tf.zeros_like(oldest))
    return complete + tf.reduce_sum(weights * counted, axis=-1)


def _over_time(noise, num_steps, num_particles, state_size):
    """Uniforms [T, *batch] and normals [T, *batch, N, S]."""
    rank = noise.shape.rank - 1
    uniforms = tf.math.erfc(-noise[..., :num_steps] / math.sqrt(2)) / 2
    shape = tf.concat([tf.shape(noise)[:-1], [num_steps, num_particles, state_size]], axis=0)
    normals = tf.reshape(noise[..., num_steps:], shape)
    static = noise.shape[:-1].concatenate([num_steps, num_particles, state_size])
    normals = tf.ensure_shape(normals, static)
    batch = list(range(rank))
    return (
        tf.transpose(uniforms, [rank, *batch]),
        tf.transpose(normals, [rank, *batch, rank + 1, rank + 2]),
    )


def _log_mean(log_weights):
    count = tf.cast(tf.shape(log_weights)[-1], log_weights.dtype)
    return tf.reduce_logsumexp(log_weights, axis=-1) - tf.math.log(count)
