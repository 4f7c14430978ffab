"""`sample`: warm-up and sampling as two compiled programs, with progress and diagnostics."""

from tfp_adaptive.sampling.convergence import SamplingWarning
from tfp_adaptive.sampling.diagnostics import Diagnostics, diagnose
from tfp_adaptive.sampling.driver import sample
from tfp_adaptive.sampling.learned import LearnedProposal
from tfp_adaptive.sampling.run import SampleRun, Timings
from tfp_adaptive.sampling.statistics import DrawStatistics
from tfp_adaptive.sampling.summary import Summary
from tfp_adaptive.sampling.until import Until

__all__ = [
    'Diagnostics',
    'DrawStatistics',
    'LearnedProposal',
    'SampleRun',
    'SamplingWarning',
    'Summary',
    'Timings',
    'Until',
    'diagnose',
    'sample',
]
