"""Figures of results: what they show, that the same results give the same bytes, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from penstock.errors import QueryError, WorldError
from penstock_bench import plots
from penstock_bench.catalog import find
from penstock_bench.contract import Run, Size
from penstock_bench.plots import check_place, check_plot, drawing, plot
from penstock_bench.plots_lines import in_seconds
from penstock_bench.report import document

KB = 1024


def results(name: str) -> dict[str, Any]:
    """Results of a benchmark as its JSON has them, with figures that are easy to find again."""
    bench = find(name)
    runs = {
        peer.label: Run(peer.label, 3_000_000, 1.0 + at, 100.0, True, detail(name, at), peer.case)
        for at, peer in enumerate(bench.peers)
    }
    turns = {label: [run, Run(label, 3_000_000, 5.0, 100.0, True, round=2)] for label, run in runs.items()}
    return json.loads(json.dumps(document(bench, Size(3_000_000, 7), runs, turns)))


def detail(name: str, at: int) -> Mapping[str, Any]:
    if name == "ets":
        return {"latency_ms": 10.0 ** (at + 1), "p95_ms": 1.0, "peak_queue": at, "peak_held": 0, "batches": 1} | {
            "quiet_batches": 1,
            "seconds": 1.0,
        }
    if name in ("skew", "lull", "late", "bandjoin"):
        held = {"rows": 10 + at, "all_rows": 20 + at, "bytes": KB * KB, "all_bytes": 2 * KB * KB}
        timed = {"latency_ms": 300 + at, "work_s": 1.5, "seconds": 2.0}
        return {"points": {f"{value}s": held | timed for value in (1, 10, 20, 30, 40, 60)}}
    if name == "smoothing":
        half = {"rates": {"2": 1e6 * (at + 1), "16": 3e6}, "unlimited": 4e6, "pause_ms": 1.0}
        tables = {size: {"entries": 5, "low": half, "stage": half, "burst": 1, "delay": 1.0} for size in ("1/2", "1")}
        return {"groups": 1024, "train": 10, "tables": tables}
    if name == "attach":
        series = [[0.5, 100.0 + at], [2.0, 140.0], [4.0, 110.0]]
        return {"rate": 2e6, "attached": 1.0, "caught": 3.0, "before_ms": 100, "during_ms": 140, "series": series}
    if name == "retention":
        sample = {"bytes": {"state": KB, "board": 2 * KB}, "files": {"state": 3, "board": 32}}
        return {"samples": [{"batch": 10 * number, **sample} for number in range(1, 9)]}
    if name == "lmerge":
        point = {"rate": 1e6 * (at + 1), "state_bytes": KB * KB, "adjusts_in": 7, "adjusts": 3}
        return {"rows": 100, "points": {"2": point, "10": point}}
    if name == "feedback":
        return {"results": 7, "batches": 3, "series": [[0.0, 0], [1.0 + at, 7]]}
    if name == "failover":
        steady = {"variation": 0.25, "gap_s": 0.0, "behind_s": 0.5, "least": 1.0, "most": 9.0}
        names = ("copy1", "copy2", "output")
        return {"batches": 5, "rates": {n: [1.0, 9.0] for n in names}, "figures": dict.fromkeys(names, steady)}
    if name == "optimizer":
        batch = {"rows": 1_000, "cpu": 0.5, "version": 1}
        return {"batches": [batch | {"seconds": 1.0 + at + number} for number in range(32)]}
    if name == "floor":
        return {"batch_ms": 100, "latency_ms": 120, "parts": {"addBatch": 80, "walCommit": 20}}
    if name == "point-query":
        return {"read_bytes": 2_000_000, "point_bytes": 100_000_000, "share": 0.02}
    return {}


def drawn(name: str, found: Mapping[str, Any] | None = None) -> Figure:
    figure = Figure()
    plots.PLOTS[name].draw(figure, find(name), found or results(name))
    return figure


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("q4", ["penstock", "spark-rocksdb", "duckdb", "million rows a second", "q4: 3,000,000 rows, 7 groups"]),
        ("q7", ["penstock-10s", "spark-rocksdb-60s"]),
        ("q9", ["penstock-2min", "duckdb-5min"]),
        ("calls", ["penstock-stepwise", "duckdb-many"]),
        ("shapes", ["string-high-steady", "rows a second, ours over theirs", "spark-panes: ", "median"]),
        ("point-query", ["full-read", "duckdb", "seconds", "bytes read, % of those in the point", "2.0%"]),
        ("heartbeats", ["penstock-heartbeats", "round 2", "seconds, turn by turn"]),
        ("floor", ["addBatch", "walCommit", "latency of a result", "one at a time"]),
        (
            "ets",
            ["mean latency in ms", "peak queue in tuples", "on demand (", "latent (", "none ("],
        ),
        ("smoothing", ["low level alone, a ring of 2 trains", "a ring of 16 trains", "in-order", "lazy", "1,024"]),
        (
            "skew",
            ["count: tuples held", "q9: MB held", "skew in s", "in order, with the batch"],
        ),
        ("lull", ["merge: tuples held", "join: MB held", "interval in s"]),
        ("late", ["tuples held", "delay in s"]),
        ("attach", ["share-0.3: 2.0 M rows/s", "history is read", "latency in ms", "seconds"]),
        ("retention", ["local: MB on disk", "spark: files on disk", "batches", "board"]),
        ("optimizer", ["M rows/s", "us/row in the boxes", "as-written", "by-hand", "the data changes"]),
        ("feedback", ["udf0: 1 s", "feedback: 4 s", "results, by the time since the first batch"]),
        ("failover", ["bursts: the copies", "congestion: their merge", "output: variation 0.25", "elements a second"]),
        ("bandjoin", ["(a) MB held", "(b) latency in ms", "(c) seconds of work", "band in s"]),
    ],
)
def test_a_figure_says_what_it_shows(name: str, texts: list[str], tmp_path: Path) -> None:
    file = tmp_path / f"{name}.svg"
    plot(find(name), results(name), file)
    svg = file.read_text()
    for text in texts:
        assert text in svg


@pytest.mark.parametrize(("suffix", "start"), [(".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_the_same_results_give_the_same_bytes_of_each_kind(suffix: str, start: bytes) -> None:
    once, again = (drawing(find("ets"), results("ets"), suffix) for _ in range(2))
    assert once == again
    assert once.startswith(start)


def test_another_process_draws_the_same_bytes_and_loads_matplotlib_only_then(tmp_path: Path) -> None:
    file = tmp_path / "skew.json"
    file.write_text(json.dumps(results("skew")))
    script = f"""
import sys
from penstock_bench import command
assert "matplotlib" not in sys.modules
command.bench(None, saved=command.Path({str(file)!r}), plot_file=command.Path({str(tmp_path / "skew.svg")!r}))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "77"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / "skew.svg").read_bytes() == drawing(find("skew"), results("skew"), ".svg")


def test_heartbeats_are_a_line_over_their_rate_and_the_other_cases_level_lines() -> None:
    latency, queue = drawn("ets").axes
    line, none, demand, latent = latency.lines
    assert list(line.get_xdata()) == pytest.approx([1 / 10, 1 / 3, 1, 1 / 0.3, 10])
    assert list(line.get_ydata()) == [100, 1000, 10_000, 100_000, 1_000_000]
    levels = [set(level.get_ydata()) for level in (none, demand, latent)]
    assert levels == [{10}, {10_000_000}, {100_000_000}]
    assert (latency.get_xscale(), latency.get_yscale()) == ("log", "log")
    # Here one queue was empty all the time, which has no logarithm.
    assert (queue.get_yscale(), queue.get_ylim()[0]) == ("symlog", 0)


def test_cases_without_heartbeats_are_drawn_alone() -> None:
    found = results("ets")
    found["ets"] = {"latent": found["ets"]["latent"]}
    latency, _ = drawn("ets", found).axes
    assert len(latency.lines) == 1
    assert latency.get_xlim() == (0.1, 10)


def test_what_is_held_is_drawn_by_architecture_with_and_without_the_batch() -> None:
    tuples, _, _, megabytes = drawn("skew").axes
    found = {line.get_label(): list(line.get_ydata()) for line in tuples.lines}
    assert found["out of order, with the batch"] == [20] * 6
    assert found["in order, between batches"] == [11] * 6
    assert list(tuples.lines[0].get_xdata()) == [1, 10, 20, 30, 40, 60]
    assert set(megabytes.lines[0].get_ydata()) == {2.0}


def test_a_bar_stands_for_each_way_to_flush_and_one_that_did_not_run_for_nothing() -> None:
    found = results("smoothing")
    del found["smoothing"]["lazy-eighth"]
    figure = drawn("smoothing", found)
    assert len(figure.axes) == 4  # two rings, two halves
    assert [[bar.get_height() for bar in bars][:3] for bars in figure.axes[0].containers] == [
        [1, 1, 4],
        [2, 2, 5],
        [0, 0, 6],
    ]


def test_peers_of_a_case_stand_together() -> None:
    (axes,) = drawn("calls").axes
    places = {label.get_text(): tick for label, tick in zip(axes.get_yticklabels(), axes.get_yticks(), strict=True)}
    assert places["duckdb-few"] - places["penstock-few"] == 1
    assert places["penstock-many"] - places["duckdb-few"] == pytest.approx(1.4)


def test_saved_results_without_turns_are_drawn_without_them() -> None:
    found = results("heartbeats")
    assert len(drawn("heartbeats", found).axes) == 2
    del found["turns"]
    assert len(drawn("heartbeats", found).axes) == 1


def test_a_wrong_answer_is_written_over_the_figure() -> None:
    found = results("q4")
    assert b"WRONG" not in drawing(find("q4"), found, ".svg")
    found["results"]["duckdb"]["correct"] = False
    assert b"WRONG ANSWERS: duckdb" in drawing(find("q4"), found, ".svg")


@pytest.mark.parametrize("name", ["figure.gif", "figure"])
def test_another_kind_of_file_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="no kind of figure") as refused:
        check_plot(find("q4"), tmp_path / name)
    assert refused.value.expected == "a name that ends in .svg, .png, .pdf"


def test_a_benchmark_without_a_figure_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(plots.PLOTS, "floor")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="'floor' has nothing to plot"):
        check_plot(find("floor"), tmp_path / "floor.svg")


def test_a_place_that_cannot_be_written_is_refused_and_one_that_can_is_left_as_it_was(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere" / "q4.svg"):
        with pytest.raises(WorldError, match="cannot be written"):
            check_place(place)
    check_place(tmp_path / "new.svg")
    assert not list(tmp_path.iterdir())
    (tmp_path / "old.svg").write_text("kept")
    check_place(tmp_path / "old.svg")
    assert (tmp_path / "old.svg").read_text() == "kept"


def test_results_that_lack_what_is_drawn_are_refused(tmp_path: Path) -> None:
    found = results("ets")
    del found["ets"]
    with pytest.raises(WorldError, match="these results of 'ets' have nothing to plot"):
        plot(find("ets"), found, tmp_path / "ets.svg")
    assert not list(tmp_path.iterdir())


def test_only_seconds_are_values_on_an_axis() -> None:
    assert [in_seconds(value) for value in ("0.3s", "10s", "latent", "5min", "s")] == [0.3, 10, None, None, None]
