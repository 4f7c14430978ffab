"""Every step can be compiled for a GPU: XLA lowers it for one, which needs none."""

import pytest
import tensorflow as tf

from tests.support import targets
from tests.support.catalogue import every_kernel_in_depth


def _lower(function, nest):
    """The program of `function(*nest)` for a GPU, before it is optimised."""

    @tf.function(jit_compile=True, autograph=False)
    def of_leaves(*leaves):
        return tf.nest.flatten(function(*tf.nest.pack_sequence_as(nest, leaves)))

    specs = [tf.TensorSpec(leaf.shape, leaf.dtype) for leaf in tf.nest.flatten(nest)]
    return of_leaves.experimental_get_compiler_ir(*specs)(stage='hlo', platform_name='GPU')


@every_kernel_in_depth
def test_steps_lower_for_a_gpu(entry, seed):
    kernel = entry.make(targets.SKEWED.log_prob, 5)
    state = targets.SKEWED.draw(seed, [8])
    bootstrapped = kernel.bootstrap_results(state)
    frozen = kernel.frozen(bootstrapped)
    for owner, results in (
        (kernel, bootstrapped),
        (frozen, frozen.bootstrap_results(state)),
    ):
        program = _lower(
            lambda state, results, seed, owner=owner: owner.one_step(state, results, seed=seed),
            (state, results, tf.constant([seed, 0])),
        )
        assert 'ENTRY' in program


def test_what_does_not_lower_is_seen():
    with pytest.raises(Exception, match='unsupported operations'):
        _lower(lambda x: tf.linalg.slogdet(x), (tf.eye(3),))
