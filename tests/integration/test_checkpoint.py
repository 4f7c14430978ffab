"""Runs that are stopped, killed, damaged or given to somebody else, and go on or are refused."""

import errno
import fcntl
import hashlib
import io
import os
import pathlib
import shutil
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.contracts.comparisons import assert_identical
from tests.integration import killed_runs
from tests.integration.killed_runs import SHORT, gaussian, run
from tests.support.processes import run_python
from tfp_adaptive.sampling import coordinates
from tfp_adaptive.sampling.programs import programs
from tfp_adaptive.sampling.running import arriving
from tfp_adaptive.sampling.storage import checkpoint

tfmc = tfp.mcmc

pytestmark = pytest.mark.filterwarnings('ignore::tfp_adaptive.sampling.SamplingWarning')


@pytest.fixture
def small_chunks(monkeypatch):
    """Programs of ten rows a chunk, and a save after each."""
    for module, name, value in killed_runs.OFTEN:
        monkeypatch.setattr(module, name, value)


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """The folder of a run that has ended."""
    folder = tmp_path_factory.mktemp('finished')
    run(folder / 'run.npz')
    return folder


@pytest.fixture
def path(finished, tmp_path):
    """A copy of the run that has ended."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path / 'run.npz'


def test_the_way_to_the_typical_set_is_not_gone_again(tmp_path, monkeypatch):
    """What was found out about the first starts stays true whatever those of a later call are."""

    def half_line(q):
        return tf.where(q[..., 0] > -100, gaussian(q), -np.inf)

    starts = np.array([[-200.0, 0], [40, 40], [50, 50], [60, 60]], np.float32)
    settings = {'path': tmp_path / 'run.npz', 'num_warmup_steps': 120, 'target': half_line}
    ways, arrive = [], arriving.arrive

    def on_the_way(*args):
        ways.append(args)
        return arrive(*args)

    monkeypatch.setattr(arriving, 'arrive', on_the_way)
    first = run(initial_state=starts, **settings)
    assert first.diagnostics.num_moved_starts == 1
    assert len(ways) == 1
    again = run(num_results=120, **settings)
    assert len(ways) == 1
    assert again.diagnostics.num_moved_starts == 1
    assert again.diagnostics.num_warmup_gradients == first.diagnostics.num_warmup_gradients
    assert_identical(again.states[:90], first.states)


def test_a_warm_up_that_begins_once_more_goes_on(tmp_path, monkeypatch):
    """Three chains are in a mode of next to no weight, which the first arrival is kept from."""

    def two_modes(q):
        return tf.reduce_logsumexp([gaussian(q), gaussian(q - 30) - 40], axis=0)

    moved = checkpoint.Checkpoint.moved
    monkeypatch.setattr(arriving, 'arrive', lambda setup, begun, seed: begun)
    arrive_again, ways = arriving.arrive_again, []

    def on_the_way(*args):
        ways.append(args)
        return arrive_again(*args)

    monkeypatch.setattr(arriving, 'arrive_again', on_the_way)

    def interrupt(self, label, position):
        moved(self, label, position)
        if label == 'warm-up-2':
            self.save()  # which is otherwise done once in a while
            raise KeyboardInterrupt

    starts = np.array([[30.0, 30], [31, 30], [0, 0], [30, 29]], np.float32)
    settings = {'target': two_modes, 'initial_state': starts, 'num_warmup_steps': 150}
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.Checkpoint, 'moved', interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / 'run.npz', **settings)
    whole = run(**settings)
    assert np.max(np.abs(whole.states)) < 10
    assert whole.diagnostics.num_restarts == 3
    assert whole.diagnostics.num_warmup_gradients > 300
    assert len(ways) == 2
    assert_same_run(run(tmp_path / 'run.npz', **settings), whole)
    assert len(ways) == 2, 'what was found out is not asked again'


def assert_same_run(one, other):
    for name in ('states', 'statistics', 'trace', 'warmup_trace', 'kernel_results'):
        assert_identical(getattr(one, name), getattr(other, name))


def contents(path):
    """{file: digest} of all files of a checkpoint."""
    files = [path, *pathlib.Path(f'{path}.rows').glob('*')]
    return {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.exists()
    }


# ---- going on


@pytest.mark.slow
def test_killed_runs_end_with_the_same_draws(tmp_path):
    """At random moments, and at the calls with which a run writes."""
    (output,) = run_python(['-m', killed_runs.__name__, tmp_path, 1, 20])
    lines = [line for line in output.splitlines() if line.startswith(('random', 'calls'))]
    kills = {'random': 0, 'calls': 0}
    for line in lines:
        kind, count, *_, is_same = line.split()
        kills[kind] += int(count)
        assert is_same == 'True', output
    assert kills['random'] == 20, output
    assert kills['calls'] >= 5, output


@pytest.mark.slow
def test_a_run_of_a_process_that_was_killed_goes_on_in_another(tmp_path, small_chunks):
    (output,) = run_python(['-m', killed_runs.__name__, tmp_path])
    assert output.splitlines()[-1] == 'killed True'
    with np.load(tmp_path / 'run.npz') as file:
        assert 'sampling/state/0' in file
    assert_same_run(run(tmp_path / 'run.npz', **SHORT), run(**SHORT))


def test_what_a_kill_leaves_goes_on(tmp_path, monkeypatch, small_chunks):
    """A kill leaves the files as they are: at every call with which a run writes."""
    folder, copies, seen = tmp_path / 'run', [], set()
    sizes = {'num_results': 20, 'num_warmup_steps': 10}
    folder.mkdir()

    def keep():
        files = [path for path in sorted(folder.rglob('*')) if path.is_file()]
        now = tuple((path, path.read_bytes()) for path in files)
        if now not in seen:
            seen.add(now)
            copies.append(tmp_path / str(len(copies)))
            shutil.copytree(folder, copies[-1])

    with monkeypatch.context() as patch:
        for name in killed_runs.WRITING:
            patch.setattr(os, name, killed_runs.interrupted(name, getattr(os, name), keep))
        whole = run(folder / 'run.npz', **sizes)
    # the first saves of both phases, and the rows between
    assert len(copies) > 20
    for copy in copies:
        assert_same_run(run(copy / 'run.npz', **sizes), whole)


@pytest.mark.parametrize(
    ('num_chunks', 'jit_compile'),
    [(2, False), (8, False), pytest.param(8, True, marks=pytest.mark.slow)],
    ids=['2', '8', '8, XLA'],
)
def test_interrupted_run_goes_on(tmp_path, monkeypatch, small_chunks, num_chunks, jit_compile):
    """Stopped in the warm-up or in the sampling, with what was not yet saved thrown away."""
    moved, left = checkpoint.Checkpoint.moved, [num_chunks]

    def interrupt(self, phase, position):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        moved(self, phase, position)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.Checkpoint, 'moved', interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / 'run.npz', jit_compile=jit_compile)
    resumed = run(tmp_path / 'run.npz', jit_compile=jit_compile)
    assert_same_run(resumed, run(jit_compile=jit_compile))


def test_finished_run_is_read_back(path, monkeypatch):
    before = contents(path)
    calls = []
    monkeypatch.setattr(checkpoint.Checkpoint, 'moved', lambda *args: calls.append(args))
    again = run(path, seed=None)
    assert_same_run(again, run())
    assert not calls
    assert again.diagnostics.num_warmup_gradients == run().diagnostics.num_warmup_gradients
    rows = {name: sum for name, sum in contents(path).items() if name.endswith('.bin')}
    assert rows.items() <= before.items()


def test_longer_run_draws_the_rest(path):
    assert_same_run(run(path, num_results=120), run(num_results=120))
    with pytest.raises(ValueError, match=r'120 draws per chain, more than num_results=100'):
        run(path, num_results=100)


def test_going_on_shows_progress(path, capsys):
    """Also where the run had ended before, and `until` wants more of it."""
    run(path, until=tfpa.Until(min_ess=1e9, max_steps=180), progress=True)
    assert 'sampling: 180/180 steps' in capsys.readouterr().err


def test_a_call_that_is_refused_leaves_nothing_behind(tmp_path):
    notes = tmp_path / 'notes.txt'
    notes.write_text('not a checkpoint')
    with pytest.raises(ValueError, match='is no checkpoint'):
        run(notes)
    with pytest.raises(ValueError, match='`target`'):
        run(tmp_path / 'run.npz', target=lambda q: tf.stop_gradient(gaussian(q)))
    assert list(tmp_path.iterdir()) == [notes]


def test_files_that_cannot_be_locked(path, monkeypatch):
    def refuse(*args):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, 'flock', refuse)
    with pytest.warns(UserWarning, match='cannot be locked'):
        found = run(path)
    assert len(found.states) == 90


def test_run_without_seed_keeps_its_own(tmp_path):
    first = run(tmp_path / 'run.npz', seed=None)
    assert_same_run(first, run(tmp_path / 'run.npz', seed=None))
    assert not np.array_equal(first.states, run(tmp_path / 'other.h5', seed=None).states)


def test_until_ends_where_it_would_have_ended(path):
    """Going on with `until` from 90 draws equals a run that had it from the start."""
    until = tfpa.Until(max_rhat=None, min_ess=300, max_steps=5000)
    whole = run(until=until)
    assert 90 < len(whole.states) < 5000
    resumed = run(path, until=until)
    assert_same_run(resumed, whole)
    assert resumed.stop_reason == whole.stop_reason


@pytest.mark.parametrize('phase', ['sampling', 'thinned'])
def test_draws_of_chains_that_mix_slowly_go_on(tmp_path, monkeypatch, small_chunks, phase):
    """Interrupted in the first draws, or in those that replace them."""
    settings = {'kernel': small_steps, 'num_results': 300, 'num_warmup_steps': 0}
    moved = checkpoint.Checkpoint.moved

    def interrupt(self, label, position):
        if label.startswith(phase) and position.num_rows > 200:
            raise KeyboardInterrupt
        moved(self, label, position)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.Checkpoint, 'moved', interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / 'run.npz', **settings)
    whole = run(**settings)
    assert 'one every' in whole.stop_reason
    resumed = run(tmp_path / 'run.npz', **settings)
    assert_same_run(resumed, whole)
    assert resumed.stop_reason == whole.stop_reason


@pytest.mark.parametrize(('phase', 'num_rows'), [('sampling', 190), ('longer', 100)])
def test_longer_moves_go_on(tmp_path, monkeypatch, phase, num_rows):
    """Interrupted in the draws that call for longer moves, or in those that take them."""
    settings = {'kernel': None, 'num_results': 300, 'num_warmup_steps': 500}
    settings['initial_state'] = np.ones([10, 200], np.float32)
    whole = run(**settings)
    assert whole.frozen_kernel.parameters['step_size'] == 0.75
    moved = checkpoint.Checkpoint.moved

    def interrupt(self, label, position):
        moved(self, label, position)
        if label == phase and position.num_rows >= num_rows:
            self.save()
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(programs, '_MAX_CHUNK_ROWS', 10)
        patch.setattr(checkpoint.Checkpoint, 'moved', interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / 'run.npz', **settings)
    assert_same_run(run(tmp_path / 'run.npz', **settings), whole)


def test_draws_that_replaced_the_first_outlive_a_longer_run(tmp_path, monkeypatch, small_chunks):
    """Interrupted while the first draws go on, before the others are come to."""
    settings = {'kernel': small_steps, 'num_warmup_steps': 0}
    path = tmp_path / 'run.npz'
    first = run(path, num_results=300, **settings)
    assert 'one every' in first.stop_reason
    states = np.array(first.states)  # its own are those of the file
    moved = checkpoint.Checkpoint.moved

    def interrupt(self, label, position):
        moved(self, label, position)
        if position.num_rows > 310:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.Checkpoint, 'moved', interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(path, num_results=330, **settings)
    resumed = run(path, num_results=330, **settings)
    assert 'one every' in resumed.stop_reason
    np.testing.assert_array_equal(resumed.states[:300], states)


def small_steps(log_prob):
    return tfmc.RandomWalkMetropolis(log_prob, tfmc.random_walk_normal_fn(0.2))


def make_hmc(log_prob):
    return tfmc.HamiltonianMonteCarlo(log_prob, step_size=0.5, num_leapfrog_steps=2)


def test_model_with_names_and_traces(tmp_path):
    model = tfp.distributions.JointDistributionNamed(
        {'scale': tfp.distributions.LogNormal(0.0, 1.0)}
    )
    settings = {'target': model, 'initial_state': None, 'num_chains': 3, 'kernel': make_hmc}
    settings['trace_fn'] = lambda state, results: (state['scale'], results.is_accepted)
    whole = run(**settings)
    run(tmp_path / 'run.npz', num_results=40, **settings)
    resumed = run(tmp_path / 'run.npz', **settings)
    assert_same_run(resumed, whole)
    assert resumed.trace[1].dtype == bool
    resumed.summary()


OTHER_KERNELS = {
    'nuts': lambda p: tfmc.DualAveragingStepSizeAdaptation(tfmc.NoUTurnSampler(p, 0.5), 15),
    'replica exchange': lambda p: tfmc.ReplicaExchangeMC(
        p, [1.0, 0.5], lambda p: tfmc.HamiltonianMonteCarlo(p, 0.3, 2)
    ),
}


@pytest.mark.parametrize('name', ['replica exchange', pytest.param('nuts', marks=pytest.mark.slow)])
def test_any_kernel_goes_on(tmp_path, name):
    kernel = OTHER_KERNELS[name]
    run(tmp_path / 'run.npz', num_results=40, kernel=kernel)
    assert_same_run(run(tmp_path / 'run.npz', kernel=kernel), run(kernel=kernel))


def test_a_run_can_be_watched(path):
    """What the file says needs nothing but NumPy to be read."""
    with np.load(path) as file:
        assert file['sampling/state/0'].shape == (4, 2)
        assert '"num_rows": 90' in file['facts'].item()


def test_draws_stay_on_the_disk(tmp_path, monkeypatch):
    """Memory does not grow with the draws; without a checkpoint it does."""
    # what is computed, and looked at, in one piece
    monkeypatch.setattr(programs, '_MAX_CHUNK_ROWS', 200)
    monkeypatch.setattr(coordinates, '_BLOCK_BYTES', 2**20)

    def run_wide(num_results, path):
        return run(
            path,
            num_results=num_results,
            initial_state=tf.zeros([4, 80]),
            kernel=lambda p: tfp.mcmc.UncalibratedRandomWalk(p),
            until=tfpa.Until(max_steps=num_results),
            progress=True,
        )

    def peak(num_results, path):
        tracemalloc.start()
        found = run_wide(num_results, path)
        assert found.states.shape == (num_results, 4, 80)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    # a resumed run with a bar, and `until`, look at all draws as well
    sizes = (1000, 4000)
    for size in sizes:
        run_wide(size // 2, tmp_path / f'{size}.h5')
    draws = 4 * 80 * 4 * (sizes[1] - sizes[0])
    kept = [peak(size, tmp_path / f'{size}.h5') for size in sizes]
    held = [peak(size, None) for size in sizes]
    assert held[1] - held[0] > draws / 2
    # ranks are of all draws of one coordinate at a time
    assert kept[1] - kept[0] < draws / 2


# ---- another run, another process


def test_one_run_at_a_time(path):
    with (
        checkpoint.Checkpoint(path),
        pytest.raises(ValueError, match=r'`checkpoint`.*is in use by another run'),
    ):
        run(path)
    run(path)


# ---- damage


def truncate(length):
    return lambda content: content[:length] if length >= 0 else content[: len(content) + length]


def flip(position):
    def flipped(content):
        changed = bytearray(content)
        changed[position] ^= 1
        return bytes(changed)

    return flipped


def archive(**arrays):
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


DAMAGE = {
    'empty': ('', truncate(0), 'is no checkpoint'),
    'text': ('', lambda content: b'notes', 'is no checkpoint'),
    'another archive': ('', lambda content: archive(x=np.zeros(2)), 'is no checkpoint'),
    'cut': ('', truncate(60), 'is damaged'),
    'last byte cut': ('', truncate(-1), 'is damaged'),
    'name changed': ('', flip(32), 'is damaged'),
    'content changed': ('', flip(5000), 'is damaged'),
    'draws cut': ('.rows/sampling.bin', truncate(-1), 'is cut short'),
    'draws changed': ('.rows/sampling.bin', flip(100), 'is damaged'),
    'draws gone': ('.rows/sampling.bin', None, 'is missing'),
    'warm-up changed': ('.rows/warm-up.bin', flip(-1), 'is damaged'),
    'only draws left': ('', None, 'is missing, but the draws of a run are in'),
}


@pytest.mark.parametrize('case', DAMAGE)
def test_damage_is_refused_and_left_alone(path, case):
    suffix, change, message = DAMAGE[case]
    file = pathlib.Path(f'{path}{suffix}')
    whole = file.read_bytes()
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(whole))
    before = contents(path)
    with pytest.raises(ValueError, match=f'`checkpoint`.*{message}'):
        run(path)
    assert contents(path) == before
    file.write_bytes(whole)
    assert_same_run(run(path), run())


def test_rows_that_do_not_count_are_cut_off(path):
    rows = pathlib.Path(f'{path}.rows/sampling.bin')
    rows.write_bytes(rows.read_bytes() + b'half a row')
    pathlib.Path(f'{path}.tmp').write_bytes(b'half a checkpoint')
    assert_same_run(run(path, num_results=120), run(num_results=120))


# ---- the disk


@pytest.mark.parametrize('room', [0, 3000, 60_000])
def test_full_disk_loses_nothing(tmp_path, monkeypatch, small_chunks, room):
    path, write, left = tmp_path / 'run.npz', os.write, [room]

    def full(descriptor, content):
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = write(descriptor, bytes(content)[: left[0]])
        left[0] -= count
        return count

    with monkeypatch.context() as patch:
        patch.setattr(os, 'write', full)
        with pytest.raises(OSError, match=r'`checkpoint`.*No space left on device.*make room'):
            run(path)
    assert not pathlib.Path(f'{path}.tmp').exists()
    assert_same_run(run(path), run())


def test_a_refusal_of_the_sampling_program_loses_no_warm_up(tmp_path, monkeypatch):
    """XLA on a CPU has no `slogdet`; the warm-up was compiled, and its rows stay as they are."""
    opened = []
    make = checkpoint.DiskRows

    def counted(path, *args):
        opened.append(pathlib.Path(path).stem)
        return make(path, *args)

    monkeypatch.setattr(checkpoint, 'DiskRows', counted)

    def trace_fn(state, results):
        return tf.linalg.slogdet(state[:, :, tf.newaxis] * state[:, tf.newaxis] + tf.eye(2))[1]

    def draw(num_results):
        return tfpa.sample(
            gaussian,
            num_results,
            120,
            initial_state=tf.zeros([4, 2]),
            trace_fn=trace_fn,
            num_steps_between_results=0,
            checkpoint=tmp_path / 'run.npz',
            seed=1,
            progress=False,
        )

    with pytest.warns(match='XLA cannot compile'):
        first = draw(20)
    assert opened == ['warm-up', 'sampling']
    assert len(first.warmup_trace.accept_prob) == 120
    more = draw(30)
    np.testing.assert_array_equal(more.states[:20], first.states)
    np.testing.assert_array_equal(more.trace[:20], first.trace)
