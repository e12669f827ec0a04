"""A metric over time as a plot: medians over runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reprokit.results.history import HistoryLine
from reprokit.results.plots import MOST_PLOTS, MOST_SERIES, plotting, save, short, style


def draw_history(lines: Sequence[HistoryLine], metric: str, file: Path) -> int:
    """Draw medians over runs into `file`, by its suffix; returns how many lines are too many for it.

    Each benchmark and unit has axes of its own. Raises UsageError, EngineError.
    """
    by_title: dict[str, list[HistoryLine]] = {}
    for line in lines:
        by_title.setdefault(line.title, []).append(line)
    panels = {title: alike[:MOST_SERIES] for title, alike in list(by_title.items())[:MOST_PLOTS]}
    with plotting():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 4.5 * len(panels)), layout="constrained")
        for axes, (title, alike) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels.items(), strict=True):
            for number, line in enumerate(alike):
                values = [median for _, _, median in line.points]
                label = short(f"{line.case} {line.hardware}")
                axes.plot(range(1, len(values) + 1), values, label=label, **style(number))
            axes.set_title(short(title))
            axes.set_xlabel("run")
            axes.set_ylabel(short(metric))
            axes.grid(True, axis="y")
            axes.legend(frameon=False, fontsize=8)
        save(figure, file)
    return len(lines) - sum(map(len, panels.values()))
