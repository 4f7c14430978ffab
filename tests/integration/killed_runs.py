"""Runs with a checkpoint that are killed again and again, until one of them ends.

    python -m tests.integration.killed_runs FOLDER SEED NUM_KILLS

kills with SIGKILL at random moments, and once at every call with which a run writes. It prints a
line for every run that has ended: how often it was killed, in which phases, and whether its draws
are those of a run that nothing interrupted. Processes are forked after the imports, which take
longer than the runs.
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

NUM_RESULTS, NUM_WARMUP_STEPS = 900, 450
WRITING = ('open', 'write', 'fsync', 'replace', 'ftruncate')


def target(q):
    return -tf.reduce_sum(tf.square(q) * tf.constant([1.0, 10.0]), axis=-1) / 2


def run(path, num_results=NUM_RESULTS, num_warmup_steps=NUM_WARMUP_STEPS):
    """A run that saves as often as it can."""
    warnings.simplefilter('ignore')
    checkpoint._SECONDS_BETWEEN_SAVES = 0.0
    checkpoint._MAX_SHARE_OF_TIME = 1e9
    programs._MAX_CHUNK_ROWS = 15
    return tfpa.sample(
        target,
        num_results,
        num_warmup_steps,
        initial_state=tf.ones([2, 2]),
        kernel=tfpa.GradientAdaptiveMALA,
        seed=5,
        progress=False,
        jit_compile=False,
        checkpoint=path,
    )


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
    was_killed(fork(lambda: save_draws(None, reference)))
    seconds = time.perf_counter() - began
    total = count = 0
    while total < num_kills:
        count += 1
        path, file, kills, progress = folder / f'{count}.h5', folder / f'{count}.npz', 0, []
        while True:
            child = fork(functools.partial(save_draws, path, file))
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
    """Kills a run at each of the calls with which it writes, the writes when half is written."""
    sizes = {'num_results': 60, 'num_warmup_steps': 30}
    reference, path, file = folder / 'short.npz', folder / 'calls.h5', folder / 'calls.npz'
    was_killed(fork(lambda: save_draws(None, reference, **sizes)))
    kills, countdown = 0, 2
    while was_killed(fork(functools.partial(killing_itself, countdown, path, file, sizes))):
        kills, countdown = kills + 1, countdown + 5
    print(f'calls {kills} [] {same(file, reference)}', flush=True)


def killing_itself(countdown, path, file, sizes):
    """A run that is killed at the call of that number."""
    left = [countdown]

    def wrap(name, call):
        def wrapped(*args, **kwargs):
            left[0] -= 1
            if left[0]:
                return call(*args, **kwargs)
            if name == 'write':
                call(args[0], bytes(args[1])[: len(args[1]) // 2])
            return os.kill(os.getpid(), signal.SIGKILL)

        return wrapped

    # the files of the results are not written through these
    for name in WRITING:
        setattr(os, name, wrap(name, getattr(os, name)))
    save_draws(path, file, **sizes)


if __name__ == '__main__':
    scratch, first_seed, number = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    kill_at_random(scratch, first_seed, number)
    kill_at_calls(scratch)
