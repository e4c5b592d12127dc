"""The figure of `shapes`: how many times as fast as each peer we are, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock_bench.contract import Benchmark
from penstock_bench.plots_bars import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS: Final = ("o", "s", "^", "D")


def ratios(figure: Figure, bench: Benchmark, found: Mapping[str, Any]) -> None:
    """A line for every cell and mode; a mark for every peer, on a logarithmic scale; its median as a line."""
    cells, ranges = found["shapes"]["cells"], found["shapes"]["range"]
    figure.set_size_inches(8, 1.6 + 0.22 * len(cells))
    axes = figure.subplots()
    cases = list(cells)
    for at, (peer, own) in enumerate(ranges.items()):
        shown = [case for case in cases if "ratio" in cells[case]["peers"].get(peer, {})]
        values = [cells[case]["peers"][peer]["ratio"] for case in shown]
        colour = COLOURS[at % len(COLOURS)]
        label = f"{peer}: {own['worst']['ratio']:.2f} to {own['best']['ratio']:.2f}, median {own['median']:.2f}"
        places = [cases.index(case) for case in shown]
        axes.plot(values, places, linestyle="none", marker=MARKERS[at % len(MARKERS)], color=colour, label=label)
        axes.axvline(own["median"], color=colour, linestyle=":", linewidth=1)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(cases)), cases)
    axes.set_ylim(len(cases) - 0.5, -0.5)
    axes.set(title="rows a second, ours over theirs")
    axes.xaxis.set_major_formatter("{x:g}")
    figure.legend(loc="outside lower center")
