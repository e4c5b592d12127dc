"""Figures of results: `penstock bench NAME --plot FILE`, or `--from FILE.json --plot FILE` of results that were saved.

What is drawn comes from the JSON of a benchmark alone, and the same JSON gives the same bytes. Matplotlib is loaded
only when something is drawn: it takes longer to load than all the rest.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import QueryError, WorldError
from penstock_bench.contract import Benchmark
from penstock_bench.plots_bars import floor, point_query, smoothing, throughput, turns
from penstock_bench.plots_failover import steadiness
from penstock_bench.plots_lines import arranged, band_join, disk_over_time, enabling, held, over_time
from penstock_bench.plots_lmerge import fast_forward, merging
from penstock_bench.plots_shapes import ratios

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES: Final = (".svg", ".png", ".pdf")
METADATA: Final[Mapping[str, Mapping[str, None]]] = {".svg": {"Date": None}, ".png": {}, ".pdf": {"CreationDate": None}}
"""What would make two files of the same results differ is left out."""
STYLE: Final[Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so texts are as wide everywhere
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.fonttype": "none",  # texts stay texts: they can be searched and selected
    "svg.hashsalt": "penstock",
}
WRONG: Final = "#b00020"

Draw = Callable[["Figure", Benchmark, Mapping[str, Any]], None]


@dataclass(frozen=True)
class Plot:
    """How the results of a benchmark are drawn, and the part of its JSON that this needs."""

    draw: Draw
    part: str


PLOTS: Final[Mapping[str, Plot]] = {
    "q4": Plot(throughput, "results"),
    "q7": Plot(throughput, "results"),
    "q9": Plot(throughput, "results"),
    "shapes": Plot(ratios, "shapes"),
    "calls": Plot(throughput, "results"),
    "heartbeats": Plot(turns, "results"),
    "floor": Plot(floor, "floor"),
    "ets": Plot(enabling, "ets"),
    "smoothing": Plot(smoothing, "smoothing"),
    "skew": Plot(held, "held"),
    "lull": Plot(held, "held"),
    "late": Plot(held, "held"),
    "bandjoin": Plot(band_join, "held"),
    "attach": Plot(over_time, "attach"),
    "point-query": Plot(point_query, "point_query"),
    "retention": Plot(disk_over_time, "retention"),
    "optimizer": Plot(arranged, "optimizer"),
    "lmerge": Plot(merging, "lmerge"),
    "feedback": Plot(fast_forward, "feedback"),
    "failover": Plot(steadiness, "failover"),
}
"""By the name of the benchmark."""


def check_plot(bench: Benchmark, file: Path | None) -> None:
    """Refuse what could not be plotted, or not there, before anything runs."""
    if file is None:
        return
    if file.suffix.lower() not in SUFFIXES:
        raise QueryError(
            f"'{file}' is no kind of figure that can be drawn",
            expected=f"a name that ends in {', '.join(SUFFIXES)}",
            found=f"'{file.suffix}'" if file.suffix else "a name without an ending",
            hint="give --plot another name",
        )
    if bench.name not in PLOTS:
        raise QueryError(
            f"benchmark '{bench.name}' has nothing to plot",
            expected=f"one of {', '.join(PLOTS)}",
            hint="leave --plot out; --json saves its results",
        )
    check_place(file)


def check_place(file: Path | None) -> None:
    """Refuse a file that could not be written; leaves everything as it was."""
    if file is None:
        return
    existed = file.exists()
    try:
        file.open("ab").close()
    except OSError as error:
        raise WorldError(
            f"'{file}' cannot be written",
            expected="a file in a folder that exists",
            found=error.strerror or str(error),
            hint="make the folder, or name another place",
        ) from error
    if not existed:
        file.unlink()


def plot(bench: Benchmark, found: Mapping[str, Any], file: Path) -> None:
    """Draw results, as `report.document` tells them, into a file."""
    check_plot(bench, file)
    if not found.get(PLOTS[bench.name].part):
        raise WorldError(
            f"these results of '{bench.name}' have nothing to plot",
            expected=f"'{PLOTS[bench.name].part}' in the JSON",
            found=", ".join(found),
            hint="run the benchmark again",
        )
    drawn = drawing(bench, found, file.suffix.lower())
    try:
        file.write_bytes(drawn)
    except OSError as error:
        raise WorldError(f"'{file}' cannot be written", found=error.strerror or str(error)) from error


def drawing(bench: Benchmark, found: Mapping[str, Any], suffix: str) -> bytes:
    """The bytes of a figure. No window and no settings of the user take part."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    out = io.BytesIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        PLOTS[bench.name].draw(figure, bench, found)
        wrong = [name for name, result in found["results"].items() if not result["correct"]]
        title = f"{bench.name}: {found['rows']:,} rows, {found['groups']:,} groups"
        if wrong:
            figure.suptitle(f"{title}\nWRONG ANSWERS: {', '.join(wrong)}", color=WRONG)
        else:
            figure.suptitle(title)
        figure.savefig(out, format=suffix.removeprefix("."), metadata=dict(METADATA[suffix]))
    return out.getvalue()
