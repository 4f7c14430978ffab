"""Long-run means, standard deviations and quantiles of the posteriors, kept as a file."""

import json
import pathlib
from typing import Any

from experiments.targets.base import Moments, Target

FILE = pathlib.Path(__file__).with_name('references.json')


def reference(label: str, target: Target) -> Moments | None:
    """Moments of the coordinates of q: exact ones, or else those of the file, or else `None`.

    Args:
      label: of the posterior.
      target: that posterior.
    """
    if target.reference is not None:
        return target.reference
    kept = json.loads(FILE.read_text()).get(label)
    if kept is None:
        return None
    return moments(kept)


def moments(kept: dict[str, Any]) -> Moments:
    """What the file has of a posterior, without the quantiles."""
    mean, sd, error = (tuple(kept[key]) for key in ('mean', 'sd', 'standard_error'))
    names = tuple(f'q{i + 1}' for i in range(len(mean)))
    return Moments(names, mean, sd, kept['source'], error)
