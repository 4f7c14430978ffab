"""internal.random: Threefry-2x32 against its published vectors, and the laws of what it draws."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from tfp_adaptive.internal import random

# two-sided probability of a normal beyond 4 standard errors
FOUR_SIGMA = 2 * scipy.stats.norm.sf(4)
DTYPES = [tf.float32, tf.float64]


def words(*values):
    return [tf.constant(value, tf.uint32) for value in values]


@pytest.mark.parametrize(
    ('key', 'counter', 'expected'),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers(key, counter, expected):
    """The vectors of Random123, the authors' own implementation, for 20 rounds."""
    result = random.threefry(words(*key), words(*counter))
    assert tuple(int(word) for word in result) == expected


def draw_everything(seed):
    """One of each, for comparing the modes."""
    return (
        random.uniform([3, 4], seed, tf.float32),
        random.uniform([3, 4], seed, tf.float64),
        random.bits([5], seed, tf.float32),
        random.below(7, seed),
        random.fold_in(seed, tf.constant(3)),
        tf.stack(random.split(seed, 3)),
        random.normal([3, 4], seed, tf.float32),
        random.normal([3, 4], seed, tf.float64),
    )


@pytest.mark.parametrize('jit_compile', [False, True])
def test_the_same_numbers_in_every_mode(jit_compile, stateless_seed):
    """Bit for bit, but for the rounding of the logarithm and of sums of products."""
    eager = draw_everything(stateless_seed())
    compiled = tf.function(draw_everything, jit_compile=jit_compile, autograph=False)(
        stateless_seed()
    )
    for a, b in zip(eager[:-2], compiled[:-2], strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(eager[-2], compiled[-2], rtol=1e-5)
    np.testing.assert_allclose(eager[-1], compiled[-1], rtol=1e-12)


@pytest.mark.parametrize('dtype', DTYPES)
def test_uniform(dtype, stateless_seed):
    """Kolmogorov-Smirnov at the level of 4 standard errors, and never an end of the interval."""
    draws = random.uniform([1000, 1000], stateless_seed(), dtype).numpy()
    assert draws.dtype == dtype.as_numpy_dtype
    assert draws.min() > 0
    assert draws.max() < 1
    assert scipy.stats.kstest(draws.ravel(), 'uniform').pvalue > FOUR_SIGMA


@pytest.mark.parametrize(
    ('dtype', 'smallest'), [(tf.float32, 2.0**-24), (tf.float64, 2.0**-53)], ids=['32', '64']
)
@pytest.mark.parametrize('word', [0, 0xFFFFFFFF])
def test_uniform_at_its_ends(word, dtype, smallest, monkeypatch, stateless_seed):
    """All bits zero or all one: still inside, and the normal made of it is finite."""
    monkeypatch.setattr(
        random, 'threefry', lambda key, counter: (tf.fill(counter[0].shape, *words(word)),) * 2
    )
    draw = random.uniform([], stateless_seed(), dtype)
    assert float(draw) == (1 - smallest if word else smallest)
    assert np.isfinite(random.normal([], stateless_seed(), dtype))


@pytest.mark.parametrize('dtype', DTYPES)
def test_normal(dtype, stateless_seed):
    draws = random.normal([1000, 1000], stateless_seed(), dtype).numpy()
    assert draws.dtype == dtype.as_numpy_dtype
    flat = draws.ravel().astype(np.float64)
    assert scipy.stats.kstest(flat, 'norm').pvalue > FOUR_SIGMA
    for power, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        standard_error = np.sqrt(variance / flat.size)
        assert abs(np.mean(flat**power) - expected) < 4 * standard_error


def box_muller(high, low, dtype):
    """Slow and readable: two standard normals of two words (float32) or two blocks (float64)."""
    if dtype == tf.float64:
        radius, turn = (((w[0] >> 6) * 2**26 + (w[1] >> 6) + 0.5) / 2**52 for w in (high, low))
    else:
        radius, turn = (((word >> 9) + 0.5) / 2**23 for word in (high, low))
    length, angle = math.sqrt(-2 * math.log(radius)), 2 * math.pi * turn
    return length * math.cos(angle), length * math.sin(angle)


@pytest.mark.parametrize('jit_compile', [False, True])
@pytest.mark.parametrize(('dtype', 'rounding'), [(tf.float32, 3e-6), (tf.float64, 1e-14)])
def test_normals_are_those_of_box_and_muller(dtype, rounding, jit_compile, monkeypatch):
    """Words at the ends, at the quarters of the circle and in between, against the slow twin."""
    quarters = [quarter * 2**30 + step for quarter in (1, 2, 3) for step in (-1, 0, 1)]
    ends = [0, 512, 0xFFFFFFFF - 512, 0xFFFFFFFF]
    values = [*ends, *quarters, *(0x9E3779B9 * i % 2**32 for i in range(1, 40))]
    pairs = list(itertools.product(values, values))
    if dtype == tf.float64:
        # a block for every radius, then one for every turn
        pairs = [((a, a ^ 0x5555), (b, b ^ 0x3333)) for a, b in pairs]
        blocks = [a for a, _ in pairs] + [b for _, b in pairs]
    else:
        blocks = pairs
    twin = [box_muller(*pair, dtype) for pair in pairs]
    given = tf.unstack(tf.constant(blocks, tf.uint32), axis=1)
    monkeypatch.setattr(random, 'threefry', lambda key, counter: given)
    draw = tf.function(
        lambda seed: random.normal([2 * len(pairs)], seed, dtype),
        jit_compile=jit_compile,
        autograph=False,
    )
    draws = draw(tf.constant([1, 2])).numpy()
    np.testing.assert_allclose(draws, np.ravel(np.transpose(twin)), rtol=0, atol=rounding)


@pytest.mark.parametrize('power', [1, 2])
def test_the_two_of_a_pair_are_independent(power, stateless_seed):
    """They share a radius and an angle; item i and item i + n / 2 are a pair."""
    draws = random.normal([1_000_000], stateless_seed(), tf.float32).numpy().astype(np.float64)
    a, b = np.split(draws**power - (power == 2), 2)
    assert abs(np.mean(a * b)) < 4 * power / np.sqrt(a.size)


@pytest.mark.parametrize('size', [0, 1, 2, 7])
def test_any_number_of_normals(size, stateless_seed):
    """Also an odd one: of the last pair one is left."""
    seed = stateless_seed()
    draws = random.normal([size], seed, tf.float32)
    assert draws.shape == [size]
    even = random.normal([size + size % 2], seed, tf.float32)
    np.testing.assert_array_equal(even[:size], draws)


def test_neighbours_are_independent(stateless_seed):
    """Along rows and columns, and between the streams of neighbouring seeds."""
    draws = random.normal([300, 300], stateless_seed(), tf.float64).numpy()
    other = random.normal([300, 300], stateless_seed(1), tf.float64).numpy()
    for a, b in ((draws[1:], draws[:-1]), (draws[:, 1:], draws[:, :-1]), (draws, other)):
        assert abs(np.mean(a * b)) < 4 / np.sqrt(a.size)


def test_bits(stateless_seed):
    num = 100_000
    draws = random.bits([num], stateless_seed(), tf.float64).numpy()
    assert set(draws) == {0, 1}
    assert abs(draws.mean() - 0.5) < 4 * 0.5 / np.sqrt(num)
    # a word gives 32 of them
    signs = 2 * draws - 1
    for lag in (1, 31, 32, 33, num // 2):
        assert abs(np.mean(signs[lag:] * signs[:-lag])) < 4 / np.sqrt(num - lag)


@pytest.mark.parametrize('bound', [1, 2, 5])
def test_below(bound, stateless_seed):
    """Each value as often as the others, within 4 standard errors, over folded seeds."""
    num = 5000

    @tf.function(autograph=False)
    def draw():
        return tf.map_fn(
            lambda i: random.below(bound, random.fold_in(stateless_seed(), i)), tf.range(num)
        )

    draws, share = draw().numpy(), 1 / bound
    assert set(draws) == set(range(bound))
    for value in range(bound):
        assert abs(np.mean(draws == value) - share) <= 4 * np.sqrt(share * (1 - share) / num)


def test_seeds_are_all_different(stateless_seed):
    """Children by `split` and by `fold_in`, and the grandchildren, never meet."""
    parent = stateless_seed()
    children = random.split(parent, 50)
    children += [random.fold_in(parent, tf.constant(i)) for i in range(-5, 50)]
    grandchildren = [seed for child in children[:10] for seed in random.split(child, 10)]
    everyone = {tuple(seed.numpy()) for seed in [parent, *children, *grandchildren]}
    assert len(everyone) == 1 + len(children) + len(grandchildren)
    assert all(child.dtype == tf.int32 for child in children)


def test_split_does_not_depend_on_the_count(stateless_seed):
    for a, b in zip(random.split(stateless_seed(), 2), random.split(stateless_seed(), 5)):  # noqa: B905
        np.testing.assert_array_equal(a, b)


def test_children_of_one_seed_are_independent(stateless_seed):
    a, b = (random.normal([50_000], s, tf.float64) for s in random.split(stateless_seed(), 2))
    assert abs(np.mean(a * b)) < 4 / np.sqrt(50_000)


def test_unknown_shape(stateless_seed):
    """The number of chains may be known only when the program runs; the numbers are the same."""

    @tf.function(input_signature=[tf.TensorSpec([None, 3])], autograph=False)
    def like(x):
        return draw([tf.shape(x)[0], 3])

    def draw(shape):
        seed = stateless_seed()
        return random.normal(shape, seed, tf.float32), random.bits(shape, seed, tf.float32)

    for found, expected in zip(like(tf.zeros([4, 3])), draw([4, 3]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize('dtype', DTYPES)
def test_numbers_are_computed_once_however_many_use_them(dtype):
    """XLA would otherwise run the generator again in each consumer; counted in what it compiles.

    A round of Threefry is one exclusive or, of 20, and the key takes two.
    """

    def count_generators(consume, draw):
        @tf.function(jit_compile=True, autograph=False)
        def program(seed):
            return consume(draw([64, 3], seed, dtype))

        text = program.experimental_get_compiler_ir(tf.constant([1, 2]))(stage='optimized_hlo')
        return text.count(' xor(')

    def many(z):
        return tf.reduce_sum(z**2, axis=-1), tf.reduce_max(z, axis=0), -z, tf.exp(z[::2])

    for draw in (random.normal, random.uniform, random.bits):
        once = count_generators(tf.negative, draw)
        assert 20 < once < 30
        assert count_generators(many, draw) == once

    def without_the_quotient(shape, seed, dtype):
        counter = tf.cast(tf.range(64 * 3), tf.uint32)
        key = tf.unstack(tf.bitcast(seed, tf.uint32))
        words, _ = random.threefry(key, (counter, tf.zeros_like(counter)))
        return tf.reshape(tf.cast(words, dtype), shape)

    assert count_generators(many, without_the_quotient) > count_generators(
        tf.negative, without_the_quotient
    )
