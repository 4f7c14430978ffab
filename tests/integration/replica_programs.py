"""What the tests of `tfp_adaptive.distribute` run in processes of their own.

python -m tests.integration.replica_programs FOLDER SEED PROGRAM...

leaves what each PROGRAM returns, as NumPy, in a file of FOLDER named after the process. With
TF_CONFIG in the environment the process is a worker of a cluster; without, it holds two replicas
itself.
"""

import functools
import json
import os
import pathlib
import pickle
import sys

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import tfp_adaptive as tfpa
from tests.support import targets
from tests.support.catalogue import KERNELS
from tfp_adaptive.distribute import replicas

NUM_CHAINS = 5
NUM_ADAPTATION_STEPS, NUM_STEPS = 4, 6
NUM_FROZEN_STEPS = 4
LAW_CHAINS, LAW_STEPS, LAW_RUNS = 5, 40, 60


def make_strategy():
    """Two replicas: one in each of two processes, or both in this one."""
    if 'TF_CONFIG' in os.environ:
        options = tf.distribute.experimental.CommunicationOptions(timeout_seconds=60)
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    cpu = tf.config.list_physical_devices('CPU')[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy()


def learning_kernel(pool_fn):
    return KERNELS[0].make(targets.LIST.log_prob, NUM_ADAPTATION_STEPS, pool_fn=pool_fn)


def _run(strategy, kernel, num_steps, state, results=None, first_step=0, *, seed):
    return tfpa.distribute.sample_chain(
        strategy,
        num_steps,
        state,
        kernel,
        previous_kernel_results=results,
        first_step=first_step,
        trace_fn=lambda _, results: results,
        seed=(seed, 0),
    )


@functools.cache
def _warm(strategy, seed):
    """(kernel, its warm-up of uneven blocks of chains)."""
    kernel = learning_kernel(tfpa.distribute.sum_over_replicas)
    state = targets.LIST.draw(seed, [NUM_CHAINS], 'float64')
    return kernel, _run(strategy, kernel, NUM_STEPS, state, seed=seed)


def learn(strategy, seed):
    """A warm-up, and draws once frozen."""
    kernel, warm = _warm(strategy, seed)
    frozen = kernel.frozen(warm.final_kernel_results.replicas[0])
    draws = tfpa.distribute.sample_chain(
        strategy, NUM_FROZEN_STEPS, warm.final_state, frozen, seed=(seed, 1)
    )
    return {
        'ids': replicas.replica_ids(strategy),
        'warm': warm,
        'draws': draws,
        'gathered': tfpa.distribute.gather(strategy, draws.all_states, axis=1),
    }


def go_on(strategy, seed):
    """The warm-up, and its second half again, from NumPy."""
    kernel, warm = _warm(strategy, seed)
    half = pickle.loads(pickle.dumps(to_numpy(_row(NUM_STEPS // 2 - 1, warm))))
    steps = NUM_STEPS // 2
    return warm, _run(strategy, kernel, steps, *half, first_step=steps, seed=seed)


def _row(index, chains):
    """(state, kernel results) of every replica after one of the steps."""
    return tf.nest.map_structure(lambda x: x[index], (chains.all_states, chains.trace))


def law_kernel(**options):
    """No first guess: it depends on how chains are dealt, and the steps of a test are few."""
    preconditioner = tfpa.preconditioners.diagonal(initial_scale=0.5)
    return tfpa.GradientAdaptiveMALA(
        targets.SKEWED.log_prob, LAW_STEPS, preconditioner=preconditioner, **options
    )


def law_statistics(results):
    """What was learned, as a vector: log-scales, mean squared gradients, entropy weight."""
    adaptation = results.adaptation
    (scale,) = tf.nest.flatten(adaptation.preconditioner)
    squares = tf.reduce_mean(adaptation.optimizer.square)
    return tf.concat([tf.math.log(scale), [squares, adaptation.entropy_weight]], axis=0)


def law(strategy, seed, num_chains=LAW_CHAINS):
    """Statistics of many short warm-ups, [LAW_RUNS, M]."""
    kernel = law_kernel(pool_fn=tfpa.distribute.sum_over_replicas)

    @tf.function(autograph=False)
    def run(state, run_seed):
        chains = tfpa.distribute.sample_chain(
            strategy, 1, state, kernel, num_burnin_steps=LAW_STEPS - 1, seed=run_seed
        )
        return law_statistics(chains.final_kernel_results.replicas[0])

    return np.stack(
        [
            run(targets.SKEWED.draw([seed, i], [num_chains]), tf.constant([seed, i]))
            for i in range(LAW_RUNS)
        ]
    )


def wrappers(strategy, seed):
    """Step-size adapters, transformed kernels and replica exchange around a kernel that pools."""
    kernel = tfpa.GradientAdaptiveMALA(
        targets.SKEWED.log_prob,
        NUM_ADAPTATION_STEPS,
        pool_fn=tfpa.distribute.sum_over_replicas,
    )

    def reduce_fn(log_accept_prob, axis, keepdims, experimental_named_axis=None):
        return tfp.math.reduce_logmeanexp(
            log_accept_prob,
            axis,
            keepdims,
            experimental_named_axis=experimental_named_axis,
            experimental_allow_all_gather=True,
        )

    def run(kernel):
        return tfpa.distribute.sample_chain(
            strategy,
            NUM_STEPS,
            targets.SKEWED.draw(seed, [NUM_CHAINS]),
            kernel,
            seed=(seed, 0),
        )

    return {
        'adapter': run(
            tfp.mcmc.DualAveragingStepSizeAdaptation(
                kernel,
                NUM_ADAPTATION_STEPS,
                reduce_fn=reduce_fn,
                experimental_reduce_chain_axis_names='chains',
            )
        ),
        'transformed': run(tfp.mcmc.TransformedTransitionKernel(kernel, tfp.bijectors.Scale(2.0))),
        'exchange': run(
            tfp.mcmc.ReplicaExchangeMC(
                targets.SKEWED.log_prob,
                [1.0, 0.5],
                lambda fn: kernel.copy(target_log_prob_fn=fn),
            )
        ),
    }


def errors(strategy, seed):
    """What misuse says, by case."""
    state = targets.SKEWED.draw(seed, [NUM_CHAINS])
    alone = tfpa.GradientAdaptiveMALA(targets.SKEWED.log_prob, NUM_ADAPTATION_STEPS)
    pooled = alone.copy(pool_fn=tfpa.distribute.sum_over_replicas)

    def run(kernel, state=state, **options):
        return tfpa.distribute.sample_chain(strategy, 2, state, kernel, seed=(0, 1), **options)

    def one_step():
        return pooled.one_step(state, pooled.bootstrap_results(state), seed=(0, 1))

    def chain():
        return tfp.mcmc.sample_chain(2, state, kernel=pooled, trace_fn=None, seed=(0, 1))

    def outside():
        with strategy.scope():
            tfpa.distribute.sum_over_replicas([state])

    function = tf.function
    cases = {
        'no pool_fn': lambda: run(alone),
        'jit_compile': lambda: run(pooled, jit_compile=True),
        'wrapper': lambda: run(tfp.experimental.mcmc.ThinningKernel(pooled, 1)),
        'few chains': lambda: run(pooled, state[:1]),
        'loop': lambda: strategy.run(function(chain, autograph=False)),
        'xla around': lambda: function(
            lambda: strategy.run(one_step), jit_compile=True, autograph=False
        )(),
        'xla inside': lambda: strategy.run(function(one_step, jit_compile=True, autograph=False)),
        'xla around the driver': function(
            lambda: run(pooled).final_state, jit_compile=True, autograph=False
        ),
        'outside': outside,
    }
    return {name: _message(case) for name, case in cases.items()}


UNSENT = (tf.int8, tf.uint8, tf.int16, tf.uint16, tf.uint32, tf.uint64)
"""Integers that TensorFlow does not gather; neither does it bools and bfloat16."""


def gather(strategy, seed):
    """(what wrong axes say, what is joined after that, the parts of this process)."""
    blocks = replicas.split(strategy, targets.SKEWED.draw(seed, [NUM_CHAINS])).replicas
    parts = replicas.LocalValues(tuple(_of_every_dtype(tf.stack([x, -x])) for x in blocks))

    def joined(axis):
        return tfpa.distribute.gather(strategy, parts, axis)

    messages = {axis: _message(lambda axis=axis: joined(axis)) for axis in (0, -1, 3)}
    return messages, joined(-2), parts


def _of_every_dtype(x):
    """And one of another rank, for which -2 is another axis."""
    extremes = [tf.where(x > 0, dtype.max, tf.constant(dtype.min, dtype)) for dtype in UNSENT]
    return [x, x[0], x > 0, tf.cast(x, tf.bfloat16), *extremes]


def _message(case):
    try:
        case()
    except (RuntimeError, ValueError) as error:
        return f'{type(error).__name__}: {error}'
    return 'no error'


def to_numpy(nest):
    return tf.nest.map_structure(lambda x: x.numpy() if tf.is_tensor(x) else x, nest)


def main(folder, seed, *programs):
    strategy = make_strategy()
    results = {name: to_numpy(globals()[name](strategy, int(seed))) for name in programs}
    task = json.loads(os.environ.get('TF_CONFIG', '{"task": {"index": 0}}'))['task']
    path = pathlib.Path(folder) / f'{task["index"]}.pickle'
    path.write_bytes(pickle.dumps(results))


if __name__ == '__main__':
    main(*sys.argv[1:])
