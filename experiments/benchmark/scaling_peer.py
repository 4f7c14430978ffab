"""ChEES-HMC on one case of the scaling section: a JSON object in, its figures out."""

import json
import os
import sys
from typing import Any

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from experiments import effective_size
from experiments.benchmark import peers_blackjax, scaling_targets
from experiments.benchmark.sampling import Problem


def measure(
    num_dims: int,
    num_chains: int,
    settings: dict[str, Any],
    num_rows: int | None = None,
) -> dict[str, Any]:
    """Efficiency of draws, on the density of TensorFlow as a program of JAX.

    Args:
      num_dims: d.
      num_chains: C.
      settings: of the section.
      num_rows: of the regression; `None`: the path.
    """
    num_warmup_steps, num_results = scaling_targets.lengths(num_rows, settings)
    problem = Problem(
        target=scaling_targets.make(num_dims, num_rows, settings),
        arguments=None,
        preconditioner='',
        num_chains=num_chains,
        num_warmup_steps=num_warmup_steps,
        num_results=num_results,
        num_short_results=num_results,
        max_seconds=float('inf'),
    )
    watched = scaling_targets.watched(num_dims, settings)
    sampler = peers_blackjax.chees(
        None, 'diagonal', problem, position_of=lambda states: states.position[..., watched]
    )
    draws = sampler(settings['seed'])
    min_ess, max_rhat = effective_size.smallest(draws.states)
    return {
        'min_ess': min_ess,
        'ess_per_gradient': min_ess / (num_chains * draws.num_gradients),
        'ess_per_second': min_ess / draws.sampling_seconds,
        'max_rhat': max_rhat,
    }


if __name__ == '__main__':
    print(json.dumps(measure(**json.load(sys.stdin))))
