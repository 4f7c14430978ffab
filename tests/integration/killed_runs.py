"""Runs with a checkpoint that are killed again and again, until one of them ends.

    python -m tests.integration.killed_runs FOLDER SEED NUM_KILLS

kills with SIGKILL at random moments, and at calls with which a run writes. It prints a line for
every run that has ended: how often it was killed, in which phases, and whether its draws are those
of a run that nothing interrupted. Processes are forked after the imports, which take longer than
the runs.

    python -m tests.integration.killed_runs FOLDER

kills a single run, half-way, and leaves it in `run.npz`.
"""

import functools
import os
import pathlib
import random
import signal
import sys
import time
import warnings

import numpy as np
import tensorflow as tf

import tfp_adaptive as tfpa
from tfp_adaptive.sampling.programs import programs
from tfp_adaptive.sampling.storage import checkpoint

LONG = {'num_results': 900, 'num_warmup_steps': 450}
SHORT = {'num_results': 40, 'num_warmup_steps': 20}
WRITING = ('open', 'write', 'fsync', 'replace', 'ftruncate')
OFTEN = (
    (programs, '_MAX_CHUNK_ROWS', 10),
    (checkpoint, '_SECONDS_BETWEEN_SAVES', 0.0),
    (checkpoint, '_MAX_SHARE_OF_TIME', 1e9),
)
"""What makes chunks of ten rows, and a save after each."""


def gaussian(q):
    return -tf.reduce_sum(tf.square(q), axis=-1) / 2


def run(path=None, target=gaussian, num_results=90, num_warmup_steps=45, **settings):
    settings = {
        'initial_state': tf.ones([4, 2]),
        'kernel': tfpa.GradientAdaptiveMALA,
        'seed': 3,
        'progress': False,
        'jit_compile': False,
        **settings,
    }
    return tfpa.sample(target, num_results, num_warmup_steps, checkpoint=path, **settings)


def fork(work):
    """The number of a process that does `work` and nothing else."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException as error:
        print(f'{type(error).__name__}: {error}', flush=True)
        os._exit(1)


def was_killed(child):
    """Whether a process was killed; any other failure ends this program."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    if os.WEXITSTATUS(status):
        sys.exit('a run has failed')
    return False


def save_draws(path, file, **sizes):
    found = run(path, **sizes)
    np.savez(file, *tf.nest.flatten((found.states, found.statistics, found.warmup_trace)))


def arrays(file):
    with np.load(file) as content:
        return [content[name] for name in content.files]


def same(file, other):
    pairs = zip(arrays(file), arrays(other), strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def kill_at_random(folder, seed, num_kills):
    """Kills runs after random times, until so many were killed."""
    rng = random.Random(seed)
    reference = folder / 'reference.npz'
    began = time.perf_counter()
    was_killed(fork(lambda: save_draws(None, reference, **LONG)))
    seconds = time.perf_counter() - began
    total = count = 0
    while total < num_kills:
        count += 1
        path, file, kills, progress = folder / f'{count}.h5', folder / f'{count}.npz', 0, []
        while True:
            child = fork(functools.partial(save_draws, path, file, **LONG))
            if total < num_kills:
                time.sleep(rng.uniform(0.2, 1.1) * seconds)
                os.kill(child, signal.SIGKILL)
            if not was_killed(child):
                break
            kills, total = kills + 1, total + 1
            progress.append(bytes_kept(path))
        print(f'random {kills} {progress} {same(file, reference)}', flush=True)


def bytes_kept(path):
    folder = pathlib.Path(f'{path}.rows')
    return sum(file.stat().st_size for file in folder.glob('*')) if folder.exists() else 0


def kill_at_calls(folder):
    """Kills a run at every fifth of the calls with which it writes."""
    reference, path, file = folder / 'short.npz', folder / 'calls.h5', folder / 'calls.npz'
    was_killed(fork(lambda: save_draws(None, reference, **SHORT)))
    kills, countdown = 0, 2
    while was_killed(fork(functools.partial(killing_itself, countdown, path, file))):
        kills, countdown = kills + 1, countdown + 5
    print(f'calls {kills} [] {same(file, reference)}', flush=True)


def killing_itself(countdown, path, file):
    """A run that is killed at the call of that number."""
    left = [countdown]

    def count():
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    # the files of the results are not written through these
    for name in WRITING:
        setattr(os, name, interrupted(name, getattr(os, name), count))
    save_draws(path, file, **SHORT)


def interrupted(name, call, interrupt):
    """A call with which a run writes that is interrupted first, a write when half is written."""

    def wrapped(*args, **kwargs):
        if name != 'write':
            interrupt()
            return call(*args, **kwargs)
        descriptor, content = args
        half = call(descriptor, content[: len(content) // 2])
        interrupt()
        return half + call(descriptor, content[half:])

    return wrapped


def main(folder, seed=None, num_kills=None):
    warnings.simplefilter('ignore')
    for module, name, value in OFTEN:
        setattr(module, name, value)
    folder = pathlib.Path(folder)
    if seed is None:
        is_killed = was_killed(fork(lambda: killing_itself(80, folder / 'run.npz', None)))
        print(f'killed {is_killed}')
    else:
        kill_at_random(folder, int(seed), int(num_kills))
        kill_at_calls(folder)


if __name__ == '__main__':
    main(*sys.argv[1:])
