"""Pictures that change, by the writers of matplotlib."""

import os
import pathlib
from collections.abc import Callable, Iterable

from tfp_adaptive.plots import style


def animate(
    draw: Callable,
    frames: Iterable,
    path: str | os.PathLike,
    *,
    frames_per_second: float = 4.0,
    size: tuple[float, float] = (5.0, 4.0),
    dpi: int = 60,
) -> pathlib.Path:
    """Draws a figure anew for every frame and writes them as one file.

    Any picture of this module becomes an animation: let `draw` call it with the figure it is given.

    Args:
      draw: callable of (frame, figure), which draws into an empty figure.
      frames: what is passed to it, one after another; at least one.
      path: of the file; '.gif' is written by Pillow, other formats by ffmpeg.
      frames_per_second: Default 4.
      size: of the figure, inches.
      dpi: pixels an inch.

    Returns:
      The path.

    Raises:
      ImportError: without matplotlib.
      ValueError: if there is no frame.

    Example:
      >>> def draw(count, figure):
      ...     tfpa.plots.metric(np.eye(3)[:, :2] + np.eye(2)[0], np.eye(2), [count], figure=figure)
      >>> tfpa.plots.animate(draw, [2, 3], 'metric.gif').name  # doctest: +SKIP
      'metric.gif'
    """
    frames, path = list(frames), pathlib.Path(path)
    if not frames:
        raise ValueError('`frames` is empty: an animation needs at least one.')
    plt, animation = style.load('matplotlib.pyplot'), style.load('matplotlib.animation')
    figure = plt.figure(figsize=size, layout='constrained')
    kind = animation.PillowWriter if path.suffix.lower() == '.gif' else animation.FFMpegWriter
    writer = kind(fps=frames_per_second)
    with writer.saving(figure, str(path), dpi):
        for frame in frames:
            figure.clear()
            draw(frame, figure)
            writer.grab_frame()
    plt.close(figure)
    return path
