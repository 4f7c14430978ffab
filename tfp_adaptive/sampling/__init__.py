"""`sample`: warm-up and sampling as two compiled programs, with progress and diagnostics."""

from tfp_adaptive.sampling.diagnostics import Diagnostics, diagnose
from tfp_adaptive.sampling.driver import sample
from tfp_adaptive.sampling.run import SampleRun, Timings

__all__ = ['Diagnostics', 'SampleRun', 'Timings', 'diagnose', 'sample']
