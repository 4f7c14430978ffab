"""Densities in the plane, and the precision in which they are computed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

_GRID = 120
_LEVELS = (0.5, 2.0, 4.5)


def precision(fn: Callable, points: Any) -> tf.DType:
    """float64, or float32 for a function that takes no other.

    Args:
      fn: of points, such as a log-density.
      points: where it is tried.
    """
    try:
        fn(tf.constant(points, tf.float64))
    except Exception:
        # what is wrong in both precisions says so here
        fn(tf.constant(points, tf.float32))
        return tf.float32
    return tf.float64


def contours(ax: Any, target_log_prob_fn: Callable) -> None:
    """Three regions of high density, within the limits of the axes: 1, 2 and 3 deviations.

    There are none where the limits are so wide, or the log-density so large, that its differences
    are lost in rounding.

    Args:
      ax: matplotlib axes, already as wide as they are to be.
      target_log_prob_fn: callable of positions [n, 2] -> [n].
    """
    limits = ax.get_xlim(), ax.get_ylim()
    x, y = (np.linspace(low, high, _GRID) for low, high in limits)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape([-1, 2])
    dtype = precision(target_log_prob_fn, points[:1])
    values = np.asarray(target_log_prob_fn(tf.constant(points, dtype))).reshape([_GRID, _GRID])
    top = np.max(values, where=np.isfinite(values), initial=-np.inf)
    levels = top - np.array(_LEVELS[::-1], values.dtype)
    if not np.all(levels[:-1] < levels[1:]):
        return
    ax.contourf(
        x,
        y,
        values,
        levels=[*levels, np.inf],
        colors=['#e8eef5', '#cddceb', '#adc6de'],
        zorder=0,
    )
    ax.set(xlim=limits[0], ylim=limits[1])
