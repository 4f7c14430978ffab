"""Section: target evaluations a step, copies of the target a program, sizes of their graphs."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from experiments import targets
from experiments.benchmark import counting, kernels
from experiments.benchmark.section import Section
from experiments.config import Config
from experiments.tables import Table


def _units(config: Config) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    for label in config.settings['kernels']:
        yield label, functools.partial(_measure, config, label)


def _measure(config: Config, label: str) -> dict[str, Any]:
    settings = config.settings
    target = targets.make(**config.target)
    counter = counting.Counter(target.log_prob)
    kernel = kernels.make(counter, settings['num_steps'], label)
    state = target.initial_state(settings['num_chains'], (settings['seed'], 0))
    adaptive, results = _count(counter, kernel, state, settings)
    frozen, _ = _count(counter, kernel.frozen(results), state, settings)
    return {
        'num_leapfrog_steps': kernels.arguments_of(label)['num_leapfrog_steps'],
        'chains_times_squared_size': settings['num_chains'] * target.event_size**2,
        'frozen': frozen,
        'adaptive': adaptive,
    }


def _count(counter, kernel, state, settings) -> tuple[dict[str, Any], Any]:
    """Evaluations of every step of a program of one step, and the size of its graph."""
    results = kernel.bootstrap_results(state)
    step = tf.function(kernel.one_step, autograph=False)
    before = counter.num_traced
    program = step.get_concrete_function(state, results, seed=tf.TensorSpec([2], tf.int32))
    copies = counter.num_traced - before
    evaluations, products = [], []
    for index in range(settings['num_steps']):
        previous = _num_products(results)
        step_seed = tf.constant([settings['seed'], index])
        spent, (state, results) = counter.spent_by(step, state, results, seed=step_seed)
        products.append(_num_products(results) - previous)
        evaluations.append(spent - products[-1])
    return {
        'evaluations': [min(evaluations), max(evaluations)],
        'products': [min(products), float(np.mean(products)), max(products)],
        'copies': copies,
        'copies_later': counter.num_traced - before - copies,
        'operations': len(counting.operations(program)),
        'largest_tensor': counting.largest_tensor(program),
    }, results


def _num_products(results) -> int:
    """So far; a frozen kernel does not count them."""
    count = results.info.num_hessian_vector_products
    return 0 if isinstance(count, tuple) else int(count)


def _tables(config: Config, results: dict[str, Any]) -> list[Table]:
    settings = config.settings
    rows = []
    for label, found in results.items():
        frozen, adaptive = found['frozen'], found['adaptive']
        least, mean, most = adaptive['products']
        rows.append(
            [
                label,
                _range(*frozen['evaluations']),
                _range(*adaptive['evaluations']),
                f'{mean:.2f} ({_range(least, most)})',
                frozen['copies'],
                adaptive['copies'],
                frozen['copies_later'] + adaptive['copies_later'],
                frozen['operations'],
                adaptive['operations'],
                max(frozen['largest_tensor'], adaptive['largest_tensor']),
                found['chains_times_squared_size'],
            ]
        )
    return [
        Table(
            title='Counts',
            columns=[
                'kernel',
                'evaluations, frozen step',
                'evaluations, adaptive step',
                'Hessian-vector products, adaptive step',
                'copies of the target, frozen program',
                'adaptive program',
                'traced again later',
                'operations, frozen graph',
                'adaptive graph',
                'largest tensor',
                'C d d',
            ],
            rows=rows,
            note=(
                f'Evaluations of the log-density with its gradient, seen from inside the target '
                f'over {settings["num_steps"]} steps. A Hessian-vector product linearises the '
                f'gradient once, at about two gradients; N + 1 of them are due a step, N random. '
                f'Largest tensor: elements, in both graphs.'
            ),
        )
    ]


def _range(least, most) -> str:
    return f'{least}' if least == most else f'{least} to {most}'


SECTION = Section('counts', _units, _tables)
