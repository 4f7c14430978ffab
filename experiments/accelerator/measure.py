"""Runs the exported programs: `python experiments/accelerator/measure.py FOLDER`.

It needs JAX and NumPy, and nothing else of this repository; BlackJAX too with --peers. What it
finds is written to FOLDER/measured-PLATFORM.json after every program, and a program that is in
there is not measured again.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import platform as machines
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

_CALLS = 3
"""Of each length, whose fastest counts: what disturbs a call makes it slower."""
_NUM_MEANS = 100
"""Coordinates whose means are kept."""


def main() -> None:
    """Measures what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--peers', action='store_true', help='ChEES-HMC of BlackJAX as well')
    options = parser.parse_args()
    platform = 'CPU' if jax.default_backend() == 'cpu' else 'GPU'
    path = options.folder / f'measured-{platform}.json'
    found = json.loads(path.read_text()) if path.exists() else {'rows': []}
    found['environment'] = _environment()
    done = {row['program'] for row in found['rows']}
    manifest = json.loads((options.folder / 'programs.json').read_text())
    settings = manifest['settings']

    def keep(program, target, measured):
        row = {'program': program, 'target': target, **measured}
        found['rows'].append(row)
        path.write_text(json.dumps(found, indent=1))
        frozen = row['frozen_seconds']
        print(f'{target}, {row["num_chains"]} chains: {frozen:.3g} s a step', flush=True)

    for entry in manifest['programs']:
        program = entry['steps']['file']
        if entry['platform'] == platform and program not in done:
            keep(program, entry['target'], measure(entry, options.folder, settings))
    for entry in manifest['peers'] if options.peers else ():
        if entry['program'] not in done:
            seed = settings['seed'] + (platform == 'CPU')
            measured = chees(entry, options.folder, seed, settings)
            if measured is not None:
                keep(entry['program'], entry['target'], measured)


def measure(entry: dict, folder: pathlib.Path, settings: dict) -> dict:
    """Seconds a gradient and a step, and the efficiency of one run."""
    begin = time.perf_counter()
    gradients = compiled(folder, entry['gradients'])
    steps = compiled(folder, entry['steps'])
    compiling = time.perf_counter() - begin
    # a seed of its own for the CPU, so that means on the two can be compared
    seed = settings['seed'] + (entry['platform'] == 'CPU')
    most = settings['num_warmup_steps']
    num_results = settings['num_results']
    per_gradient = seconds_each(lambda count: gradients(seed, count), settings['seconds'])
    learning = seconds_each(lambda count: steps(seed, count, 0), settings['seconds'], most)
    frozen = seconds_each(lambda count: steps(seed, 0, count), settings['seconds'])
    times = {
        'num_dims': entry['num_dims'],
        'num_chains': entry['num_chains'],
        'compile_seconds': compiling,
        'gradient_seconds': per_gradient,
        'adaptive_seconds': learning,
        'frozen_seconds': frozen,
        'num_results': num_results,
    }
    if most * learning + num_results * frozen > settings['most_seconds']:
        return times
    begin = time.perf_counter()
    middle, *moments, accepted = steps(seed, most, num_results)
    seconds = time.perf_counter() - begin
    return {
        **times,
        'run_seconds': seconds,
        'acceptance': float(accepted.mean()),
        **judge(middle, moments),
    }


def compiled(folder: pathlib.Path, program: dict):
    """A function of whole numbers that runs one exported program on this machine."""
    numbers = [jnp.int32(0)] * program['num_arguments']

    def alike(*numbers):
        return tuple(jnp.zeros(shape, jnp.float32) + numbers[0] for shape in program['shapes'])

    # JAX runs what it has exported itself: the module of a function that looks alike is replaced
    exported = export.export(jax.jit(alike, keep_unused=True))(*numbers)
    module = (folder / program['file']).read_bytes()
    ours = dataclasses.replace(exported, mlir_module_serialized=module)
    run = jax.jit(ours.call).lower(*numbers).compile()
    return lambda *values: jax.block_until_ready(run(*map(jnp.int32, values)))


def seconds_each(call, seconds: float, most: int = 10**6) -> float:
    """Seconds of a turn, from calls of few and many turns, so that what both pay cancels.

    Both at their fastest of three, and so long that they differ by `seconds / 4`.
    """
    call(1)

    def fastest(length):
        def timed():
            begin = time.perf_counter()
            call(length)
            return time.perf_counter() - begin

        return min(timed() for _ in range(_CALLS))

    count = min(most, 4)
    while True:
        slow, fast = fastest(count), fastest(count // 4)
        if slow - fast > seconds / 4:
            return (slow - fast) / (count - count // 4)
        if count == most:
            # too short to be told from what every call pays, which is left in
            return slow / count
        count = min(most, 4 * count)


def judge(middle, moments) -> dict:
    """Means with their standard errors, and the smallest effective size.

    Both come from the scatter of the chains' means.

    With C chains of variance s^2 whose means have the variance v, the draws are worth C s^2 / v;
    its relative error is sqrt(2 / C), and so it is left out below 100 chains.

    Args:
      middle: [d], what the moments are about.
      moments: means over each chain's draws of the first, second and fourth powers, [C, d] each.
    """
    first, second, fourth = (np.asarray(each, np.float64) for each in moments)
    num_chains = len(first)
    if num_chains < 100:
        return {}
    variance = second.mean(axis=0) - first.mean(axis=0) ** 2
    of_squares = fourth.mean(axis=0) - second.mean(axis=0) ** 2
    sizes = num_chains * np.stack(
        [variance / first.var(axis=0, ddof=1), of_squares / second.var(axis=0, ddof=1)]
    )
    means = np.asarray(middle, np.float64) + first.mean(axis=0)
    errors = first.std(axis=0, ddof=1) / np.sqrt(num_chains)
    return {
        'min_ess': float(sizes.min()),
        'means': means[:_NUM_MEANS].tolist(),
        'standard_errors': errors[:_NUM_MEANS].tolist(),
    }


def density(options: dict, folder: pathlib.Path) -> tuple:
    """(log-density of q [d], d) of a target of ours, with its options there, written in JAX."""
    if options['name'] == 'logistic_regression':
        data = np.load(folder / 'peers.npz')
        signed = (2 * data['labels'] - 1)[:, np.newaxis] * data['design']
        return _logistic(jnp.asarray(signed, jnp.float32).T), signed.shape[1]
    num_dims = options['num_dims']
    if options['name'] == 'simulated_regression':
        first, second = jax.random.split(jax.random.key(1))
        covariates = jax.random.normal(first, [num_dims, options['num_rows']])
        probability = jax.nn.sigmoid(covariates.sum(axis=0) / 2)
        is_one = jax.random.uniform(second, probability.shape) < probability
        return _logistic(jnp.where(is_one, covariates, -covariates)), num_dims
    if options['name'] == 'autoregression':
        phi = options['phi']

        def path(q):
            innovation = (q[1:] - phi * q[:-1]) / (1 - phi**2) ** 0.5
            return -(q[0] ** 2 + jnp.sum(innovation**2)) / 2

        return path, num_dims
    whitening = jnp.asarray(np.load(folder / 'peers.npz')['whitening'], jnp.float32)
    return lambda q: -jnp.sum((whitening @ q) ** 2) / 2, num_dims


def _logistic(signed):
    """Of weights q with a standard normal prior; signed covariates [d, n]."""

    def log_prob(q):
        logits = q @ signed
        size = jnp.abs(logits)
        return jnp.sum((logits - size) / 2 - jnp.log(1 + jnp.exp(-size))) - q @ q / 2

    return log_prob


def chees(entry: dict, folder: pathlib.Path, seed: int, settings: dict) -> dict | None:
    """ChEES-HMC with a diagonal metric; `None` if one gradient a step would take too long."""
    import blackjax
    import optax

    num_chains = entry['num_chains']
    log_prob, num_dims = density(entry['density'], folder)
    gradient = jax.jit(jax.vmap(jax.value_and_grad(log_prob)))
    jax.block_until_ready(gradient(jnp.zeros([num_chains, num_dims])))
    begin = time.perf_counter()
    jax.block_until_ready(gradient(jnp.ones([num_chains, num_dims])))
    num_steps = settings['num_warmup_steps'] + settings['num_results']
    if num_steps * (time.perf_counter() - begin) > settings['most_seconds']:
        return None
    warmup = blackjax.chees_adaptation(
        log_prob, num_chains, target_acceptance_rate=0.75, mass_matrix_estimation='diagonal'
    )
    functions = {}

    def warm_up(key, position):
        (states, parameters), _ = warmup.run(
            key,
            position,
            0.1,
            optax.adam(0.5, b1=0.0, b2=0.95),
            num_steps=settings['num_warmup_steps'],
            max_sampling_steps=settings['num_results'],
        )
        for name in ('next_random_arg_fn', 'integration_steps_fn'):
            functions[name] = parameters.pop(name)
        return states, parameters

    def draw(key, states, parameters):
        step = blackjax.dynamic_hmc(log_prob, **functions, **parameters).step
        middle = states.position.mean(axis=0)

        def body(carry, key):
            states, sums = carry
            states, info = jax.vmap(step)(jax.random.split(key, num_chains), states)
            delta = states.position - middle
            new = delta, delta**2, delta**4, info.num_integration_steps.astype(jnp.float32)
            return (states, jax.tree.map(jnp.add, sums, new)), None

        zeros = jnp.zeros([num_chains, num_dims])
        sums = zeros, zeros, zeros, zeros[:, 0]
        keys = jax.random.split(key, settings['num_results'])
        (_, sums), _ = jax.lax.scan(body, (states, sums), keys)
        return middle, *jax.tree.map(lambda each: each / settings['num_results'], sums)

    key, warmup_key, start_key = jax.random.split(jax.random.key(seed), 3)
    position = 0.1 * jax.random.normal(start_key, [num_chains, num_dims])
    begin = time.perf_counter()
    learn = jax.jit(warm_up).lower(warmup_key, position).compile()
    compiling = time.perf_counter() - begin
    jax.block_until_ready(learn(warmup_key, position))  # the first call of a program is slower
    begin = time.perf_counter()
    states, parameters = jax.block_until_ready(learn(warmup_key, position))
    warming = time.perf_counter() - begin
    begin = time.perf_counter()
    sample = jax.jit(draw).lower(key, states, parameters).compile()
    compiling += time.perf_counter() - begin
    jax.block_until_ready(sample(key, states, parameters))
    begin = time.perf_counter()
    middle, *moments, lengths = jax.block_until_ready(sample(key, states, parameters))
    sampling = time.perf_counter() - begin
    return {
        'num_dims': num_dims,
        'num_chains': num_chains,
        'num_leapfrog_steps': float(lengths.mean()),
        'compile_seconds': compiling,
        'adaptive_seconds': warming / settings['num_warmup_steps'],
        'frozen_seconds': sampling / settings['num_results'],
        'run_seconds': warming + sampling,
        'num_results': settings['num_results'],
        **judge(middle, moments),
    }


def _environment() -> dict:
    return {
        'device': _device(),
        'cores': os.cpu_count(),
        'jax': jax.__version__,
        'python': machines.python_version(),
    }


def _device() -> str:
    """What the programs run on; a CPU by its name where Linux tells."""
    kind = jax.devices()[0].device_kind
    cpus = pathlib.Path('/proc/cpuinfo')
    if kind != 'cpu' or not cpus.exists():
        return kind
    names = [line for line in cpus.read_text().splitlines() if line.startswith('model name')]
    return names[0].partition(':')[2].strip() if names else kind


if __name__ == '__main__':
    main()
