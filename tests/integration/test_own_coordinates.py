"""`sample` on models whose parts get coordinates of their own."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.support.schools import EFFECTS, ERRORS, schools
from tests.support.statistics import largest_z, mean_and_error
from tfp_adaptive.sampling.targets import information

tfd = tfp.distributions


@pytest.fixture(scope='module')
def posterior():
    return schools.experimental_pin(effect=EFFECTS)


def exact_means():
    """Of mu, tau, tau^2 and the effects, by quadrature over mu and tau."""
    mu = np.linspace(-25, 30, 800)[:, np.newaxis, np.newaxis]
    tau = ((np.arange(1500) + 0.5) * (60 / 1500))[:, np.newaxis]
    variance = tau**2 + ERRORS.astype(float) ** 2
    log_density = -0.5 * np.sum((EFFECTS - mu) ** 2 / variance + np.log(variance), axis=-1)
    log_density += -0.5 * (mu[..., 0] / 5) ** 2 - 0.5 * (tau[:, 0] / 10) ** 2
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    share = tau**2 / variance
    effects = np.sum(weights[..., np.newaxis] * (mu + share * (EFFECTS - mu)), axis=(0, 1))
    means = [np.sum(weights * each) for each in (mu[..., 0], tau[:, 0], tau[:, 0] ** 2)]
    return np.array([*means, *effects])


def test_effects_that_the_data_say_little_of(posterior, seed):
    """The eight schools, centred, with a gradient a draw and without a warning."""
    run = tfpa.sample(posterior, 4000, num_chains=10, seed=seed, progress=False)
    mu, tau, theta = run.states
    draws = np.stack([mu, tau, tau**2, *np.moveaxis(theta, -1, 0)], axis=-1)
    found, errors, _ = mean_and_error(np.asarray(draws, np.float64))
    assert np.abs((found - exact_means()) / errors).max() < largest_z(len(found))
    d = run.diagnostics
    assert d.num_sampling_gradients <= 4001
    assert d.num_warmup_gradients < 5000
    assert d.min_ess > 2000
    assert not run.warnings


def test_coordinates_belong_to_a_run(posterior, tmp_path, monkeypatch, seed):
    """A checkpoint goes on with its own, though others would be found now, and without none."""
    settings = {'num_warmup_steps': 20, 'num_chains': 4, 'seed': seed, 'progress': False}
    settings |= {'jit_compile': False, 'kernel': tfpa.GradientAdaptiveMALA}
    path = tmp_path / 'run.npz'
    whole = tfpa.sample(posterior, 20, **settings)
    tfpa.sample(schools.experimental_pin(effect=EFFECTS), 10, checkpoint=path, **settings)
    again = schools.experimental_pin(effect=EFFECTS)
    with pytest.raises(ValueError, match='begun with reparameterize True, which is False in this'):
        tfpa.sample(again, 20, checkpoint=path, reparameterize=False, **settings)
    monkeypatch.setattr(information, '_NUM_ROUNDS', 1)
    found = tfpa.sample(again, 20, checkpoint=path, **settings)
    for one, other in zip(found.states, whole.states, strict=True):
        np.testing.assert_array_equal(one, other)
    # free coordinates are those that the kernel saw
    theta, e = found.states.theta, found.unconstrained_states[2]
    assert np.abs(theta - e).max() > 1
    plain = tfpa.sample(again, 20, reparameterize=False, **settings)
    np.testing.assert_array_equal(plain.states.theta, plain.unconstrained_states[2])
    assert plain.diagnostics.num_warmup_gradients < found.diagnostics.num_warmup_gradients


def test_gradients_for_coordinates_are_counted_with_any_kernel_of_ours(posterior, seed):
    settings = {'num_warmup_steps': 20, 'num_chains': 4, 'seed': seed, 'progress': False}
    settings |= {
        'jit_compile': False,
        'kernel': functools.partial(tfpa.WindowedHMC, num_leapfrog_steps=1),
    }
    own, plain = (
        tfpa.sample(posterior, 4, reparameterize=flag, **settings).diagnostics.num_warmup_gradients
        for flag in (True, False)
    )
    assert own > plain + 20


def test_a_kernel_that_is_there_keeps_its_coordinates(posterior, seed):
    bijector = posterior.experimental_default_event_space_bijector()

    def log_prob(*parts):
        parts = [tf.identity(part) for part in parts]
        packed = tf.nest.pack_sequence_as(posterior.dtype, parts)
        ranks = tf.nest.pack_sequence_as(posterior.dtype, [0, 0, 1])
        log_det = bijector.forward_log_det_jacobian(packed, event_ndims=ranks)
        return posterior.unnormalized_log_prob(bijector.forward(packed)) + log_det

    kernel = tfp.mcmc.RandomWalkMetropolis(log_prob)
    settings = {'num_warmup_steps': 0, 'num_chains': 4, 'jit_compile': False, 'progress': False}
    run = tfpa.sample(posterior, 5, kernel=kernel, seed=seed, **settings)
    np.testing.assert_array_equal(run.states.theta, run.unconstrained_states[2])


def test_coordinates_follow_data_that_change(seed):
    """The first call after a change makes what a new target gives."""
    errors = tf.Variable(tf.constant(ERRORS))

    def make():
        @tfd.JointDistributionCoroutineAutoBatched
        def model():
            tau = yield tfd.HalfNormal(10.0, name='tau')
            theta = yield tfd.Sample(tfd.Normal(0.0, tau), 8, name='theta')
            yield tfd.Normal(theta, errors, name='effect')

        return model.experimental_pin(effect=EFFECTS)

    settings = {'num_warmup_steps': 0, 'num_chains': 3, 'jit_compile': False, 'progress': False}
    settings |= {'kernel': tfpa.GradientAdaptiveMALA, 'seed': seed}
    target = make()
    before = tfpa.sample(target, 5, **settings)
    errors.assign(ERRORS / 20)
    found, expected = tfpa.sample(target, 5, **settings), tfpa.sample(make(), 5, **settings)
    np.testing.assert_array_equal(found.states.theta, expected.states.theta)
    assert np.abs(found.states.theta - before.states.theta).max() > 1
    # a call that fails after it has found them leaves none behind
    again = make()
    with pytest.raises(ValueError, match='`initial_state` must'):
        tfpa.sample(again, 5, initial_state={'tau': 1.0}, **settings)
    errors.assign(ERRORS)
    found = tfpa.sample(again, 5, **settings)
    np.testing.assert_array_equal(found.states.theta, before.states.theta)


def test_back_to_the_space_of_the_model(posterior, seed):
    """As TFP's bijector does not lead there: it knows nothing of own coordinates."""
    settings = {'num_warmup_steps': 20, 'num_chains': 4, 'seed': seed, 'progress': False}
    settings |= {'jit_compile': False, 'kernel': tfpa.GradientAdaptiveMALA}
    run = tfpa.sample(posterior, 20, **settings)
    again = run.constrain(run.unconstrained_states)
    assert type(again) is type(run.states)
    for one, other in zip(again, run.states, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    # NumPy's own dtype is float64
    wide = tf.nest.map_structure(lambda part: np.asarray(part, float), run.unconstrained_states)
    for one, other in zip(run.constrain(wide), again, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match='`unconstrained_states` must have the structure'):
        run.constrain(run.unconstrained_states[0])
    mu, tau, e = run.unconstrained_states
    with pytest.raises(ValueError, match='and events of the shapes'):
        run.constrain(type(run.unconstrained_states)([mu, tau, np.swapaxes(e, 0, 2)]))


def test_a_start_on_a_bound_is_named_where_it_is(posterior):
    start = {'mu': 0.0, 'tau': 0.0, 'theta': np.zeros(8, 'f')}
    with pytest.raises(ValueError, match="part 'tau' does not"):
        tfpa.sample(posterior, 5, initial_state=start, progress=False)


def test_a_start_in_the_space_of_the_model(posterior, seed):
    start = {'mu': [1.0, 2.0], 'tau': [0.5, 3.0], 'theta': np.tile(np.arange(8.0), (2, 1))}
    start = {name: np.asarray(value, 'f') for name, value in start.items()}
    settings = {'num_warmup_steps': 0, 'jit_compile': False, 'progress': False, 'seed': seed}
    run = tfpa.sample(
        posterior,
        1,
        initial_state=start,
        kernel=lambda log_prob: tfp.mcmc.RandomWalkMetropolis(
            log_prob, new_state_fn=lambda parts, seed: parts
        ),
        **settings,
    )
    for name, value in start.items():
        np.testing.assert_allclose(getattr(run.states, name)[0], value, rtol=1e-4, atol=1e-4)


def test_groups_in_raw_units_from_starts_around_zero(seed):
    """In float32: where a scale is below the rounding of the location, and far from all data."""
    rng = np.random.default_rng(2)
    errors = (0.3 / np.sqrt(rng.integers(1, 30, 30))).astype('f')
    y = (2e4 + rng.normal(size=30) * np.sqrt(1 + errors**2)).astype('f')

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        mu = yield tfd.Normal(0.0, 1e5, name='mu')
        tau = yield tfd.HalfNormal(5.0, name='tau')
        level = yield tfd.Sample(tfd.Normal(mu, tau), 30, name='level')
        yield tfd.Normal(level, errors, name='y')

    run = tfpa.sample(model.experimental_pin(y=y), 2000, seed=seed, progress=False)
    # of mu given tau, whose weights are those of the data without mu
    tau = np.linspace(0.4, 2.5, 2000)[:, np.newaxis]
    precision = 1 / (tau**2 + errors.astype(float) ** 2)
    total = precision.sum(axis=1)
    mean = (precision * y).sum(axis=1) / total
    log_density = (np.log(precision) - precision * (y - mean[:, np.newaxis]) ** 2).sum(axis=1)
    weights = np.exp((log_density - np.log(total) - (tau[:, 0] / 5) ** 2) / 2)
    weights /= weights.sum()
    expected = np.array([np.sum(weights * mean), np.sum(weights * tau[:, 0])])
    draws = np.stack([run.states.mu, run.states.tau], axis=-1).astype(np.float64)
    found, standard_errors, _ = mean_and_error(draws)
    # and what float32 cannot tell apart
    standard_errors = np.hypot(standard_errors, [2e-3, 0])
    assert np.abs((found - expected) / standard_errors).max() < largest_z(2)
    assert run.diagnostics.max_rhat < 1.02


def test_slopes_and_intercepts_that_vary_together(seed):
    """Pairs of effects, centred and weakly informed, of which the scale is found by quadrature."""
    rng = np.random.default_rng(3)
    correlation = np.array([[1.0, -0.7], [-0.7, 1.0]])
    errors = rng.uniform(0.5, 2.0, size=[20, 2])
    y = rng.normal(size=[20, 2]) @ np.linalg.cholesky(correlation).T + errors * rng.normal(
        size=[20, 2]
    )
    factor = np.linalg.cholesky(correlation).astype('f')

    @tfd.JointDistributionCoroutineAutoBatched
    def model():
        scale = yield tfd.HalfNormal(2.0, name='scale')
        pairs = tfd.MultivariateNormalTriL(tf.zeros(2), scale * factor)
        effects = yield tfd.Sample(pairs, 20, name='effects')
        yield tfd.Normal(effects, errors.astype('f'), name='y')

    run = tfpa.sample(model.experimental_pin(y=y.astype('f')), 2000, seed=seed, progress=False)
    grid = (np.arange(4000) + 0.5) / 1000
    covariance = grid[:, None, None, None] ** 2 * correlation + errors[:, :, None] ** 2 * np.eye(2)
    inverse = np.linalg.inv(covariance)
    square = np.einsum('gi,ngij,gj->n', y, inverse, y)
    log_density = -(square + np.linalg.slogdet(covariance)[1].sum(axis=1) + (grid / 2) ** 2) / 2
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    given_scale = grid[:, None, None] ** 2 * np.einsum('ij,ngjk,gk->ngi', correlation, inverse, y)
    effects = np.einsum('n,ngi->gi', weights, given_scale)
    expected = np.array([weights @ grid, weights @ grid**2, *np.ravel(effects)])
    draws = np.asarray(run.states.scale, np.float64)[..., np.newaxis]
    flat = np.reshape(np.asarray(run.states.effects, np.float64), [*draws.shape[:2], 40])
    found, standard_errors, _ = mean_and_error(np.concatenate([draws, draws**2, flat], axis=-1))
    assert np.abs((found - expected) / standard_errors).max() < largest_z(len(expected))
    assert run.diagnostics.num_sampling_gradients <= 2001
    assert run.diagnostics.min_ess > 1000
    assert not run.warnings


@pytest.mark.parametrize('order', [(True, False), (False, True)])
def test_the_coordinates_are_those_asked_for_whatever_was_before(order, seed):
    """Of one target without parts that depend on others: its positive parts alone differ."""
    target = tfp.distributions.Gamma(2.0, 0.01)
    settings = {'num_warmup_steps': 20, 'num_chains': 4, 'seed': seed, 'progress': False}
    settings |= {'jit_compile': False, 'kernel': tfpa.GradientAdaptiveMALA}
    for is_on in order:
        run = tfpa.sample(target, 20, reparameterize=is_on, **settings)
        free = np.asarray(run.unconstrained_states)
        expected = np.log(run.states) if is_on else tfp.math.softplus_inverse(run.states)
        np.testing.assert_allclose(free, expected, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(run.constrain(run.unconstrained_states), run.states, rtol=1e-4)
