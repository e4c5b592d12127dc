"""Figures of what follows from a parameter: a line for everyone who answers, over the parameter's values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock_bench.contract import Benchmark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = Mapping[str, Mapping[str, float]]
"""What was measured, by the value of the parameter."""

MB: Final = 2**20
PLAIN: Final = "{x:,.10g}"
"""How the figures beside an axis are written: never as powers."""
ARCHITECTURES: Final = {"in-order": ("in order", "#d55e00", "s"), "out-of-order": ("out of order", "#0072b2", "o")}
"""By its name in the JSON: for people, its colour, its marker."""
HEARTBEATS: Final = ("heartbeats", "#e69f00")
CONSTANT: Final = {
    "none": ("none", "#d55e00", "-"),
    "on-demand": ("on demand", "#0072b2", "-"),
    "latent": ("latent", "#000000", ":"),
}
"""Cases of `ets` that no rate of heartbeats changes: for people, their colour, the style of their line."""
PEERS: Final = {
    "penstock": ("#0072b2", "-"),
    "as-written": ("#d55e00", "--"),
    "by-hand": ("#000000", ":"),
}
"""Of `optimizer`: their colour, the style of their line."""
FEW_A_SECOND, MANY_A_SECOND = 0.1, 10.0
"""Where the axis begins and ends at least."""


def enabling(figure: Figure, bench: Benchmark, found: Mapping[str, Any]) -> None:
    """Fig. 7 and 8 of ets.md: latency and the peak of queues over the rate of heartbeats."""
    figures = found["ets"]
    figure.set_size_inches(10, 4.2)
    panels = figure.subplots(1, 2)
    for axes, what, title in zip(
        panels, ("latency_ms", "peak_queue"), ("mean latency in ms", "peak queue in tuples"), strict=True
    ):
        values = {case: own[what] for case, own in figures.items() if math.isfinite(own[what])}
        beats = sorted((1 / seconds, values[case]) for case in values if (seconds := in_seconds(case)))
        if beats:
            label, colour = HEARTBEATS
            axes.plot(*zip(*beats, strict=True), color=colour, marker="^", label=label, clip_on=False)
        for case, (label, colour, style) in CONSTANT.items():
            if case in values:
                axes.axhline(values[case], color=colour, linestyle=style, label=f"{label} ({values[case]:,.0f})")
        _log_scale(axes, "x", [FEW_A_SECOND, MANY_A_SECOND, *(rate for rate, _ in beats)])
        _log_scale(axes, "y", list(values.values()))
        axes.set(title=title, xlabel="heartbeats a second")
        axes.legend()


def arranged(figure: Figure, bench: Benchmark, found: Mapping[str, Any]) -> None:
    """What a row costs and how many pass in a second, batch by batch, while the data and the order of boxes change."""
    figure.set_size_inches(10, 4.2)
    panels = figure.subplots(1, 2)
    for name, own in found["optimizer"].items():
        batches = own["batches"]
        colour, style = PEERS.get(name, ("#000000", "-"))
        for axes, values in zip(
            panels,
            ([b["rows"] / b["seconds"] / 1e6 for b in batches], [b["cpu"] * 1e6 / b["rows"] for b in batches]),
            strict=True,
        ):
            axes.plot(range(len(values)), values, color=colour, linestyle=style, label=name)
    for axes, title in zip(panels, ("M rows/s", "us/row in the boxes"), strict=True):
        middle = max(len(own["batches"]) for own in found["optimizer"].values()) / 2
        axes.axvline(middle - 0.5, color="#999999", linestyle=":", label="the data changes")
        axes.set(title=title, xlabel="batch", ylim=(0, None))
        axes.legend()


def held(figure: Figure, bench: Benchmark, found: Mapping[str, Any]) -> None:
    """Fig. 1, 12 and 13 of oop.md, Fig. 3 and 6 of heartbeat.md: what is held, in order and out of order."""
    cases = found["held"]
    figure.set_size_inches(5 * len(cases), 7)
    panels = figure.subplots(2, len(cases), squeeze=False)
    for column, (case, both) in enumerate(cases.items()):
        for axes, what, unit, name in zip(
            panels[:, column], ("rows", "bytes"), (1, MB), ("tuples held", "MB held"), strict=True
        ):
            _architectures(axes, both, f"all_{what}", unit, note=", with the batch")
            _architectures(axes, both, what, unit, note=", between batches", linestyle="--", fillstyle="none")
            _finish(axes, bench, f"{case}: {name}" if case else name)
    panels[0, 0].legend()


def band_join(figure: Figure, bench: Benchmark, found: Mapping[str, Any]) -> None:
    """Fig. 11 of oop.md: memory, latency and work over the band."""
    (both,) = found["held"].values()
    figure.set_size_inches(12, 3.8)
    panels = figure.subplots(1, 3)
    for axes, what, unit, name in zip(
        panels,
        ("bytes", "latency_ms", "work_s"),
        (MB, 1, 1),
        ("(a) MB held", "(b) latency in ms", "(c) seconds of work"),
        strict=True,
    ):
        _architectures(axes, both, what, unit)
        _finish(axes, bench, name)
    panels[0].legend()


def disk_over_time(figure: Figure, bench: Benchmark, found: Mapping[str, Any]) -> None:
    """Bytes and files on disk over the batches of a run, by what they are for."""
    cases = found["retention"]
    figure.set_size_inches(6 * len(cases), 7)
    panels = figure.subplots(2, len(cases), squeeze=False)
    for column, (case, run) in enumerate(cases.items()):
        batches = [sample["batch"] for sample in run["samples"]]
        for axes, what, unit, name in zip(panels[:, column], ("bytes", "files"), (MB, 1), ("MB", "files"), strict=True):
            kinds = list(dict.fromkeys(kind for sample in run["samples"] for kind in sample[what]))
            amounts = [[sample[what].get(kind, 0) / unit for sample in run["samples"]] for kind in kinds]
            axes.stackplot(batches, amounts, labels=kinds)
            axes.axvline(batches[-1] / 2, color="black", linestyle=":", linewidth=1)
            axes.set(title=f"{case}: {name} on disk", xlabel="batches", ylim=(0, None), xlim=(0, batches[-1]))
            axes.yaxis.set_major_formatter(PLAIN)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)


def in_seconds(value: str) -> float | None:
    """A value such as 0.3s, as a number; None, if it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)s", value)
    return float(match[1]) if match else None


def _architectures(axes: Axes, both: Mapping[str, Points], what: str, unit: float, note: str = "", **line: Any) -> None:
    for architecture, points in both.items():
        label, colour, marker = ARCHITECTURES[architecture]
        amounts = [point[what] / unit for point in points.values()]
        axes.plot(_places(list(points)), amounts, color=colour, marker=marker, label=f"{label}{note}", **line)


def _places(values: Sequence[str]) -> Sequence[float] | Sequence[str]:
    seconds = [in_seconds(value) for value in values]
    known = [each for each in seconds if each is not None]
    return known if len(known) == len(values) else values


def _finish(axes: Axes, bench: Benchmark, title: str) -> None:
    axes.set(title=title, xlabel=f"{getattr(bench, 'parameter', 'parameter')} in s")
    top = axes.dataLim.y1
    axes.set_ylim(0, 1.08 * top if math.isfinite(top) and top > 0 else 1)
    axes.yaxis.set_major_formatter(PLAIN)


def _log_scale(axes: Axes, which: str, values: Sequence[float]) -> None:
    """A scale that begins and ends at powers of ten, so that there are always figures beside it."""
    positive = [value for value in values if value > 0] or [1.0]
    top = 10.0 ** max(math.ceil(math.log10(max(positive))), math.floor(math.log10(min(positive))) + 1)
    bottom = 10.0 ** math.floor(math.log10(min(positive)))
    if min(values, default=1.0) <= 0:
        # Nothing has no logarithm: below the smallest amount the scale is linear, and begins at zero.
        axes.set(**{f"{which}scale": "symlog"})
        bottom = 0.0
    else:
        axes.set(**{f"{which}scale": "log"})
    axes.set(**{f"{which}lim": (bottom, top)})
    (axes.xaxis if which == "x" else axes.yaxis).set_major_formatter(PLAIN)


def over_time(figure: Figure, bench: Benchmark, found: Mapping[str, Any]) -> None:
    """The latency of live results, before a query is attached, while it reads the history, and after."""
    cases = {case: own for case, own in found["attach"].items() if "series" in own}
    figure.set_size_inches(10, 2.8 * max(1, len(cases)))
    panels = figure.subplots(len(cases), 1, squeeze=False)
    for (axes,), (case, own) in zip(panels, cases.items(), strict=True):
        axes.plot(*zip(*own["series"], strict=True), color="#0072b2", marker=".", linewidth=0.8)
        axes.axvspan(own["attached"], own["caught"], color="#e69f00", alpha=0.2, label="history is read")
        axes.set(title=f"{case}: {own['rate'] / 1e6:.1f} M rows/s", xlabel="seconds", ylabel="latency in ms")
        axes.set_ylim(bottom=0)
        axes.legend()
