"""`penstock bench` on the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import psutil
import pytest
import typer
from rich.console import Console
from tests.thoroughness import THOROUGH
from typer.testing import CliRunner

from penstock_bench import catalog, command, measure
from penstock_bench.contract import OURS, Benchmark, Job, Run, Size
from penstock_bench.floor import FLOOR
from penstock_bench.heartbeats import HEARTBEATS
from penstock_bench.measure import best
from penstock_bench.q4 import Q4
from penstock_bench.q7 import Q7
from penstock_bench.q9 import Q9
from penstock_bench.report import document, floor_table, load, table, turns_table
from penstock_bench.shapes import SHAPES

# Only the peer that starts a JVM: it is the one that leaves most behind if it is not ended well.
SPARK_ALONE = """
import typer
from penstock_bench import command
command.choose = lambda bench, against, cases, profile: [peer for peer in bench.peers if peer.name == "spark-hdfs"]
if __name__ == "__main__":
    app = typer.Typer()
    command.register(app)
    app()
"""


def invoke(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    command.register(app)
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_without_a_name_the_benchmarks_are_listed() -> None:
    code, text = invoke()
    assert code == 0
    for name in ("q4", "q7", "q9", "floor", "spark-rocksdb", "spark-hdfs", "duckdb"):
        assert name in text


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    code, text = invoke("q5")
    assert code == 2
    assert "unknown benchmark 'q5'" in text
    assert "one of q4, q7, q9, shapes" in text


def test_an_unknown_peer_is_refused_with_those_that_exist() -> None:
    code, text = invoke("q4", "--against", "flink")
    assert code == 2
    assert "benchmark 'q4' has no peer 'flink'" in text
    assert "one of spark-rocksdb, spark-hdfs, duckdb" in text


def test_ours_runs_beside_the_peers_that_are_named() -> None:
    assert [peer.name for peer in catalog.choose(Q4, ["duckdb"])] == [OURS, "duckdb"]
    assert [peer.name for peer in catalog.choose(Q4, [])] == [OURS, "spark-rocksdb", "spark-hdfs", "duckdb"]


def test_a_peer_is_named_once_and_runs_in_every_case_or_in_those_asked_for() -> None:
    chosen = catalog.choose(Q7, ["spark-rocksdb"])
    assert [peer.label for peer in chosen] == [
        "penstock-1s",
        "spark-rocksdb-1s",
        "penstock-10s",
        "spark-rocksdb-10s",
        "penstock-60s",
        "spark-rocksdb-60s",
    ]
    assert [peer.label for peer in catalog.choose(Q7, ["duckdb"], ["10s"])] == ["penstock-10s", "duckdb-10s"]
    # The other ranges of q9 are ours alone.
    assert [peer.label for peer in catalog.choose(Q9, ["duckdb"])] == [
        "penstock-5min",
        "duckdb-5min",
        "penstock-2min",
        "penstock-60min",
    ]


def test_an_unknown_case_is_refused_with_those_that_exist() -> None:
    code, text = invoke("q7", "--case", "5s")
    assert code == 2
    assert "benchmark 'q7' has no case '5s'" in text
    assert "one of 1s, 10s, 60s" in text
    code, text = invoke("q4", "--case", "1s")
    assert code == 2
    assert "it has only one" in text


def test_what_has_run_of_a_matrix_is_told_and_saved_when_it_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_in_turn(bench: Benchmark, jobs: list[Job], watch: object) -> list[Run]:
        if jobs[0].peer == "duckdb-pair":
            raise KeyboardInterrupt
        return [Run(jobs[0].peer, 10, 1.0, 5.0, True, case="pair")]

    monkeypatch.setattr(measure, "run_in_turn", run_in_turn)
    monkeypatch.setattr(type(SHAPES), "prepare_cases", lambda *_: None)
    told, file = StringIO(), tmp_path / "shapes.json"
    peers = catalog.choose(SHAPES, ["duckdb"], ["pair"])
    with pytest.raises(KeyboardInterrupt):
        command.conduct(
            SHAPES, Size(10, 2), peers, rounds=1, keep_data=tmp_path, console=Console(file=told), json_file=file
        )
    assert "round 1, penstock-pair: 1.00 s" in told.getvalue()
    assert list(load(file)["results"]) == ["penstock-pair"]


def test_peers_are_compared_within_their_case_and_growth_across() -> None:
    results = {
        "penstock-5min": Run("penstock-5min", 100, 1.0, 10.0, True, case="5min"),
        "duckdb-5min": Run("duckdb-5min", 100, 0.5, 5.0, True, case="5min"),
        "penstock-2min": Run("penstock-2min", 100, 2.0, 10.0, True, case="2min"),
        "penstock-60min": Run("penstock-60min", 100, 3.0, 10.0, True, case="60min"),
    }
    found = document(Q9, Size(100, 1), results)
    assert found["ratios"] == {"duckdb-5min": 0.5}
    assert found["growth"] == {"penstock-60min / penstock-2min": 1.5}
    del results["penstock-2min"]
    assert "growth" not in document(Q9, Size(100, 1), results)


def test_the_json_has_exactly_the_promised_shape() -> None:
    results = {OURS: Run(OURS, 100, 0.5, 10.0, True), "duckdb": Run("duckdb", 100, 0.25, 5.0, True)}
    assert document(Q4, Size(100, 7), results) == {
        "bench": "q4",
        "rows": 100,
        "groups": 7,
        "results": {
            OURS: {"seconds": 0.5, "rows_per_s": 200.0, "peak_pss_mb": 10.0, "correct": True},
            "duckdb": {"seconds": 0.25, "rows_per_s": 400.0, "peak_pss_mb": 5.0, "correct": True},
        },
        "ratios": {"duckdb": 0.5},
    }


def test_floor_adds_its_own_part_to_the_json() -> None:
    detail = {"batch_ms": 100, "latency_ms": 190.5, "parts": {"addBatch": 70}, "results": []}
    found = document(FLOOR, Size(30, 1), {"spark-rocksdb": Run("spark-rocksdb", 30, 6.0, 10.0, True, detail)})
    assert set(found) == {"bench", "rows", "groups", "results", "ratios", "floor"}
    assert found["floor"] == {"spark-rocksdb": {"batch_ms": 100, "latency_ms": 190.5, "parts": {"addBatch": 70}}}
    assert floor_table(found).row_count == 3


def test_the_table_has_a_row_for_each_peer() -> None:
    results = {OURS: Run(OURS, 100, 0.5, 10.0, True), "duckdb": Run("duckdb", 100, 0.25, 5.0, False)}
    shown = table(document(Q4, Size(100, 7), results))
    assert shown.row_count == 2
    assert [column.header for column in shown.columns] == [
        "name",
        "seconds",
        "M rows/s",
        "peak PSS MB",
        "correct",
        "ratio",
    ]


def test_a_whole_benchmark_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        command,
        "choose",
        lambda bench, against, cases, profile: [peer for peer in bench.peers if peer.name == "duckdb"],
    )
    file = tmp_path / "q4.json"
    arguments = ["q4", "--rows", "100000", "--groups", "10", "--rounds", "2"]
    code, text = invoke(*arguments, "--json", str(file), "--keep-data", str(tmp_path / "data"))
    assert code == 0, text
    found = json.loads(file.read_text())
    assert (found["rows"], found["groups"]) == (100_000, 10)
    assert found["results"]["duckdb"]["correct"] is True
    assert (tmp_path / "data" / "packets" / "part-00000.parquet").exists()


def saved(tmp_path: Path, correct: bool = True) -> Path:
    file = tmp_path / "q4.json"
    results = {OURS: Run(OURS, 100, 0.5, 10.0, True), "duckdb": Run("duckdb", 100, 0.25, 5.0, correct)}
    file.write_text(json.dumps(document(Q4, Size(100, 7), results)))
    return file


def test_saved_results_are_shown_and_plotted_without_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(command, "conduct")
    for name in ((), ("q4",)):
        figure = tmp_path / f"figure{len(name)}.svg"
        code, text = invoke(*name, "--from", str(saved(tmp_path)), "--plot", str(figure))
        assert code == 0, text
        assert "q4: 100 rows, 7 groups" in text
        assert "duckdb" in figure.read_text()
    code, text = invoke("--from", str(saved(tmp_path, correct=False)))
    assert (code, "NO" in text) == (1, True)


def test_what_cannot_be_plotted_or_saved_is_said_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(command, "conduct")
    for option, name, said in (
        ("--plot", "figure.gif", "a name that ends in .svg, .png, .pdf"),
        ("--plot", "nowhere/figure.svg", "cannot be written"),
        ("--json", "nowhere/q4.json", "cannot be written"),
    ):
        code, text = invoke("q4", option, str(tmp_path / name))
        assert code == 2
        assert said in " ".join(text.split())
    code, text = invoke("--plot", str(tmp_path / "figure.svg"))
    assert (code, "--plot without anything to plot" in text) == (2, True)
    assert not list(tmp_path.iterdir())


def test_saved_results_take_no_options_of_a_run_and_no_other_name(tmp_path: Path) -> None:
    code, text = invoke("--from", str(saved(tmp_path)), "--rows", "5", "--case", "few")
    assert code == 2
    assert "--rows, --case beside --from: nothing is run" in text
    code, text = invoke("q7", "--from", str(saved(tmp_path)))
    assert code == 2
    assert "results of 'q4'" in text


def test_files_that_hold_no_results_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "some.json"
    for content, said in (
        (None, "cannot be read"),
        ("{", "is not JSON"),
        ("[]", "has no results of a benchmark"),
        ('{"bench": "q4", "rows": 1, "groups": 1, "ratios": {}}', "JSON without results"),
        ('{"bench": "q5", "rows": 1, "groups": 1, "results": {}, "ratios": {}}', "unknown benchmark 'q5'"),
    ):
        if content is not None:
            file.write_text(content)
        code, text = invoke("--from", str(file))
        assert code == 2
        assert said in " ".join(text.split())


def test_turns_are_told_and_shown_instead_of_growth() -> None:
    pair = f"{OURS}-heartbeats / {OURS}"
    runs = {
        peer.label: [
            Run(peer.label, 100, seconds * (1.5 if "heart" in peer.label else 1), 1.0, True, round=number, turn=turn)
            for number in (1, 2)
            for turn, seconds in enumerate((9.0, 2.0 * number, 4.0 * number))
        ]
        for peer in HEARTBEATS.peers
    }
    found = document(HEARTBEATS, Size(100, 1), best(runs), runs)
    assert "growth" not in found
    assert found["turns"]["ratios"][pair]["all"] == {"best": 1.5, "median": 1.5}
    shown = turns_table(found)
    assert [list(column.cells) for column in shown.columns] == [
        ["1", "", "2", "", "all", ""],
        [OURS, f"{OURS}-heartbeats"] * 3,
        ["2.00", "3.00", "4.00", "6.00", "2.00", "3.00"],
        ["3.00", "4.50", "6.00", "9.00", "4.00", "6.00"],
        ["", "1.500"] * 3,
        ["", "1.500"] * 3,
    ]


def _name(process: psutil.Process) -> str:
    """What a process is called; many of Spark's end as soon as they are seen."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM] if THOROUGH >= 1 else [signal.SIGINT])
def test_stopping_half_way_leaves_neither_processes_nor_files(tmp_path: Path, stop: signal.Signals) -> None:
    script = tmp_path / "bench.py"
    script.write_text(SPARK_ALONE)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, str(script), "q4", "--rows", "2000000", "--groups", "10", "--rounds", "1"]
    running = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL)
    family: list[psutil.Process] = []
    end = time.monotonic() + 60
    while not any("java" in _name(member) for member in family):
        assert running.poll() is None
        assert time.monotonic() < end
        time.sleep(0.2)
        family = [member for member in psutil.Process(running.pid).children(recursive=True) if member.is_running()]
    running.send_signal(stop)
    assert running.wait(40) == 130
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive
    assert not list(temporary.glob("penstock-bench-*"))
