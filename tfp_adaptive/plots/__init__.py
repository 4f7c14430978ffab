"""Pictures of a run, and of adaptation itself: how chains move, what is learned, what goes wrong.

Every function returns a matplotlib figure, which a notebook shows and `figure.savefig` writes; none
opens a window. `animate` makes a GIF or a film of any of them. Needs matplotlib:
pip install "tfp_adaptive[plots]".
"""

from tfp_adaptive.plots.animations import animate
from tfp_adaptive.plots.chains import traces
from tfp_adaptive.plots.covariances import covariance
from tfp_adaptive.plots.dynamics import energy_errors, integrators
from tfp_adaptive.plots.modes import modes
from tfp_adaptive.plots.paths import trajectories
from tfp_adaptive.plots.tuning import ellipses, metric, step_size
from tfp_adaptive.plots.warmup import adaptation

__all__ = [
    'adaptation',
    'animate',
    'covariance',
    'ellipses',
    'energy_errors',
    'integrators',
    'metric',
    'modes',
    'step_size',
    'traces',
    'trajectories',
]
