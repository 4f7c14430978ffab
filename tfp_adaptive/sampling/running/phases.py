"""A phase of a run: one compiled program, called in chunks between which progress is shown."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfp_adaptive.sampling.running.programs import Program
from tfp_adaptive.sampling.targets import user_code


@dataclass(frozen=True)
class Position:
    """How far a phase has come: all it takes to go on.

    Attributes:
      state: of the chains.
      kernel_results: of the last step.
      num_rows: rows kept so far.
      accept_prob: sum over steps of the mean acceptance probability.
      num_divergences: of all steps and chains.
      seconds: spent, but for compilation.
    """

    state: Any
    kernel_results: Any
    num_rows: int = 0
    accept_prob: float = 0.0
    num_divergences: int = 0
    seconds: float = 0.0

    def anew(self) -> 'Position':
        """The first position of a phase that goes on from here; the seconds count as its own."""
        return Position(self.state, self.kernel_results, seconds=self.seconds)


def compile_program(program: Program, position: Position, seed: Any) -> None:
    """Makes sure that `program` is compiled: a call of no rows compiles it and does nothing else.

    Args:
      program: of the phase.
      position: where it starts.
      seed: int32 [2].

    Raises:
      ValueError: if XLA cannot compile it.
    """
    with compiling(position.state):
        _call(program, position, seed, 0)


@contextlib.contextmanager
def compiling(state: Any) -> Iterator[None]:
    """Says what to do if XLA cannot compile what runs here.

    Args:
      state: of the chains.

    Raises:
      ValueError: if it cannot.
    """
    try:
        with user_code.explained('kernel', tf.nest.flatten(state)):
            yield
    except ValueError as error:
        cause = error.__cause__
        if not isinstance(cause, (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError)):
            raise
        raise ValueError(
            'XLA cannot compile `target` or `kernel`: pass jit_compile=False. TensorFlow says: '
            f'{user_code.reason(cause)}'
        ) from cause


def advance(
    program: Program,
    position: Position,
    seed: Any,
    num_rows: int,
    keep: Callable[[list, Position], None],
) -> Position:
    """Advances the chains until the phase has `num_rows` rows.

    Chunks last about a quarter of a second.

    Args:
      program: of the phase.
      position: where to go on from.
      seed: int32 [2]; step k uses it folded with k.
      num_rows: rows of the phase when this returns.
      keep: called after every chunk with the leaves of its rows, NumPy arrays [rows, ...], and the
        position they lead to.

    Returns:
      The position after row `num_rows`.
    """
    last = time.perf_counter()
    while position.num_rows < num_rows:
        count = min(program.pace.num_rows, program.capacity, num_rows - position.num_rows)
        before = time.perf_counter()
        chunk = _call(program, position, seed, count)
        # sliced by NumPy: TensorFlow takes a quarter of a millisecond a slice
        rows = [leaf.numpy()[:count] for leaf in tf.nest.flatten(chunk.traced)]
        accept_prob = float(chunk.statistics.accept_prob)
        now = time.perf_counter()
        position = Position(
            state=chunk.state,
            kernel_results=chunk.kernel_results,
            num_rows=position.num_rows + count,
            accept_prob=position.accept_prob + accept_prob,
            num_divergences=position.num_divergences + int(chunk.statistics.num_divergences),
            seconds=position.seconds + now - last,
        )
        last = now
        keep(rows, position)
        program.pace.learn(count, now - before)
    return position


def _call(program, position, seed, count):
    return program.advance(
        position.state,
        position.kernel_results,
        seed,
        tf.constant(position.num_rows),
        tf.constant(count),
        *program.arguments,
    )
