"""kernels.gradient_adaptive: one whole step against the formulas of the paper in NumPy."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from tests.support import twins
from tests.unit import problems
from tfp_adaptive import entropy, objectives, optimizers, preconditioners, proposals
from tfp_adaptive.entropy.russian_roulette import RouletteNoise
from tfp_adaptive.kernels import frozen, gradient_adaptive
from tfp_adaptive.typing import Optimizer

SIZE, CHAINS, NUM_STEPS = 4, 6, 3
NUM_ADAPTATION_STEPS = 10
NUM_EXACT, NUM_EXTRA = 2, 1
STEP_SIZE = 0.5
WELL = problems.QuarticWell(SIZE)
BETA, GAMMA = 0.8, 1e4


def tell_gradient() -> Optimizer:
    """An optimizer that takes no step and leaves the gradient it was given in its state."""
    return Optimizer(
        init=lambda zeros: zeros,
        update=lambda gradient, state, progress: (
            tf.nest.map_structure(tf.zeros_like, gradient),
            gradient,
        ),
    )


def sampler_of(optimizer=None, pool_fn=None, penalty=None, signal='probability'):
    return gradient_adaptive.adaptive_sampler(
        gradient_adaptive.Axes(
            proposal=proposals.leapfrog(NUM_STEPS),
            preconditioner=preconditioners.cholesky(),
            objective=objectives.generalized_speed(),
            energy_gradient='fast',
            entropy=entropy.russian_roulette(NUM_EXACT, penalty),
            optimizer=optimizer or tell_gradient(),
            entropy_weight=optimizers.acceptance_controller(0.67, initial=BETA, signal=signal),
            penalty_weight=optimizers.penalty_controller(initial=GAMMA),
            num_adaptation_steps=NUM_ADAPTATION_STEPS,
            pool_fn=pool_fn,
        )
    )


class Setting(NamedTuple):
    """Everything a step takes."""

    target: object
    state: object
    adaptation: object
    noise: object

    def rows(self, rows):
        """Some of the chains."""

        def take(x):
            return x if x.shape.rank == 0 else tf.gather(x, rows)

        state = tf.nest.map_structure(take, self.state)
        noise = tf.nest.map_structure(take, self.noise)
        target = problems.packed(WELL.log_prob, state.position)
        return Setting(target, state, self.adaptation, noise)


@pytest.fixture
def setting(rng):
    position, velocity = rng.normal(size=[2, CHAINS, SIZE])
    target = problems.packed(WELL.log_prob, position)
    state = problems.state_at(target, position)
    adaptation = gradient_adaptive.Adaptation(
        preconditioner=tf.constant(problems.random_factor(rng, SIZE, scale=1.0)),
        optimizer=tf.zeros([SIZE, SIZE], tf.float64),
        entropy_weight=tf.constant(BETA, tf.float64),
        penalty_weight=tf.constant(GAMMA, tf.float64),
    )
    noise = gradient_adaptive.Noise(
        move=tf.constant(velocity),
        entropy=RouletteNoise(
            tf.constant(rng.choice([-1.0, 1.0], size=[CHAINS, SIZE])),
            tf.constant(rng.choice([0.0, 1.0], size=[CHAINS])),
            tf.constant(NUM_EXTRA),
        ),
        log_uniform=tf.constant(np.log(rng.uniform(size=[CHAINS]))),
    )
    return Setting(target, state, adaptation, noise)


def step(sampler, setting, index=0, step_size=STEP_SIZE):
    return sampler.step(
        setting.target,
        setting.state,
        setting.adaptation,
        sampler.init_info(tf.float64),
        setting.noise,
        tf.constant(step_size, tf.float64),
        tf.constant(index),
    )


def expected_gradient(setting, threshold):
    """grad_A E of the paper, chain by chain, in NumPy; and what else the step should report."""
    matrix = setting.adaptation.preconditioner.numpy()
    factor = STEP_SIZE * matrix
    mass = np.linalg.inv(matrix @ matrix.T)
    total = np.zeros([SIZE, SIZE])
    accept_probs, penalties, radii = [], [], []
    for c in range(CHAINS):
        v0 = setting.noise.move[c].numpy()
        trajectory = twins.leapfrog(
            WELL.potential,
            WELL.gradient,
            setting.state.position[c].numpy(),
            np.linalg.solve(matrix.T, v0),
            mass,
            STEP_SIZE,
            NUM_STEPS,
        )
        gamma = [factor.T @ WELL.gradient(q) for q in trajectory.positions]
        w = NUM_STEPS / 2 * gamma[0] + sum((NUM_STEPS - i) * gamma[i] for i in range(1, NUM_STEPS))
        r, v1 = NUM_STEPS * v0 - w, matrix.T @ trajectory.momentum
        energy = np.outer(gamma[-1], r) - np.outer(w, gamma[-1]) - np.outer(v0 - v1, v1)
        hessian = WELL.hessian(trajectory.positions[NUM_STEPS // 2])
        residual = twins.residual_matrix(hessian, factor, NUM_STEPS)
        probe = setting.noise.entropy.signs[c].numpy()
        series = twins.roulette(residual, probe, NUM_EXACT, NUM_EXTRA)
        y = series.weights @ series.terms
        surrogate = np.outer(residual @ probe, y) + np.outer(residual @ y, probe)
        b = series.terms[-1] / np.linalg.norm(series.terms[-1])
        mu = series.eigenvalue
        slope = twins.central_difference(lambda x: twins.penalty(x, threshold), abs(mu))
        spectral = GAMMA * slope * np.sign(mu) * 2 * np.outer(residual @ b, b)
        total += (trajectory.energy_change > 0) * energy
        total -= BETA * (np.eye(SIZE) + surrogate - spectral)
        accept_probs.append(min(1, np.exp(-trajectory.energy_change)))
        penalties.append(twins.penalty(abs(mu), threshold))
        radii.append(abs(mu))
    return np.tril(total) / CHAINS, np.mean(accept_probs), np.mean(penalties), max(radii)


def test_one_step_is_the_papers(setting):
    """Gradient, both controllers and what is reported, against Algorithm 1 in NumPy."""
    threshold = 0.95
    penalty = entropy.spectral_penalty(threshold)
    sampler = sampler_of(penalty=penalty)
    _, adaptation, info = step(sampler, setting)
    gradient, accept_prob, mean_penalty, radius = expected_gradient(setting, threshold)
    np.testing.assert_allclose(adaptation.optimizer, gradient, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(info.accept_prob, accept_prob, rtol=1e-12)
    np.testing.assert_allclose(info.spectral_radius, radius, rtol=1e-12)
    beta = BETA * (1 + 0.1 * (accept_prob - 0.67))
    np.testing.assert_allclose(adaptation.entropy_weight, beta, rtol=1e-12)
    np.testing.assert_allclose(adaptation.penalty_weight, GAMMA + 0.1 * mean_penalty, rtol=1e-12)
    assert info.num_gradients == 2 + NUM_STEPS
    assert info.num_hessian_vector_products == NUM_EXACT + NUM_EXTRA + 1


def test_the_penalty_is_off_for_short_steps(setting):
    """A proposal small enough that mu stays below the threshold, and its gradient without it."""
    adaptation = setting.adaptation._replace(
        preconditioner=0.25 * setting.adaptation.preconditioner
    )
    setting = setting._replace(adaptation=adaptation)
    _, after, info = step(sampler_of(), setting)
    gradient, _, mean_penalty, _ = expected_gradient(setting, threshold=0.75)
    assert mean_penalty == 0
    assert info.spectral_radius < 0.75
    np.testing.assert_allclose(after.optimizer, gradient, rtol=1e-7, atol=1e-9)
    assert after.penalty_weight == GAMMA


def test_optimizer_conditions_the_gradient(setting):
    """`condition` sees the gradient and beta before `update` does."""
    whole = step(sampler_of(), setting)[1].optimizer
    conditioned = tell_gradient()._replace(condition=lambda slope, beta: beta * slope)
    _, adaptation, _ = step(sampler_of(conditioned), setting)
    np.testing.assert_allclose(adaptation.optimizer, BETA * whole, rtol=1e-12)


def test_indicator_signal_counts_acceptances(setting):
    """Two chains of six are made to accept, whatever their energies."""
    log_uniform = tf.constant([-1e9, 1e9, 1e9, -1e9, 1e9, 1e9], tf.float64)
    setting = setting._replace(noise=setting.noise._replace(log_uniform=log_uniform))
    transition, adaptation, _ = step(sampler_of(signal='indicator'), setting)
    assert np.sum(transition.is_accepted) == 2
    beta = BETA * (1 + 0.1 * (2 / 6 - 0.67))
    np.testing.assert_allclose(adaptation.entropy_weight, beta, rtol=1e-12)


def test_optimizer_step_moves_the_preconditioner(setting):
    """C <- C (I + A) with the optimizer's own A."""
    tangent = tf.constant(np.tril(np.full([SIZE, SIZE], 0.01)))
    fixed = Optimizer(lambda zeros: zeros, lambda gradient, state, progress: (tangent, state))
    _, adaptation, _ = step(sampler_of(fixed), setting)
    change = tangent.numpy() + np.diag(np.exp(np.diag(tangent)) - np.diag(tangent))
    expected = setting.adaptation.preconditioner.numpy() @ change
    np.testing.assert_allclose(adaptation.preconditioner, expected, rtol=1e-12)


def test_progress_runs_from_zero_to_one(setting):
    tell_progress = Optimizer(
        lambda zeros: zeros,
        lambda gradient, state, progress: (tf.zeros_like(state), tf.fill([4, 4], progress)),
    )
    for index, expected in ((0, 0.0), (5, 0.5), (9, 0.9)):
        _, adaptation, _ = step(sampler_of(tell_progress), setting, index)
        np.testing.assert_allclose(adaptation.optimizer, expected)


@pytest.mark.parametrize('index', [10, 11, 1000])
def test_nothing_is_learned_after_the_last_step(index, setting):
    _, adaptation, info = step(sampler_of(), setting, index)
    for after, before in zip(
        tf.nest.flatten(adaptation), tf.nest.flatten(setting.adaptation), strict=True
    ):
        np.testing.assert_array_equal(after, before)
    assert info.num_hessian_vector_products == 0


def test_pooling_two_halves_is_the_whole(setting):
    """`pool_fn` adds up what two processes saw: both then learn what one would have."""
    _, whole, whole_info = step(sampler_of(), setting)
    halves = [setting.rows([0, 1]), setting.rows([2, 3, 4, 5])]
    sums = []

    def record(tensors):
        sums.append(tensors)
        return tensors

    for half in halves:
        step(sampler_of(pool_fn=record), half)
    assert len(sums) == 2, 'one pooled reduction a step'
    pooled = [a + b for a, b in zip(*sums, strict=True)]
    for half in halves:
        _, adaptation, info = step(sampler_of(pool_fn=lambda tensors: pooled), half)
        for after, expected in zip(
            tf.nest.flatten(adaptation), tf.nest.flatten(whole), strict=True
        ):
            np.testing.assert_allclose(after, expected, rtol=1e-12)
        np.testing.assert_allclose(info.accept_prob, whole_info.accept_prob, rtol=1e-12)


@pytest.mark.parametrize('lost', range(CHAINS))
def test_a_lost_chain_is_left_out_of_the_mean(setting, lost):
    """The others learn as if it were not there, but that it asks for shorter moves.

    It stands where the curvature is the largest.
    """
    keep = [c for c in range(CHAINS) if c != lost]
    position, velocity = setting.state.position.numpy(), setting.noise.move.numpy()
    position[lost] *= 10 / np.linalg.norm(position[lost])
    velocity[lost] = 1e200
    holed = setting._replace(
        state=problems.state_at(setting.target, position),
        noise=setting.noise._replace(move=tf.constant(velocity)),
    )
    transition, adaptation, info = step(sampler_of(), holed)
    _, others, others_info = step(sampler_of(), setting.rows(keep))
    shorter = np.eye(SIZE) / CHAINS
    np.testing.assert_allclose(
        adaptation.optimizer, others.optimizer + shorter, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(adaptation.penalty_weight, others.penalty_weight, rtol=1e-12)
    assert not transition.is_accepted[lost]
    assert info.num_nonfinite == 1
    np.testing.assert_allclose(info.spectral_radius, others_info.spectral_radius, rtol=1e-12)
    np.testing.assert_allclose(
        info.accept_prob, others_info.accept_prob * len(keep) / CHAINS, rtol=1e-12
    )
    log_det = np.log(np.diag(setting.adaptation.preconditioner)).sum()
    np.testing.assert_allclose(
        info.entropy - log_det, (others_info.entropy - log_det) * len(keep) / CHAINS, rtol=1e-9
    )


def test_when_all_chains_are_lost_the_proposal_shrinks(setting):
    """There is no direction to learn from but less; the entropy weight falls too."""
    noise = setting.noise._replace(move=tf.fill([CHAINS, SIZE], tf.constant(1e200, tf.float64)))
    _, adaptation, info = step(sampler_of(optimizers.adam()), _with_adam(setting, noise))
    rate = 0.03  # of the default schedule at its start, which Adam's first step takes in full
    np.testing.assert_allclose(
        adaptation.preconditioner, np.exp(-rate) * setting.adaptation.preconditioner, rtol=1e-3
    )
    assert adaptation.entropy_weight < BETA
    assert info.num_nonfinite == CHAINS


def test_chains_that_never_had_a_density_teach_nothing(setting):
    state = setting.state._replace(log_prob=tf.fill([CHAINS], np.float64(-np.inf)))
    dead = _with_adam(setting._replace(state=state), setting.noise)
    _, adaptation, info = step(sampler_of(optimizers.adam()), dead)
    np.testing.assert_array_equal(adaptation.preconditioner, setting.adaptation.preconditioner)
    assert adaptation.optimizer.count == 0
    assert adaptation.entropy_weight == setting.adaptation.entropy_weight
    assert info.num_nonfinite == CHAINS


def test_every_chain_learns_with_its_own_step_size(setting):
    """Together they learn the mean of what each would by itself."""
    sizes = np.linspace(0.2, 0.7, CHAINS)
    _, together, _ = step(sampler_of(), setting, step_size=sizes[:, np.newaxis])
    alone = [
        step(sampler_of(), setting.rows([c]), step_size=sizes[c])[1].optimizer
        for c in range(CHAINS)
    ]
    np.testing.assert_allclose(together.optimizer, np.mean(alone, axis=0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize('culprit', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('place', [(0, 0), (3, 1)])
@pytest.mark.parametrize('optimizer', [optimizers.adam(), optimizers.rmsprop(0.01), None])
def test_a_gradient_that_is_not_finite_is_not_taken(setting, optimizer, place, culprit):
    """Neither the factor nor what the optimizer remembers knows of it; the weights go on."""
    hole = np.zeros([SIZE, SIZE])
    hole[place] = culprit
    _assert_nothing_learned(setting, optimizer, lambda sums: [sums[0] + hole, *sums[1:]])


def test_nor_is_it_in_a_compiled_program(setting):
    hole = np.full([SIZE, SIZE], np.nan)
    _assert_nothing_learned(
        setting, None, lambda sums: [sums[0] + hole, *sums[1:]], jit_compile=True
    )


@pytest.mark.parametrize('jit_compile', [False, True])
def test_a_gradient_whose_square_overflows_is_cut(setting, jit_compile):
    """It is finite, but would stay in the average of squares for good."""
    peak = np.zeros([SIZE, SIZE])
    peak[1, 0] = 1e200
    optimizer = optimizers.rmsprop(0.1)
    sampler = sampler_of(optimizer, pool_fn=lambda sums: [sums[0] + peak, *sums[1:]])
    moments = optimizer.init(setting.adaptation.optimizer)
    setting = setting._replace(adaptation=setting.adaptation._replace(optimizer=moments))
    program = tf.function(lambda: step(sampler, setting)[1], jit_compile=jit_compile)
    after = program()
    assert np.isfinite(after.preconditioner).all()
    assert np.isfinite(after.optimizer.square).all()
    assert np.all(np.tril(after.preconditioner != setting.adaptation.preconditioner)[1:, 0])


@pytest.mark.parametrize('exponent', [1e3, np.nan])
def test_a_step_out_of_the_numbers_is_not_taken(setting, exponent):
    optimizer = Optimizer(
        init=lambda zeros: zeros,
        update=lambda gradient, *_: (
            tf.fill(gradient.shape, tf.cast(exponent, 'float64')),
            gradient,
        ),
    )
    _assert_nothing_learned(setting, optimizer, list)


def _assert_nothing_learned(setting, optimizer, pool_fn, jit_compile=False):
    sampler = sampler_of(optimizer, pool_fn=pool_fn)
    moments = (optimizer or tell_gradient()).init(setting.adaptation.optimizer)
    before = setting.adaptation._replace(optimizer=moments)
    setting = setting._replace(adaptation=before)
    if jit_compile:
        program = tf.function(lambda: step(sampler, setting)[1], jit_compile=True, autograph=False)
        after = program()
    else:
        after = step(sampler, setting)[1]
    np.testing.assert_array_equal(after.preconditioner, before.preconditioner)
    tf.nest.map_structure(np.testing.assert_array_equal, after.optimizer, moments)
    assert after.entropy_weight != before.entropy_weight


def _with_adam(setting, noise):
    moments = optimizers.adam().init(setting.adaptation.optimizer)
    return setting._replace(adaptation=setting.adaptation._replace(optimizer=moments), noise=noise)


def test_frozen_makes_the_same_move(setting):
    """The frozen sampler proposes and accepts as the adaptive one, and spends L gradients."""
    adaptive, _, adaptive_info = step(sampler_of(), setting)
    sampler = frozen.frozen_sampler(
        proposals.leapfrog(NUM_STEPS),
        preconditioners.cholesky(),
        setting.adaptation.preconditioner,
    )
    target, calls = problems.counting(setting.target)
    adaptation = sampler.init(target, setting.state)
    moved, after, info = step(sampler, setting._replace(target=target, adaptation=adaptation))
    for a, e in zip(tf.nest.flatten(moved), tf.nest.flatten(adaptive), strict=True):
        np.testing.assert_array_equal(a, e)
    np.testing.assert_array_equal(after.preconditioner, setting.adaptation.preconditioner)
    assert len(calls) == NUM_STEPS
    assert info.num_gradients == 1 + NUM_STEPS
    np.testing.assert_array_equal(info.accept_prob, adaptive_info.accept_prob)


def test_sub_seeds_are_independent(stateless_seed):
    """Velocity, probe and acceptance share no stream: products average out, 4 standard errors."""
    num = 20_000
    noise = sampler_of().draw(stateless_seed(), num, 1, tf.float64)
    columns = [
        noise.move[:, 0],
        noise.entropy.signs[:, 0],
        2 * noise.entropy.coin - 1,
        -1 - noise.log_uniform,
    ]
    for i, a in enumerate(columns):
        for b in columns[:i]:
            product = (a * b).numpy()
            assert abs(product.mean()) < 4 * product.std() / np.sqrt(num)
