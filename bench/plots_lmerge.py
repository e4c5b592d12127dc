"""Figures of lmerge: what every algorithm reaches over the parameter of each case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock_bench.contract import Benchmark
from penstock_bench.plots_lines import MB, PLAIN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES: Final = {
    "R0": ("#000000", "v"),
    "R1": ("#999999", "^"),
    "R2": ("#cc79a7", "D"),
    "R3": ("#0072b2", "o"),
    "R3-": ("#e69f00", "s"),
    "R4": ("#009e73", "x"),
    "C+R1": ("#d55e00", "*"),
}
"""By algorithm: its colour, its marker."""
TITLES: Final = {
    "ordered": "in order (Fig. 2, 3)",
    "small": "in order, 16 bytes",
    "disorder": "20% late",
    "lag": "lag (Fig. 5)",
    "stable": "stable points (Fig. 6)",
    "properties": "36% adjusts (Fig. 7)",
    "output": "disorder (Fig. 4)",
}

PLANS: Final = {"udf0": "#999999", "udf1": "#e69f00", "lmerge": "#d55e00", "feedback": "#0072b2"}
"""The colours of plans alone, and of both of them merged."""


def merging(figure: Figure, bench: Benchmark, found: Mapping[str, Any]) -> None:
    """Fig. 2 to 7 of lmerge.md: elements a second above, what is held below; of Fig. 4 the adjusts in and out."""
    cases = {case: own for case, own in found["lmerge"].items() if case in TITLES}
    figure.set_size_inches(3.6 * max(1, len(cases)), 7)
    panels = figure.subplots(2, max(1, len(cases)), squeeze=False)
    for column, (case, algorithms) in enumerate(cases.items()):
        above, below = panels[:, column]
        for name, points in algorithms.items():
            colour, marker = LINES[name]
            values = list(points)
            above.plot(values, [p["rate"] / 1e6 for p in points.values()], color=colour, marker=marker, label=name)
            if case == "output":
                for what, style in (("adjusts_in", "--"), ("adjusts", "-")):
                    label = "of one copy" if what == "adjusts_in" else "that leave"
                    below.plot(values, [p[what] for p in points.values()], color=colour, linestyle=style, label=label)
            else:
                held = [p["state_bytes"] / MB for p in points.values()]
                below.plot(values, held, color=colour, marker=marker, label=name)
        above.set(title=f"{TITLES[case]}\nM elements/s", ylim=(0, None))
        below.set(title="adjusts" if case == "output" else "MB held", ylim=(0, None))
        for axes in (above, below):
            axes.yaxis.set_major_formatter(PLAIN)
            axes.legend()


def fast_forward(figure: Figure, bench: Benchmark, found: Mapping[str, Any]) -> None:
    """Fig. 10 of lmerge.md: the results that there are after so many seconds, of each plan alone and of both merged."""
    figure.set_size_inches(8, 4)
    axes = figure.subplots()
    for case, own in found["feedback"].items():
        axes.plot(*zip(*own["series"], strict=True), color=PLANS[case], label=f"{case}: {own['seconds']:,.0f} s")
    axes.set(title="results, by the time since the first batch", xlabel="seconds", ylim=(0, None))
    axes.yaxis.set_major_formatter(PLAIN)
    axes.legend()
