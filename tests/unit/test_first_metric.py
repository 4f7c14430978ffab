"""tuning.first_metric on densities whose Hessian is known, and the factor against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tests.unit.problems import QuarticWell, packed
from tfp_adaptive.tuning import first_metric


def measure(log_prob_fn, position, scale=None):
    """A density at chains that are given, compiled."""
    position = tf.convert_to_tensor(position)
    scale = tf.ones_like(position[0]) if scale is None else tf.cast(scale, position.dtype)
    target = packed(log_prob_fn, position)

    @tf.function(autograph=False, jit_compile=True)
    def run(position, scale):
        return first_metric.measure(target, position, scale)

    return run(position, scale)


@pytest.mark.parametrize(('num_chains', 'size'), [(1, 5), (3, 5), (5, 5), (4, 12), (9, 5)])
def test_every_chain_computes_other_rows(num_chains, size, rng):
    """However many chains there are; at the place of the highest density, in given units."""
    well = QuarticWell(size)
    position = rng.normal(size=[num_chains, size])
    scale = np.exp(rng.normal(size=size))
    found = measure(well.log_prob, position, scale)
    places = [*position, position.mean(axis=0)]
    best = min(places, key=well.potential)
    expected = scale[:, None] * well.hessian(best) * scale
    np.testing.assert_allclose(found.hessian, expected, rtol=1e-10)
    np.testing.assert_allclose(found.position, position / scale, rtol=1e-10)
    scores = [-well.gradient(q) * scale for q in position]
    np.testing.assert_allclose(found.score, scores, rtol=1e-10)


def test_the_place_is_a_chain_where_the_mean_is_between_modes(rng):
    def two_modes(q):
        away = tf.constant(8.0, q.dtype)
        terms = [-tf.reduce_sum((q - m) ** 2, axis=-1) / 2 for m in (-away, away)]
        return tf.reduce_logsumexp(terms, axis=0)

    signs = np.where(np.arange(6) % 2, 8.0, -8.0)[:, None]
    found = measure(two_modes, signs + 0.1 * rng.normal(size=[6, 3]))
    np.testing.assert_allclose(found.hessian, np.eye(3), atol=1e-10)


@pytest.mark.parametrize(
    ('dtype', 'condition', 'error'), [('float32', 1e4, 0.02), ('float64', 1e10, 1e-4)]
)
def test_the_factor_whitens_a_gaussian(dtype, condition, error, rng):
    """Curvatures are one in every direction, whatever they were: rounding is all there is left."""
    size = 20
    axes, _ = np.linalg.qr(rng.normal(size=[size, size]))
    precision = axes * np.geomspace(1, condition, size) @ axes.T
    root = tf.constant(np.linalg.cholesky(precision), dtype)
    position = tf.constant(rng.normal(size=[7, size]), dtype)
    found = measure(lambda q: -tf.reduce_sum((q @ root) ** 2, axis=-1) / 2, position)
    factor = first_metric.factor(found)
    assert (np.triu(factor, 1) == 0).all()
    assert (np.diag(factor) > 0).all()
    whitened = np.linalg.eigvalsh(factor.T @ precision @ factor)
    np.testing.assert_allclose(whitened, 1, atol=error)


def linear(matrix, rng, dtype='float64'):
    """Chains whose scores are those of a Gaussian with the precision `matrix`."""
    position = rng.normal(size=[10, len(matrix)])
    return first_metric.Measured(
        *(tf.constant(x, dtype) for x in (matrix, position, -position @ matrix))
    )


def test_negative_curvatures_count_by_their_size(rng):
    axes, _ = np.linalg.qr(rng.normal(size=[3, 3]))
    factor = first_metric.factor(linear(axes * [4.0, -1.0, 9.0] @ axes.T, rng))
    expected = axes / [4.0, 1.0, 9.0] @ axes.T
    np.testing.assert_allclose(factor @ factor.T, expected, rtol=1e-10)


def test_scales_are_those_of_the_chains(rng):
    """The Hessian at the place has too large, too small or no curvatures: it tells directions."""
    axes, _ = np.linalg.qr(rng.normal(size=[4, 4]))
    found = linear(axes * [1.0, 4.0, 9.0, 16.0] @ axes.T, rng)
    wrong = axes * [100.0, -0.01, 0.0, 3.0] @ axes.T
    factor = first_metric.factor(found._replace(hessian=tf.constant(wrong)))
    expected = axes / [1.0, 4.0, 9.0, 16.0] @ axes.T
    np.testing.assert_allclose(factor @ factor.T, expected, rtol=1e-6)


@pytest.mark.parametrize('field', first_metric.Measured._fields)
@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_without_figures_there_is_no_factor(rng, field, value):
    found = linear(np.eye(3), rng)
    nothing = tf.constant(np.full(getattr(found, field).shape, value))
    assert first_metric.factor(found._replace(**{field: nothing})) is None


def test_without_curvature_there_is_no_factor(rng):
    found = linear(np.eye(3), rng)
    assert first_metric.factor(found._replace(hessian=tf.zeros_like(found.hessian))) is None


def test_chains_at_one_point_have_the_hessian(rng):
    found = linear(np.diag([4.0, 9.0]), rng)
    found = found._replace(position=found.position * 0 + 1, score=found.score * 0 - 1)
    np.testing.assert_allclose(first_metric.factor(found), np.diag([1 / 2, 1 / 3]))


@pytest.mark.parametrize(('num_chains', 'size'), [(1, 5), (3, 5), (10, 300), (9, 5)])
def test_what_it_costs(num_chains, size):
    """Counted as the density sees it: a product is a gradient of a gradient."""
    expected = 2 + 2 * -(-size // num_chains)
    assert first_metric.num_gradients(num_chains, size) == expected
