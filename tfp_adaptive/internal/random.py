"""Counter-based random numbers that are the same in every execution mode, and fast in XLA.

TensorFlow's stateless generators draw other numbers under XLA than outside it, and on a CPU their
XLA kernels cost up to fifty times as much as the same generator in plain operations. This is
Threefry-2x32 with 20 rounds (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011)
in elementwise TensorFlow operations, which XLA fuses into one pass. Eager, graph and XLA draw the
same bits and the same uniforms; normals differ by rounding.

Time of a step with TensorFlow's generators over the time with these; ten chains, TensorFlow 2.21,
two cores of an AMD EPYC (`python -m experiments run core_step` measures it):

    target                              L = 1 frozen, adaptive    L = 5 frozen, adaptive
    German credit, D = 25               1.38, 1.32                1.10, 1.10
    Gaussian process, D = 51            3.46, 1.91                1.88, 1.60
    stochastic volatility, D = 2519     2.10, 1.76                1.88, 1.63

A seed is an int32 tensor [2], as `tfp.random.sanitize_seed` makes them.
"""

import math

import tensorflow as tf

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def split(seed: tf.Tensor, count: int) -> list:
    """`count` independent seeds."""
    words = tf.stack(_blocks(seed, count), axis=-1)
    return tf.unstack(tf.bitcast(words, tf.int32))


def fold_in(seed: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """The seed of item number `index`, a scalar int32."""
    words = threefry(_key(seed), (tf.bitcast(index, tf.uint32), tf.constant(1, tf.uint32)))
    return tf.bitcast(tf.stack(words), tf.int32)


def of_replica(seed: tf.Tensor) -> tf.Tensor:
    """The seed of the `tf.distribute` replica that asks; without a strategy, of replica 0."""
    context = tf.distribute.get_replica_context()
    return fold_in(seed, tf.constant(0) if context is None else context.replica_id_in_sync_group)


def uniform(shape, seed: tf.Tensor, dtype) -> tf.Tensor:
    """Uniforms strictly between 0 and 1; in a type of 16 bits they may be rounded to an end."""
    size = _size(shape)
    if tf.as_dtype(dtype) == tf.float64:
        draws = _fraction_of_two(*_blocks(seed, size)) / _one(seed, tf.float64)
        return tf.reshape(draws, shape)
    word = _blocks(seed, size)[0]
    return tf.cast(tf.reshape(_fraction(word) / _one(seed, tf.float32), shape), dtype)


def normal(shape, seed: tf.Tensor, dtype) -> tf.Tensor:
    """Standard normals, in pairs: a radius and an angle each (Box and Muller 1958).

    Of n numbers in all, rounded up to an even number, items i and i + n / 2 are a pair. A pair
    travels as one complex number: so XLA computes a block once for both of its words.
    """
    wide = tf.float64 if tf.as_dtype(dtype) == tf.float64 else tf.float32
    size = _size(shape)
    pairs = tf.complex(*_pairs_of_normals(-(-size // 2), seed, wide))
    pairs /= tf.cast(_one(seed, wide), pairs.dtype)
    is_first = tf.constant([[True], [False]])
    draws = tf.where(is_first, tf.math.real(pairs), tf.math.imag(pairs))
    return tf.cast(tf.reshape(tf.reshape(draws, [-1])[:size], shape), dtype)


def bits(shape, seed: tf.Tensor, dtype) -> tf.Tensor:
    """Zeros and ones with equal probability."""
    size = _size(shape)
    num_blocks = -(-size // 64)
    words = tf.concat(_blocks(seed, num_blocks), axis=0) // _one(seed, tf.uint32)
    every_bit = tf.bitwise.right_shift(words[:, tf.newaxis], tf.cast(tf.range(32), tf.uint32))
    every_bit = tf.bitwise.bitwise_and(every_bit, tf.constant(1, tf.uint32))
    return tf.reshape(tf.cast(tf.reshape(every_bit, [-1])[:size], dtype), shape)


def below(bound: int, seed: tf.Tensor) -> tf.Tensor:
    """A scalar int32 uniform on 0, ..., bound - 1 (up to a bias of bound / 2^23)."""
    return tf.cast(tf.floor(bound * uniform([], seed, tf.float32)), tf.int32)


def threefry(key, counter):
    """The block function: two words of key and of counter, uint32 of any shape, to two words."""
    shape = tf.broadcast_static_shape(key[0].shape, counter[0].shape)
    words = _threefry_rounds(*key, *counter)
    for word in words:
        word.set_shape(shape)
    return words


# a hundred operations, traced once for all shapes instead of once in every use
@tf.function(autograph=False, input_signature=[tf.TensorSpec(None, tf.uint32)] * 4)
def _threefry_rounds(k0, k1, x0, x1):
    keys = (
        k0,
        k1,
        tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(k0, k1), tf.constant(_PARITY, tf.uint32)),
    )
    x0, x1 = x0 + k0, x1 + k1
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = tf.bitwise.bitwise_xor(_rotate_left(x1, rotation), x0)
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + keys[(group + 2) % 3] + tf.constant(group + 1, tf.uint32)
    return x0, x1


def _pairs_of_normals(num_pairs, seed, dtype):
    """Two vectors of standard normals."""
    if dtype == tf.float64:
        high, low = _blocks(seed, 2 * num_pairs)
        radius = _fraction_of_two(high[:num_pairs], low[:num_pairs])
        turn = _fraction_of_two(high[num_pairs:], low[num_pairs:])
    else:
        radius, turn = (_fraction(word) for word in _blocks(seed, num_pairs))
    radius = tf.sqrt(-2.0 * tf.math.log(radius))
    later = tf.where(turn < 0.25, turn + 0.75, turn - 0.25)
    return radius * _cosine(turn), radius * _cosine(later)


def _cosine(turn):
    """The cosine of 2 pi turn for a turn from 0 to 1: a sine in the first or the last quarter.

    By its Taylor series, to the precision of the type. XLA calls the library's function for every
    number on its own, at ten times the cost.
    """
    x = tf.abs(turn - 0.5) - 0.25
    square = (2.0 * math.pi * x) ** 2
    last = 21 if turn.dtype == tf.float64 else 13
    series = tf.zeros_like(x)
    for power in range(last, 0, -2):
        series = (-1) ** (power // 2) / math.factorial(power) + square * series
    return 2.0 * math.pi * x * series


def _fraction(word):
    """A word as a float32 strictly between 0 and 1."""
    return (tf.cast(_shift_right(word, 9), tf.float32) + 0.5) * 2.0**-23


def _fraction_of_two(high, low):
    """Two words as a float64 strictly between 0 and 1."""
    high, low = (tf.cast(_shift_right(word, 6), tf.float64) for word in (high, low))
    return (high * 2.0**26 + low + 0.5) * 2.0**-52


def _one(seed, dtype):
    """The number 1, which the compiler of a program cannot see to be 1.

    XLA computes cheap producers anew for each of their consumers, and takes the whole generator for
    cheap. Not so a quotient whose divisor it does not know: numbers are drawn once.
    """
    word = _key(seed)[0]
    return tf.cast(tf.bitwise.bitwise_or(_shift_right(word, 31), tf.constant(1, tf.uint32)), dtype)


def _size(shape):
    """Number of entries: an int where the shape is static, else a tensor."""
    is_static = all(isinstance(length, int) for length in shape)
    return math.prod(shape) if is_static else tf.reduce_prod(tf.stack(shape))


def _blocks(seed, count):
    """The blocks 0, ..., count - 1 of the stream, as two vectors of uint32 words.

    Those who need one word an item leave the other: laying both out in one vector costs XLA more
    than computing them, unless they are few.
    """
    index = tf.cast(tf.range(count), tf.uint32)
    return threefry(_key(seed), (index, tf.zeros_like(index)))


def _key(seed):
    return tf.unstack(tf.bitcast(seed, tf.uint32))


def _rotate_left(x, count):
    left = tf.bitwise.left_shift(x, tf.constant(count, tf.uint32))
    return tf.bitwise.bitwise_or(left, _shift_right(x, 32 - count))


def _shift_right(x, count):
    return tf.bitwise.right_shift(x, tf.constant(count, tf.uint32))
