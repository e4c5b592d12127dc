"""The matrix of shapes: every cell is right in one process, no wrong answer passes, and what is told of a run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from penstock.errors import QueryError, WorldError
from penstock_bench import measure, traffic
from penstock_bench.catalog import choose
from penstock_bench.contract import OURS, Job, Run, Size, Turn
from penstock_bench.measure import best, run
from penstock_bench.q4 import Q4
from penstock_bench.report import document
from penstock_bench.shapes import SHAPES
from penstock_bench.shapes_answers import ROUNDING, DuckDBShape, closed_us, difference, results
from penstock_bench.shapes_cells import CATCH_UP, CELLS, PROFILE, STEADY, Cell, cell, place
from penstock_bench.shapes_data import BATCHES, Duplicates, batch_rows, rows_of, spread
from penstock_bench.shapes_profile import STEPS, ProfiledShape
from penstock_bench.shapes_report import shown

SIZE = Size(rows=120_000, groups=300)
MINUTE_US = 60_000_000


class InThisProcess(ThreadPoolExecutor):
    """Writes files in a thread: starting processes takes longer than the few files here."""

    def __init__(self, workers: int, **_: Any) -> None:
        super().__init__(workers)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("shapes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traffic, "ProcessPoolExecutor", InThisProcess)
        SHAPES.prepare(SIZE, folder, lambda rows: None)
    return folder


def timed(data: Path, each: Cell) -> Path:
    return data / each.data / "timed"


def verdict(data: Path, each: Cell, out: Path, *, sees_end: bool = True) -> str | None:
    return difference(each, timed(data, each), out, data / f"expected-{each.name}.parquet", sees_end=sees_end)


@pytest.mark.parametrize("name", [each.name for each in CELLS])
def test_every_cell_is_right_in_one_process_and_the_stopwatch_misses_nothing(
    data: Path, tmp_path: Path, name: str
) -> None:
    each = cell(name)
    shape = ProfiledShape(each, CATCH_UP)
    shape.run(timed(data, each), tmp_path / "ours")
    assert verdict(data, each, tmp_path / "ours") is None
    steps = shape.told()["steps"]
    assert tuple(steps) == STEPS
    assert steps["decode"] > 0
    assert steps["output"] > 0
    assert min(steps.values()) >= 0


@pytest.mark.parametrize("name", ["pair", "sliding", "union", "dedupe", "csv"])
def test_state_is_carried_over_many_batches_of_a_steady_run(data: Path, tmp_path: Path, name: str) -> None:
    each = cell(name)
    rows = rows_of(each, SIZE.rows)
    assert rows / batch_rows(timed(data, each)) == pytest.approx(BATCHES, rel=0.01)
    shape = ProfiledShape(each, STEADY)
    shape.run(timed(data, each), tmp_path / "out")
    assert verdict(data, each, tmp_path / "out") is None


def test_the_stopwatch_knows_the_steps_of_a_stage(data: Path, tmp_path: Path) -> None:
    shape = ProfiledShape(cell("pair"), STEADY)
    shape.run(timed(data, cell("pair")), tmp_path / "out")
    steps = shape.told()["steps"]
    assert all(steps[step] > 0 for step in STEPS if step != "wait")


def test_duckdb_answers_in_one_batch_what_it_is_asked(data: Path, tmp_path: Path) -> None:
    for each in CELLS:
        if each.target == "parquet":
            engine = DuckDBShape(each)
            engine.open(tmp_path)
            engine.run(timed(data, each), tmp_path / each.name)
            engine.close()
            assert verdict(data, each, tmp_path / each.name) is None


def changed(data: Path, name: str, out: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    out.mkdir(exist_ok=True)
    pq.write_table(change(pq.read_table(data / f"expected-{name}.parquet").sort_by("ts")), out / "part.parquet")


def scaled(column: str, by: float) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(
        table.column_names.index(column), column, pc.multiply(table[column].cast(pa.float64()), by)
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(lambda table: table, None, id="right"),
        pytest.param(
            lambda table: table.slice(2), "2 results missing or wrong, 0 that should not be there", id="missing"
        ),
        pytest.param(
            lambda table: pa.concat_tables([table, table.slice(3, 1)]),
            "0 results missing or wrong, 1 that should not be there",
            id="emitted twice",
        ),
        pytest.param(scaled("mean", 1 + ROUNDING / 10), None, id="rounded otherwise"),
        pytest.param(scaled("mean", 1 + 10 * ROUNDING), "wrong", id="wrong mean"),
        pytest.param(scaled("longest", 2), "wrong", id="wrong maximum"),
    ],
)
def test_a_single_bad_result_is_found(
    data: Path, tmp_path: Path, change: Callable[[pa.Table], pa.Table], told: str | None
) -> None:
    changed(data, "rich", tmp_path, change)
    found = verdict(data, cell("rich"), tmp_path)
    assert found is None if told is None else told in str(found)


def test_an_approximate_native_answer_may_be_off_by_what_its_cell_says_and_ours_may_not(
    data: Path, tmp_path: Path
) -> None:
    reached = closed_us(cell("distinct"), timed(data, cell("distinct")))

    def closed(table: pa.Table) -> pa.Table:
        return table.filter(pc.less_equal(pc.add(table["ts"].cast(pa.int64()), MINUTE_US), reached))

    for by, right in ((1.25, True), (1.35, False)):
        changed(data, "distinct", tmp_path, lambda table, by=by: scaled("n", by)(closed(table)))
        assert (verdict(data, cell("distinct"), tmp_path, sees_end=False) is None) == right
        assert verdict(data, cell("distinct"), tmp_path) is not None


def test_rows_are_compared_by_number_and_hashes(data: Path, tmp_path: Path) -> None:
    each = cell("stateless")
    engine = DuckDBShape(each)
    engine.open(tmp_path)
    engine.run(timed(data, each), tmp_path / "out")
    engine.close()
    (file,) = results(each, tmp_path / "out")
    table = pq.read_table(file)
    pq.write_table(table.slice(1), file)
    assert "rows instead of" in str(verdict(data, each, tmp_path / "out"))
    pq.write_table(pa.concat_tables([table.slice(1), table.slice(1, 1)]), file)
    assert verdict(data, each, tmp_path / "out") == "as many rows as there should be, but not the same"
    file.unlink()
    assert verdict(data, each, tmp_path / "out") == "no results at all"


def test_a_copy_is_never_later_than_the_input_promises() -> None:
    table = pa.concat_tables(Duplicates(20_000, 10, 5_000, rate=1_000).packets(index) for index in range(4))
    times = table["ts"].cast(pa.int64()).to_numpy()
    largest = -(1 << 62)
    for at in range(0, len(times), 100):
        assert times[at : at + 100].min() >= largest - 2_000_000
        largest = max(largest, times[: at + 100].max())
    distinct = table.group_by(["ts", "number"]).aggregate([]).num_rows
    assert 0.88 * table.num_rows < distinct < 0.92 * table.num_rows


def test_small_data_covers_as_much_time_and_as_many_batches_and_large_data_more() -> None:
    assert (spread(400_000, 10).seconds, spread(400_000, 10).files) == (200, 20)
    large = spread(60_000_000, 10)
    assert (large.rate / large.seconds, large.file_rows, large.files) == (100_000, 1_000_000, 60)


def test_every_case_is_a_cell_in_a_mode_and_names_those_who_can_answer_it() -> None:
    by_case: dict[str, list[str]] = {}
    for peer in SHAPES.peers:
        by_case.setdefault(peer.case, []).append(peer.name)
    native = ["spark-rocksdb", "spark-hdfs"]
    assert by_case["pair"] == [OURS, *native, "duckdb", PROFILE]
    assert by_case["pair-steady"] == [OURS, *native, PROFILE]
    assert by_case["sliding-steady"] == [OURS, *native, "spark-panes", PROFILE]
    assert by_case["tuples"] == by_case["group-marks"] == [OURS, "duckdb", PROFILE]
    assert by_case["delta"] == [OURS, PROFILE]
    assert by_case["first-result"] == [OURS, *native]
    assert place("string-low-steady") == (cell("string-low"), STEADY)


def test_the_profile_runs_when_it_is_asked_for_alone() -> None:
    assert [peer.name for peer in choose(SHAPES, ["duckdb"], ["pair"])] == [OURS, "duckdb"]
    assert [peer.name for peer in choose(SHAPES, ["duckdb"], ["pair"], profile=True)] == [OURS, "duckdb", PROFILE]
    with pytest.raises(QueryError, match="benchmark 'q4' has no profile"):
        choose(Q4, [], profile=True)


def outcome(name: str, case: str, seconds: float, **more: Any) -> Run:
    return Run(f"{name}-{case}", 1_000_000, seconds, 500.0, True, case=case, **more)


def told_of(*runs: Run) -> dict[str, Any]:
    return document(SHAPES, SIZE, best({run.peer: [run] for run in runs}))


def printed(found: dict[str, Any]) -> str:
    console = Console(width=100)
    with console.capture() as capture:
        for part in shown(found):
            console.print(part)
    return capture.get()


def test_the_range_and_the_aims_are_of_the_worst_that_ran() -> None:
    found = told_of(
        outcome(OURS, "pair", 1.0),
        outcome("spark-rocksdb", "pair", 6.0),
        outcome("duckdb", "pair", 0.6),
        outcome(OURS, "rich-steady", 1.0),
        outcome("spark-rocksdb", "rich-steady", 8.0),
        outcome(OURS, "rich", 1.0),
        outcome("spark-rocksdb", "rich", 4.0),
        outcome(OURS, "first-result", 9.0),
        outcome("spark-hdfs", "first-result", 12.0),
    )
    ranges = found["shapes"]["range"]
    assert ranges["spark-rocksdb"] == {
        "worst": {"case": "rich", "ratio": 4.0},
        "median": 6.0,
        "best": {"case": "rich-steady", "ratio": 8.0},
        "cases": 3,
    }
    assert "spark-hdfs" not in ranges  # a first result is no throughput
    aims = {aim["aim"]: (aim["case"], aim["found"], aim["met"]) for aim in found["shapes"]["aims"]}
    assert aims == {
        "catch-up, windowed, over spark-rocksdb": ("rich", 4.0, False),
        "catch-up, windowed but for distinct, over duckdb": ("pair", pytest.approx(0.6), True),
        "steady, windowed, over spark-rocksdb": ("rich-steady", 8.0, True),
        "first result in a fresh process, over native": ("first-result", pytest.approx(12 / 9), True),
        "peak PSS of ours in MB": ("pair", 500.0, True),
    }
    text = printed(found)
    for expected in ("rich-steady", "9.0 s", "12.0 s (1.33)", "0.167 (6.00)", "at least 8", "below 2,048"):
        assert expected in text


def test_who_gives_no_answer_is_told_and_nobody_else_is_lost() -> None:
    found = told_of(outcome(OURS, "sparse", 1.0), outcome("spark-hdfs", "sparse", 2.0, failure="out of memory"))
    assert found["unanswered"] == {"spark-hdfs-sparse": "out of memory"}
    assert list(found["results"]) == [f"{OURS}-sparse"]
    other = told_of(
        outcome(OURS, "sparse", 1.0),
        outcome("spark-hdfs", "sparse", 2.0, failure="out of memory"),
        outcome("spark-hdfs", "pair", 2.0),
    )
    assert "no answer" in printed(other)


def test_a_process_that_fails_ends_a_benchmark_unless_it_has_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise WorldError("the process is gone")

    heard: list[str] = []

    def watch(turn: Turn, stage: str) -> None:
        heard.append(stage)

    monkeypatch.setattr(measure, "run_in_turn", fail)
    peers = choose(SHAPES, ["duckdb"], ["pair"])
    runs = measure.measure(SHAPES, SIZE, peers, rounds=1, data=tmp_path, scratch=tmp_path / "runs", watch=watch)
    assert [each.failure for own in runs.values() for each in own] == ["the process is gone"] * 2
    assert heard == ["wrong: the process is gone"] * 2
    peers = choose(Q4, ["duckdb"])
    with pytest.raises(WorldError, match="the process is gone"):
        measure.measure(Q4, SIZE, peers, rounds=1, data=tmp_path, scratch=tmp_path / "more", watch=watch)


def test_a_peer_that_takes_too_long_is_ended(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(SHAPES), "patience", 0.05)
    with pytest.raises(WorldError, match="'duckdb-pair' of benchmark 'shapes' failed"):
        run(SHAPES, Job("shapes", "duckdb-pair", SIZE, data, tmp_path))


def test_a_run_of_duckdb_in_a_process_of_its_own_is_measured_and_right(data: Path, tmp_path: Path) -> None:
    done = run(SHAPES, Job("shapes", "duckdb-band-join", SIZE, data, tmp_path))
    assert (done.correct, done.rows, done.case) == (True, SIZE.rows // 5, "band-join")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.peer
@pytest.mark.parametrize("label", ["penstock-rich-steady", "spark-panes-sliding", "spark-hdfs-first-result"])
def test_the_peers_on_spark_are_right(data: Path, tmp_path: Path, label: str) -> None:
    assert run(SHAPES, Job("shapes", label, SIZE, data, tmp_path)).correct


def test_the_profile_is_told_in_nanoseconds_a_row() -> None:
    steps = dict.fromkeys(STEPS, 0.001)
    found = told_of(outcome(OURS, "pair", 1.0), replace(outcome(PROFILE, "pair", 1.0), detail={"steps": steps}))
    assert found["shapes"]["profile"]["pair"] == {"rows": 1_000_000, **steps}
    assert "engine='local'" in printed(found)
