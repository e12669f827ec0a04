"""Strategies side by side over several seeds: a table, and a plot of the best so far by number of measurements.

The value by which a search chose a plan is the smallest of many noisy ones, so it is too small. What counts here is a
plan's *confirmed* time: every plan that any search chose is measured once more.
"""

import statistics
from typing import Callable, Dict, List, NamedTuple, Optional

from .plans import Plan
from .search.loop import Result

WITHIN = 1.02


class Row(NamedTuple):
    """Medians over the seeds.

    `needed`: measurements from which on a search's best plan is within 2 % of the best of all searches; None where half
    of the searches never get there. `reached`: how many of the searches do. `own_share`: None where all measurements
    were stored before.
    """

    strategy: str
    seeds: int
    measurements: int
    best: float
    needed: Optional[int]
    reached: int
    own_share: Optional[float]


def rows(results: Dict[str, List[Result]], confirmed: Dict[Plan, float]) -> List[Row]:
    """`confirmed`: the time of every plan that a search chose."""
    best = min(confirmed.values())
    found_rows = []
    for name, found in results.items():
        counts = [needed(curve(result, confirmed), best) for result in found]
        found_rows.append(
            Row(
                name,
                len(found),
                max(len(result.chosen) for result in found),
                statistics.median(confirmed[result.best] for result in found),
                _median_needed(counts),
                sum(count is not None for count in counts),
                _median([result.own_share for result in found if result.own_share is not None]),
            )
        )
    return found_rows


def curve(result: Result, confirmed: Dict[Plan, float]) -> List[float]:
    """The confirmed time of the best plan so far after each measurement; infinite while there is none."""
    return [float("inf") if plan is None else confirmed[plan] for plan in result.chosen]


def needed(curve: List[float], best: float) -> Optional[int]:
    """The measurement from which on the search stays within 2 % of `best`."""
    outside = [count for count, value in enumerate(curve, 1) if value > best * WITHIN]
    last = outside[-1] if outside else 0
    return last + 1 if last < len(curve) else None


def _median_needed(counts: List[Optional[int]]) -> Optional[int]:
    """The upper median: of an even number, the larger of the two in the middle."""
    ordered = sorted(float("inf") if count is None else count for count in counts)
    middle = ordered[len(ordered) // 2]
    return None if middle == float("inf") else int(middle)


def _median(values: List[float]) -> Optional[float]:
    return statistics.median(values) if values else None


def markdown(found: List[Row]) -> str:
    lines = [
        "| strategy | seeds | measurements | best time / compiled layer | seeds within 2 % | within 2 % after "
        "| time outside measuring |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        count = f"> {row.measurements}" if row.needed is None else str(row.needed)
        share = "-" if row.own_share is None else f"{100 * row.own_share:.0f} %"
        figures = f"{row.seeds} | {row.measurements} | {row.best:.3f} | {row.reached} | {count} | {share}"
        lines.append(f"| {row.strategy} | {figures} |")
    return "\n".join(lines)


def plot(
    results: Dict[str, List[Result]],
    confirmed: Dict[Plan, float],
    path: str,
    title: str,
    report: Callable[[str], None],
) -> bool:
    """Median curves, with the range of the seeds; whether they were drawn. Without matplotlib, says so."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        report("no plot: it needs matplotlib: python -m pip install matplotlib")
        return False
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name, found in results.items():
        columns = [sorted(values) for values in zip(*(curve(result, confirmed) for result in found))]
        shown = [i for i, column in enumerate(columns) if column[-1] < float("inf")]
        places = [i + 1 for i in shown]
        line = axes.plot(places, [columns[i][len(columns[i]) // 2] for i in shown], label=name, drawstyle="steps-post")
        low, high = [columns[i][0] for i in shown], [columns[i][-1] for i in shown]
        axes.fill_between(places, low, high, alpha=0.15, step="post", color=line[0].get_color())
    axes.set(xlabel="measurements", ylabel="best time / compiled layer", title=title)
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")
    pyplot.close(figure)
    return True
