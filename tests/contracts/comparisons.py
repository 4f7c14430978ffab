"""Comparisons of nests of tensors, and the pure step behind a kernel with injected noise."""

import numpy as np
import tensorflow as tf

from tfp_adaptive.internal import packing, random
from tfp_adaptive.kernels import geometry


def to_numpy(nest):
    """A nest of tensors as a nest of NumPy arrays."""
    return tf.nest.map_structure(np.asarray, nest)


def assert_same_signature(actual, expected):
    """Same structure and types of it, same dtypes and shapes, leaf by leaf."""
    tf.nest.assert_same_structure(actual, expected)
    for a, b in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
        assert tf.as_dtype(a.dtype) == tf.as_dtype(b.dtype)
        assert tf.TensorShape(a.shape) == tf.TensorShape(b.shape)


def assert_identical(actual, expected):
    """Same structure and the same bits."""
    tf.nest.assert_same_structure(actual, expected)
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_array_equal(np.asarray(a), np.asarray(b)), actual, expected
    )


def assert_close(actual, expected, rtol):
    """Same structure, and equal up to rounding relative to the largest entry of each leaf."""
    tf.nest.assert_same_structure(actual, expected)

    def check(a, b):
        a, b = np.asarray(a), np.asarray(b)
        size = np.max(np.abs(b[np.isfinite(b)]), initial=1e-3)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * size)

    tf.nest.map_structure(check, actual, expected)


def all_finite(nest):
    """Whether every floating entry of a nest is finite."""
    return all(
        np.isfinite(leaf).all()
        for leaf in tf.nest.flatten(to_numpy(nest))
        if np.issubdtype(leaf.dtype, np.floating)
    )


def is_identical(a, b):
    """Whether two nests hold the same bits."""
    pairs = zip(tf.nest.flatten(to_numpy(a)), tf.nest.flatten(to_numpy(b)), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


def packed(kernel, state):
    """The kernel's target on [C, D] and the packed `ChainState` of a state structure."""
    parts = packing.to_parts(state)
    log_prob, grads = kernel._evaluate(parts)
    layout = packing.make_layout(parts, log_prob.shape, packing.part_names(state))
    velocity = [
        random.normal(tf.unstack(tf.shape(part)), tf.constant([7, index]), part.dtype)
        for index, part in enumerate(kernel._initial_velocity(parts))
    ]
    memory = kernel._initial_memory(parts, log_prob, grads)
    chain_state = kernel._chain_state(layout, parts, log_prob, grads, velocity, memory)
    return kernel._packed_target(layout, parts), chain_state


def preconditioner_of(kernel, state):
    """What the kernel learns on such a state: a `Preconditioner` or a `Flow`."""
    return geometry.resolve(kernel._axes.preconditioner, packed(kernel, state)[0].event)


def log_det_of(kernel, state, parameters):
    """log|det| of the kernel's preconditioner, a scalar."""
    axes, event = kernel._axes, packed(kernel, state)[0].event
    if not hasattr(axes, 'objective'):
        return axes.preconditioner.log_det(parameters)
    return geometry.make_geometry(
        event, axes.proposal, axes.preconditioner, axes.objective, axes.energy_gradient
    ).log_det(parameters)


def draw_noise(kernel, state, seed):
    """The noise of one step as the kernel draws it; `state` has one chain dimension."""
    parts = packing.to_parts(state)
    event_size = sum(np.prod(part.shape[1:], dtype=int) for part in parts)
    return kernel._sampler.draw(
        tf.convert_to_tensor(seed, tf.int32), parts[0].shape[0], event_size, parts[0].dtype
    )


def pure_step(kernel, density, chain_state, results, noise):
    """(transition, adaptation, info) of the kernel's pure step with injected noise.

    Args:
      kernel: whose step it is.
      density: from `packed`.
      chain_state: from `packed`.
      results: kernel results, for what is learned.
      noise: from `draw_noise`.
    """
    return kernel._sampler.step(
        density,
        chain_state,
        results.adaptation,
        results.info,
        noise,
        results.step_size,
        results.step,
    )


def rows_of(nest, rows):
    """Some of the chains; what has no chain dimension is shared."""
    return tf.nest.map_structure(lambda x: x[rows] if x.shape.rank else x, nest)


def injected_steps(kernel, state, rows, results, noises):
    """(transition, adaptation, info) after each step of some of the chains.

    Args:
      kernel: whose steps they are.
      state: [C, D] of all chains.
      rows: slice of the chains that take part.
      results: kernel results, for what is learned.
      noises: from `draw_noise` of all chains, one a step.
    """
    density, _ = packed(kernel, state[rows])
    chain_state = rows_of(packed(kernel, state)[1], rows)
    trace = []
    for step, noise in enumerate(noises):
        results = results._replace(step=tf.constant(step))
        transition, adaptation, info = pure_step(
            kernel, density, chain_state, results, rows_of(noise, rows)
        )
        chain_state = transition.state
        results = results._replace(adaptation=adaptation, info=info)
        trace.append((transition, adaptation, info))
    return trace
