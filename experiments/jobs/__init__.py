"""What an experiment does: one function a module, from a configuration to an `Outcome`."""

from experiments.jobs.accelerator import accelerator_steps
from experiments.jobs.adaptation_pictures import adaptation_pictures
from experiments.jobs.banana import banana
from experiments.jobs.comparison import comparison
from experiments.jobs.core_step import core_step
from experiments.jobs.cox_process import cox_process
from experiments.jobs.cyclical import cyclical
from experiments.jobs.defaults import defaults
from experiments.jobs.gradient_adaptive import gradient_adaptive
from experiments.jobs.gradient_free_proposals import gradient_free_proposals
from experiments.jobs.limits import limits
from experiments.jobs.objectives import objectives
from experiments.jobs.outcome import Outcome
from experiments.jobs.pmmh_higgs import pmmh_higgs
from experiments.jobs.pmmh_pictures import pmmh_pictures
from experiments.jobs.pmmh_random_effects import pmmh_random_effects
from experiments.jobs.pmmh_volatility import pmmh_volatility
from experiments.jobs.reparameterization import reparameterization
from experiments.jobs.robustness import robustness
from experiments.jobs.robustness_references import robustness_references
from experiments.jobs.stochastic_volatility import stochastic_volatility
from experiments.jobs.windowed_nuts import windowed_nuts

__all__ = ['JOBS', 'Outcome']

JOBS = {
    'accelerator': accelerator_steps,
    'adaptation_pictures': adaptation_pictures,
    'banana': banana,
    'comparison': comparison,
    'core_step': core_step,
    'cox_process': cox_process,
    'cyclical': cyclical,
    'defaults': defaults,
    'gradient_adaptive': gradient_adaptive,
    'gradient_free_proposals': gradient_free_proposals,
    'limits': limits,
    'objectives': objectives,
    'pmmh_higgs': pmmh_higgs,
    'pmmh_pictures': pmmh_pictures,
    'pmmh_random_effects': pmmh_random_effects,
    'pmmh_volatility': pmmh_volatility,
    'reparameterization': reparameterization,
    'robustness': robustness,
    'robustness_references': robustness_references,
    'stochastic_volatility': stochastic_volatility,
    'windowed_nuts': windowed_nuts,
}
"""name -> function (config, folder for figures, progress) -> `Outcome`."""
