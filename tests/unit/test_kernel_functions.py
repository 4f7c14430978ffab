"""kernel_functions: gradients against automatic differentiation, values against SciPy's."""

import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from tfp_adaptive import kernel_functions

ALL = {
    'linear': kernel_functions.linear(),
    'polynomial1': kernel_functions.polynomial(1, 0.0),
    'polynomial3': kernel_functions.polynomial(3, 0.5),
    'gaussian': kernel_functions.gaussian(1.7),
    'matern1.5': kernel_functions.matern(1.5, 0.8),
    'matern2.5': kernel_functions.matern(2.5, 0.8),
    'matern3.5': kernel_functions.matern(3.5, 2.0),
    'matern4': kernel_functions.matern(4.0, 2.0),
    'matern1.2': kernel_functions.matern(1.2, 2.0),
}
every_function = pytest.mark.parametrize('function', ALL.values(), ids=ALL)


def points(rng):
    """x [4, 1, 3] and z [4, 5, 3]."""
    return (tf.constant(rng.normal(size=[4, count, 3])) for count in (1, 5))


@every_function
def test_gradient_is_that_of_the_value(function, rng):
    """At small, usual and large distances."""
    x, z = (
        tf.stack([scale * tf.broadcast_to(x, [4, 5, 3]) for scale in (0.05, 1.0, 4.0)])
        for x in points(rng)
    )
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(function.value(x, z))
    for gradient, expected in zip(function.gradient(x, z), tape.gradient(total, x), strict=True):
        atol = 1e-9 * np.max(np.abs(expected))
        np.testing.assert_allclose(gradient, expected, rtol=2e-7, atol=atol)


@every_function
def test_values_are_symmetric_and_broadcast(function, rng):
    x, z = points(rng)
    assert function.value(x, z).shape == [4, 5]
    assert function.gradient(x, z).shape == [4, 5, 3]
    np.testing.assert_allclose(function.value(x, z), function.value(z, x), rtol=1e-12)


@pytest.mark.parametrize('smoothness', [1.2, 1.5, 2.5, 3.5, 4.0])
def test_matern_is_its_bessel_function(smoothness, rng):
    x, z = points(rng)
    u = np.sqrt(2 * smoothness) * np.linalg.norm(x - z, axis=-1) / 1.3
    bessel = u**smoothness * scipy.special.kv(smoothness, u)
    expected = bessel / (scipy.special.gamma(smoothness) * 2 ** (smoothness - 1))
    function = kernel_functions.matern(smoothness, 1.3)
    np.testing.assert_allclose(function.value(x, z), expected, rtol=1e-9)


@pytest.mark.parametrize('dtype', [tf.float32, tf.float64])
@pytest.mark.parametrize('name', [name for name in ALL if name.startswith(('g', 'm'))])
def test_a_point_has_no_slope_against_itself(name, dtype):
    x = tf.constant([[1.0, -2.0], [0.0, 0.0]], dtype)
    near = x + tf.constant(1e-4, dtype)
    np.testing.assert_array_equal(ALL[name].gradient(x, x), tf.zeros_like(x))
    np.testing.assert_allclose(ALL[name].value(x, x), [1, 1], rtol=1e-6)
    slope = ALL[name].gradient(x, near) / (near - x)
    length_scale = {'gaussian': 1.7, 'matern1.5': 0.8, 'matern2.5': 0.8}.get(name, 2.0)
    order = 1e9 if name == 'gaussian' else float(name.removeprefix('matern'))
    if order > 1.4:  # the limit is reached as slowly as r^(2 v - 2)
        np.testing.assert_allclose(slope, order / (order - 1) / length_scale**2, rtol=2e-3)


@pytest.mark.parametrize(
    'function',
    [
        pytest.param(function, id=name, marks=pytest.mark.slow if name == 'matern4' else [])
        for name, function in ALL.items()
    ],
)
def test_functions_compile(function, rng):
    x, z = points(rng)
    compiled = tf.function(function.gradient, jit_compile=True, autograph=False)
    np.testing.assert_allclose(compiled(x, z), function.gradient(x, z), rtol=1e-9)


@pytest.mark.parametrize(
    ('make', 'name'),
    [
        (lambda: kernel_functions.gaussian(0.0), 'length_scale'),
        (lambda: kernel_functions.gaussian(float('nan')), 'length_scale'),
        (lambda: kernel_functions.matern(1.0), 'smoothness'),
        (lambda: kernel_functions.matern(2.0, -1.0), 'length_scale'),
        (lambda: kernel_functions.polynomial(0), 'degree'),
        (lambda: kernel_functions.polynomial(2, -1.0), 'offset'),
    ],
)
def test_values_out_of_range_are_refused(make, name):
    with pytest.raises(ValueError, match=f'`{name}`'):
        make()


@pytest.mark.parametrize(
    ('make', 'name'),
    [
        (lambda: kernel_functions.gaussian('1'), 'length_scale'),
        (lambda: kernel_functions.matern('rough'), 'smoothness'),
        (lambda: kernel_functions.polynomial(2.0), 'degree'),
    ],
)
def test_what_is_no_number_is_refused(make, name):
    with pytest.raises(TypeError, match=f'`{name}`'):
        make()
