"""Misuse of a kernel's constructor or of its state: one sentence with the argument and the fix."""

import math

import pytest
import tensorflow as tf

import tfp_adaptive as tfpa


def log_prob(q):
    return -tf.reduce_sum(q**2, axis=-1) / 2


def hmc(**arguments):
    return tfpa.EntropyAdaptiveHMC(log_prob, **arguments)


def bootstrap(state, **arguments):
    return hmc(**arguments).bootstrap_results(state)


STATE = tf.zeros([4, 3])
P, OPT = tfpa.preconditioners, tfpa.optimizers

# what is wrong, its exception, and what the message must say
MISUSES = {
    'fraction of a step': (lambda: hmc(num_adaptation_steps=0.5), ValueError, 'an int'),
    'steps as text': (lambda: hmc(num_adaptation_steps='a'), ValueError, '`num_adaptation_steps`'),
    'negative step size': (lambda: hmc(step_size=-0.1), ValueError, '`step_size`.*-0.1'),
    'infinite step size': (lambda: hmc(step_size=math.inf), ValueError, '`step_size`.*inf'),
    'step size as text': (lambda: hmc(step_size='big'), ValueError, "`step_size`.*'big'"),
    'step sizes of other chains': (
        lambda: bootstrap(STATE, step_size=[1.0, 2.0]),
        ValueError,
        r'`step_size`.*4 chains.*\(2,\)',
    ),
    'preconditioner by name': (
        lambda: hmc(preconditioner='diagonal'),
        TypeError,
        "`preconditioner`.*preconditioners.diagonal.*'diagonal'",
    ),
    'preconditioner not called': (
        lambda: hmc(preconditioner=P.diagonal),
        TypeError,
        '`preconditioner`.*function diagonal',
    ),
    'objective by name': (lambda: hmc(objective='speed'), TypeError, "`objective`.*'speed'"),
    'entropy not called': (
        lambda: hmc(entropy=tfpa.entropy.log_det),
        TypeError,
        '`entropy`.*russian_roulette',
    ),
    'an entropy without effect': (
        lambda: hmc(objective=tfpa.objectives.l2hmc(), entropy=tfpa.entropy.russian_roulette()),
        ValueError,
        '`entropy` has no effect',
    ),
    'a Keras optimizer': (lambda: hmc(optimizer='adam'), TypeError, '`optimizer`.*optimizers.adam'),
    'a number for a controller': (
        lambda: hmc(entropy_weight=0.5),
        TypeError,
        '`entropy_weight`.*acceptance_controller',
    ),
    'the other controller': (
        lambda: hmc(entropy_weight=OPT.penalty_controller()),
        TypeError,
        '`entropy_weight`.*acceptance_controller',
    ),
    'target acceptance beside a controller': (
        lambda: hmc(target_accept_prob=1.2, entropy_weight=OPT.fixed_weight(1.0)),
        ValueError,
        '`target_accept_prob`.*1.2',
    ),
    'random walk with an optimizer of another library': (
        lambda: tfpa.GradientAdaptiveRandomWalk(log_prob, optimizer=object()),
        TypeError,
        '`optimizer`',
    ),
    'MALA with a number for a controller': (
        lambda: tfpa.GradientAdaptiveMALA(log_prob, entropy_weight=1.0),
        TypeError,
        '`entropy_weight`',
    ),
    'frozen without results': (
        lambda: hmc().frozen(None),
        TypeError,
        '`kernel_results`.*NoneType',
    ),
    'nested state': (lambda: bootstrap([{'a': STATE}]), TypeError, '`current_state`.*dict'),
    'half a band': (lambda: P.banded(bandwidth=1.5), ValueError, '`bandwidth`.*1.5'),
    'acceptance as text': (
        lambda: hmc(target_accept_prob='0.8'),
        TypeError,
        "`target_accept_prob` must be a number; got '0.8'",
    ),
    'refreshment as text': (
        lambda: hmc(momentum_refreshment='0.8'),
        TypeError,
        '`momentum_refreshment` must be a number',
    ),
    'rate as text': (lambda: OPT.adam('fast'), TypeError, '`learning_rate` must be a number'),
    'rate of nothing': (lambda: OPT.rmsprop(None), TypeError, '`learning_rate`.*None'),
    'half a border': (lambda: P.banded(1, border_size=0.5), ValueError, '`border_size`.*0.5'),
}


@pytest.mark.parametrize(('misuse', 'error', 'message'), MISUSES.values(), ids=list(MISUSES))
def test_the_message_names_the_argument_and_the_fix(misuse, error, message):
    with pytest.raises(error, match=message):
        misuse()


@pytest.mark.parametrize('lengths', [range(1, 4), [1, 2, 3], (1, 2, 3)])
def test_any_sequence_of_lengths(lengths):
    kernel = hmc(num_leapfrog_steps=lengths)
    assert kernel.bootstrap_results(STATE).step == 0


def test_names_of_operations():
    assert hmc().name == 'entropy_adaptive_hmc'
    assert tfpa.GradientAdaptiveMALA(log_prob).name == 'gradient_adaptive_mala'
    assert hmc(name='mine').name == 'mine'
