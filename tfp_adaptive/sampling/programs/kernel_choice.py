"""From what the user says of a kernel to a kernel."""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_adaptive.kernels import EntropyAdaptiveHMC
from tfp_adaptive.sampling import user_code
from tfp_adaptive.sampling.targets.fingerprint import Fingerprint
from tfp_adaptive.sampling.targets.model import Model

_ESTIMATION = 'num_estimation_steps'
"""Of `tfp.experimental.mcmc.DiagonalMassMatrixAdaptation`, which estimates for ever by default."""
_LENGTHS = ('num_adaptation_steps', _ESTIMATION)
_FACTORY = 'pass a lambda that makes the kernel from the log-density it is given'


def default_kernel() -> functools.partial:
    """What `sample` takes where nothing is said of the kernel.

    Four tenths of the velocity's variance are kept, so that short moves join into long ones. With
    one leapfrog step there is no Hessian-vector product, and of all settings tried it has the most
    effective samples per gradient on regressions and Gaussian processes. In many dimensions it
    starts from the Hessian (`tuning.first_metric`), and may take more steps a move once it has
    learned (`programs.moves`). `python -m experiments run defaults` compares it with others.

    Returns:
      A partial call of `EntropyAdaptiveHMC`.
    """
    return functools.partial(EntropyAdaptiveHMC, num_leapfrog_steps=1, momentum_refreshment=0.6)


def make_kernel(kernel: Any, log_prob_fn: Callable, num_warmup_steps: int) -> Any:
    """The kernel that warms up.

    Args:
      kernel: a kernel, a callable that makes one from a log-density, or `None` for
        `default_kernel`. A class or `functools.partial` that takes `num_adaptation_steps` and is
        given none adapts for the whole warm-up.
      log_prob_fn: the log-density for a callable.
      num_warmup_steps: most steps it may adapt for.

    Raises:
      TypeError: if it makes no kernel.
      ValueError: if the kernel adapts for longer than the warm-up.
    """
    if kernel is None:
        kernel = default_kernel()
    if not isinstance(kernel, tfp.mcmc.TransitionKernel):
        kernel = _call(kernel, log_prob_fn, num_warmup_steps)
    for name in _LENGTHS:
        num_steps = _num_adaptation_steps(kernel, name)
        if num_steps > num_warmup_steps:
            length = 'without end' if num_steps == math.inf else f'for {num_steps} steps'
            raise ValueError(
                f'`kernel` adapts {length} but `num_warmup_steps` is {num_warmup_steps}; give it '
                f'at most {name}={num_warmup_steps}.'
            )
    return kernel


def check_density(kernel: Any, model: Model, fingerprint: Fingerprint) -> None:
    """Refuses a kernel that was made for another density than the target's.

    Args:
      kernel: of `make_kernel`.
      model: the target.
      fingerprint: its values at a few points.

    Raises:
      ValueError: if the kernel's own density differs at one of them.
    """
    own = _own_density(kernel)
    if own is None or own is model.log_prob_fn:
        return
    with user_code.explained('kernel', fingerprint.points, remedy=_FACTORY):
        mismatch = fingerprint.mismatch(dataclasses.replace(model, log_prob_fn=own))
    if mismatch is not None:
        raise ValueError(
            f'`kernel` samples another density than `target`, {mismatch[1]:.6g} where that is '
            f'{mismatch[0]:.6g} on unconstrained parts: {_FACTORY}.'
        )


def _own_density(kernel):
    """The log-density of a kernel on the state itself; `None` where it is not known."""
    parameters = getattr(kernel, 'parameters', {})
    if 'target_log_prob_fn' in parameters or 'bijector' in parameters:
        return parameters.get('target_log_prob_fn')
    inner = parameters.get('inner_kernel')
    return None if inner is None else _own_density(inner)


def _call(factory, log_prob_fn, num_warmup_steps):
    if not callable(factory):
        raise TypeError(
            '`kernel` must be a tfp.mcmc.TransitionKernel or a callable that makes one from the '
            f'log-density; got {type(factory).__name__}.'
        )
    settings = {}
    try:
        if _leaves_open(factory, 'num_adaptation_steps'):
            settings['num_adaptation_steps'] = num_warmup_steps
        arguments = inspect.signature(factory).bind(log_prob_fn, **settings)
    except (TypeError, ValueError) as error:
        name = getattr(factory, '__name__', type(factory).__name__)
        name = 'SomeKernel' if name in ('<lambda>', 'partial') else name
        raise TypeError(
            f'`kernel` must be callable with the log-density alone ({error}): pass a lambda, such '
            f'as lambda log_prob: {name}(log_prob, ...).'
        ) from error
    with user_code.explained('kernel'):
        kernel = factory(*arguments.args, **arguments.kwargs)
    if not isinstance(kernel, tfp.mcmc.TransitionKernel):
        raise TypeError(
            'the callable `kernel` must return a tfp.mcmc.TransitionKernel, such as '
            f'tfp.mcmc.HamiltonianMonteCarlo(log_prob, 0.1, 3); got {type(kernel).__name__}.'
        )
    return kernel


def _leaves_open(factory, name):
    """Whether a class, or a partial call of one, takes an argument that nobody has set."""
    if isinstance(factory, functools.partial):
        return name not in factory.keywords and _leaves_open(factory.func, name)
    return isinstance(factory, type) and name in inspect.signature(factory).parameters


def _num_adaptation_steps(kernel, name) -> float:
    """The longest adaptation of a kernel and of those it wraps; 0 where none is known."""
    parameters = getattr(kernel, 'parameters', {})
    given = parameters.get(name, 0)
    if given is None and name == _ESTIMATION:
        return math.inf
    own = None if given is None else tf.get_static_value(given)
    inner = parameters.get('inner_kernel')
    return max(
        int(own) if isinstance(own, (int, np.integer, np.ndarray)) else 0,
        _num_adaptation_steps(inner, name) if inner is not None else 0,
    )
