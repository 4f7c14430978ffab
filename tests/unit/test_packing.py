"""internal.packing: any state structure to [C, D] and back, and what it refuses."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from tfp_adaptive.internal import packing

Pair = collections.namedtuple('Pair', ['slope', 'offset'])

BATCHES = [(), (4,), (2, 3)]


def normal(rng, *shape):
    return tf.constant(rng.normal(size=shape))


def mixed_parts(rng, batch):
    """A scalar, a vector and a matrix event."""
    return [normal(rng, *batch), normal(rng, *batch, 3), normal(rng, *batch, 2, 2)]


@pytest.mark.parametrize('batch', BATCHES)
def test_round_trip_of_mixed_ranks(batch, rng):
    parts = mixed_parts(rng, batch)
    layout = packing.make_layout(parts, tf.TensorShape(batch))
    packed = packing.pack(layout, parts)
    assert layout.event_size == 1 + 3 + 4
    assert packed.shape == (np.prod(batch, dtype=int), 8)
    batch_shape = packing.batch_shape_of(layout, parts[0])
    for part, back in zip(
        parts, packing.unpack(layout, packed, batch_shape, like=parts), strict=True
    ):
        np.testing.assert_array_equal(part, back)
        assert part.shape == back.shape


def test_columns_are_the_parts_in_order(rng):
    parts = mixed_parts(rng, (4,))
    packed = packing.pack(packing.make_layout(parts, tf.TensorShape([4])), parts)
    np.testing.assert_array_equal(packed[:, 0], parts[0])
    np.testing.assert_array_equal(packed[:, 1:4], parts[1])
    np.testing.assert_array_equal(packed[:, 4:], tf.reshape(parts[2], [4, 4]))


def test_rows_are_the_chains_in_row_major_order(rng):
    part = normal(rng, 2, 3, 5)
    packed = packing.pack(packing.make_layout([part], tf.TensorShape([2, 3])), [part])
    np.testing.assert_array_equal(packed[1 * 3 + 2], part[1, 2])


@pytest.mark.parametrize('structure', ['tensor', 'list', 'tuple', 'namedtuple'])
def test_structure_is_restored(structure, rng):
    a, b = normal(rng, 4, 2), normal(rng, 4)
    state = {'tensor': a, 'list': [a, b], 'tuple': (a, b), 'namedtuple': Pair(a, b)}[structure]
    parts = packing.to_parts(state)
    restored = packing.like_state(state, parts)
    tf.nest.assert_same_structure(state, restored, check_types=True)
    assert type(restored) is type(state)
    for before, after in zip(tf.nest.flatten(state), tf.nest.flatten(restored), strict=True):
        np.testing.assert_array_equal(before, after)


def test_unknown_number_of_chains(rng):
    """The number of chains may be known only when the program runs."""
    parts = mixed_parts(rng, (4,))

    @tf.function(
        input_signature=[tf.TensorSpec([None, *part.shape[1:]], tf.float64) for part in parts]
    )
    def round_trip(*parts):
        layout = packing.make_layout(parts, tf.TensorShape([None]))
        batch_shape = packing.batch_shape_of(layout, parts[0])
        packed = packing.pack(layout, parts)
        return packing.unpack(layout, packed, batch_shape, like=parts)

    for part, back in zip(parts, round_trip(*parts), strict=True):
        np.testing.assert_array_equal(part, back)


def test_python_numbers_become_tensors():
    (part,) = packing.to_parts([[1.0, 2.0]])
    assert part.dtype == tf.float32
    assert part.shape == (2,)


@pytest.mark.parametrize(
    ('state', 'message'),
    [
        ({'a': 1.0}, 'dict'),
        ([], 'no tensor'),
        ([tf.constant(1)], 'int32'),
        ([tf.constant(1.0), tf.constant(1.0, tf.float64)], 'float32, float64'),
    ],
    ids=['dict', 'empty', 'integers', 'mixed dtypes'],
)
def test_refused_states(state, message):
    with pytest.raises(TypeError, match=f'`current_state`.*{message}|{message}.*`current_state`'):
        packing.to_parts(state)


def test_refused_layouts():
    with pytest.raises(ValueError, match='`target_log_prob_fn` must return one value per chain'):
        packing.make_layout([tf.zeros([4, 2])], tf.TensorShape([3]))
    with pytest.raises(ValueError, match='part 1'):
        packing.make_layout([tf.zeros([4, 2]), tf.zeros([])], tf.TensorShape([4]))
    with pytest.raises(ValueError, match=r'`target_log_prob_fn`.*rank'):
        packing.make_layout([tf.zeros([4, 2])], tf.TensorShape(None))
    with pytest.raises(ValueError, match=r'non-empty event shape.*got \(0,\)'):
        packing.make_layout([tf.zeros([4, 0])], tf.TensorShape([4]))


def test_refused_unknown_shapes():
    @tf.function(input_signature=[tf.TensorSpec([4, None])])
    def unknown_event(x):
        packing.make_layout([x], tf.TensorShape([4]))

    @tf.function(input_signature=[tf.TensorSpec(None)])
    def unknown_rank(x):
        packing.make_layout([x], tf.TensorShape([4]))

    with pytest.raises(ValueError, match=r'part 0 of `current_state`.*static, non-empty event'):
        unknown_event(tf.zeros([4, 2]))
    with pytest.raises(ValueError, match=r'part 0 of `current_state`.*static rank'):
        unknown_rank(tf.zeros([4, 2]))
