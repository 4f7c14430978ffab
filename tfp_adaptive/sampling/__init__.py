"""`sample`: warm-up and sampling as two compiled programs, with progress and diagnostics."""

from tfp_adaptive.sampling.driver import sample
from tfp_adaptive.sampling.figures import diagnose
from tfp_adaptive.sampling.findings.convergence import SamplingWarning
from tfp_adaptive.sampling.findings.diagnostics import Diagnostics
from tfp_adaptive.sampling.findings.learned import LearnedProposal
from tfp_adaptive.sampling.findings.sample_run import SampleRun, Timings
from tfp_adaptive.sampling.findings.summary import Summary
from tfp_adaptive.sampling.programs.statistics import DrawStatistics
from tfp_adaptive.sampling.running.until import Until

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
