"""What a job hands back, and the table that all jobs share."""

import dataclasses
from typing import Any

from experiments.metrics import Performance
from experiments.tables import Table, rhat


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Tables for people, the same figures as dicts, and names of figures written."""

    tables: list[Table]
    runs: list[dict[str, Any]]
    figures: list[str] = dataclasses.field(default_factory=list)


def as_run(performance: Performance, **more: Any) -> dict[str, Any]:
    """A performance and its ratios as a dict."""
    return {
        **more,
        **dataclasses.asdict(performance),
        'ess_per_gradient': performance.ess_per_gradient,
        'ess_per_lockstep_gradient': performance.ess_per_lockstep_gradient,
        'ess_per_second': performance.ess_per_second,
    }


def comparison_table(title: str, performances: list[Performance]) -> Table:
    """One row a sampler; with several, ratios to the first row."""
    columns = [
        'sampler',
        'min ESS / gradient',
        'min ESS / lock-step gradient',
        'min ESS / s',
        'min ESS',
        'median ESS',
        'max R-hat',
        'acceptance',
        'divergences',
        'chains x draws',
        'gradients / draw',
        'warm-up steps',
        'warm-up gradients + HVPs',
        'compile s',
        'warm-up s',
        'sampling s',
        'mean error / s.e.',
    ]
    rows = [_row(performance) for performance in performances]
    if len(performances) > 1:
        columns += ['x / gradient', 'x / s']
        first = performances[0]
        for row, other in zip(rows, performances, strict=True):
            row.append(_times(other.ess_per_gradient, first.ess_per_gradient))
            row.append(_times(other.ess_per_second, first.ess_per_second))
    used = [i for i in range(len(columns)) if any(row[i] is not None for row in rows)]
    return Table(
        title=title,
        columns=[columns[i] for i in used],
        rows=[[row[i] for i in used] for row in rows],
        note=(
            'ESS: smallest over all coordinates of q and of q^2, all chains together. Gradients '
            'are those of sampling, of every chain; in lock-step every chain waits for the '
            'slowest. Seconds of sampling, compilation apart.'
            + (' x: relative to the first row.' if len(performances) > 1 else '')
        ),
    )


def _row(p: Performance) -> list[Any]:
    warmup = None
    if p.num_warmup_gradients is not None:
        products = p.num_warmup_hessian_vector_products or 0
        warmup = f'{p.num_warmup_gradients:,} + {products:,}'
    has_own_lockstep = p.num_lockstep_gradients != p.num_gradients
    return [
        p.sampler,
        p.ess_per_gradient,
        p.ess_per_lockstep_gradient if has_own_lockstep else None,
        p.ess_per_second,
        p.min_ess,
        p.median_ess,
        rhat(p.max_rhat),
        p.accept_prob,
        p.num_divergences,
        f'{p.num_chains} x {p.num_results}',
        None if p.num_gradients is None else p.num_gradients / p.num_results,
        p.num_warmup_steps,
        warmup,
        p.compile_seconds,
        p.warmup_seconds,
        p.sampling_seconds,
        p.largest_error,
    ]


def _times(value, reference):
    return None if value is None or not reference else value / reference
