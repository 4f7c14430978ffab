"""Loads exported samplers in a process that knows TensorFlow alone, and draws from them.

python tests/integration/saved_sampler.py FOLDER...

A folder holds a SavedModel and `start.npz` with the parts of a state and a seed; the draws are left
in `draws.npz`.
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf


def draw(folder):
    sampler = tf.saved_model.load(str(folder / 'model'))
    with np.load(folder / 'start.npz') as start:
        state, seed = [tf.constant(start[name]) for name in ('path', 'scales')], start['seed']
    results = sampler.start(state)
    first, state, results = sampler.run(state, results, tf.constant(seed))
    second, state, results = sampler.run(state, results, tf.constant(seed + 1))
    assert not {'tfp_adaptive', 'tensorflow_probability'} & set(sys.modules)
    np.savez(folder / 'draws.npz', *first, *second)


if __name__ == '__main__':
    for name in sys.argv[1:]:
        draw(pathlib.Path(name))
