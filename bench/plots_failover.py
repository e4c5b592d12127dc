"""Figures of failover: the rate of every copy over time, and that of their merge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock_bench.contract import Benchmark
from penstock_bench.our_failover import OUTPUT
from penstock_bench.plots_lines import PLAIN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COPIES: Final = ("#e69f00", "#56b4e9", "#cc79a7", "#999999")
MERGED: Final = "#000000"


def steadiness(figure: Figure, bench: Benchmark, found: Mapping[str, Any]) -> None:
    """Fig. 8 and 9 of lmerge.md: copies above, their merge below, a column for each case."""
    cases = found["failover"]
    figure.set_size_inches(7 * len(cases), 6)
    panels = figure.subplots(2, len(cases), squeeze=False, sharex="col", sharey=True)
    for column, (case, own) in enumerate(cases.items()):
        above, below = panels[:, column]
        for at, (name, rates) in enumerate(own["rates"].items()):
            seconds = [number * own["width_s"] for number in range(len(rates))]
            merged = name == OUTPUT
            axes, colour = (below, MERGED) if merged else (above, COPIES[at % len(COPIES)])
            label = f"{name}: variation {own['figures'][name]['variation']:.2f}"
            axes.step(seconds, rates, where="post", color=colour, linewidth=1.2, label=label)
        for axes, title in ((above, f"{case}: the copies"), (below, f"{case}: their merge")):
            axes.set(title=title, ylabel="elements a second")
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(PLAIN)
            axes.legend(loc="upper left")
        below.set_xlabel("seconds")
