"""Pictures of a run: its adaptation, its chains, what it learned, how it moves.

Every function takes a `SampleRun` and returns a matplotlib figure, which a notebook shows and
`figure.savefig` writes; none opens a window. Needs matplotlib: pip install "tfp_adaptive[plots]".
"""

from tfp_adaptive.plots.chains import traces
from tfp_adaptive.plots.covariances import covariance
from tfp_adaptive.plots.paths import trajectories
from tfp_adaptive.plots.warmup import adaptation

__all__ = ['adaptation', 'covariance', 'traces', 'trajectories']
