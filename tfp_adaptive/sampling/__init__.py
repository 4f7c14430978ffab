"""`sample`: warm-up and sampling as two compiled programs, with progress and diagnostics."""

from tfp_adaptive.sampling.diagnostics import Diagnostics, diagnose
from tfp_adaptive.sampling.driver import SampleRun, Timings, sample

__all__ = ['Diagnostics', 'SampleRun', 'Timings', 'diagnose', 'sample']
