"""How the way of a batch is chosen, who may choose it, and that errors are the same by both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.jobs import job_of
from typer.testing import CliRunner

import penstock as pk
from penstock.algebra.expressions import kernel
from penstock.cli import main
from penstock.connectors.memory import Memory
from penstock.runtime import local
from penstock.runtime.board import BoxWork, Record
from penstock.runtime.intake import read_assignment
from penstock.runtime.job import Job
from penstock.runtime.offsets import InputAt, Offset, Size, intake_offset, offset_text
from penstock.runtime.planner import Planner
from penstock.runtime.settings import (
    AUTO,
    CARRIED_BYTES,
    EXCHANGE,
    EXPRESS,
    MOST_THREADS,
    REDUCED_BYTES,
    REMEMBERED_BYTES,
    TRAIN_BYTES,
    WAYS,
    Settings,
)
from penstock.runtime.small_batch import FEW_BYTES, FEW_ROWS
from penstock.runtime.train import OUTLET
from penstock.runtime.ways import EXPRESS_HELD, read_shares, run_stages, way_of

SCHEMA = {"ts": "int64", "k": "string"}
ROWS = [(at, "xyz"[at % 3]) for at in range(30)]
REFUSED = "unknown way 'fast'\n  expected: one of 'auto', 'express', 'exchange'"


def counts(connector: Memory | None = None) -> pk.Network:
    """Counts of groups, and of the groups: two stages."""
    net = pk.Network("ways")
    source = net.source("in", connector or pk.memory(ROWS, schema=SCHEMA, train=10), progress=pk.ordered())
    groups = source.aggregate({"n": "count(*)"}, on="ts", size=5, by=["k"], name="groups")
    groups.aggregate({"n": "count(*)"}, on="ts", size=10, name="all").output("counts")
    return net


def chosen(job: Job, offset: Offset, before: Record, way: str = AUTO) -> str:
    return way_of(replace(job, settings=replace(job.settings, way=way)), offset, before)


def offset(rows: int = 0, size: int = 0, **more: Any) -> Offset:
    return Offset({"in": InputAt({"at": rows})}, {"in": ("0",)}, 2, size=Size(rows, size), **more)


def holding(*rows: int) -> Record:
    return Record(batch=4, boxes={f"box{number}": BoxWork(held_rows=held) for number, held in enumerate(rows)})


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return job_of(counts(), tmp_path)


# --- the choice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "size", "held", "way"),
    [
        (0, 0, (), EXPRESS),
        (FEW_ROWS, FEW_BYTES, (EXPRESS_HELD,), EXPRESS),
        (FEW_ROWS + 1, 0, (), EXCHANGE),
        (0, FEW_BYTES + 1, (), EXCHANGE),
        (0, 0, (EXPRESS_HELD + 1,), EXCHANGE),
        (0, 0, (EXPRESS_HELD, 1), EXCHANGE),  # what all boxes hold together
    ],
)
def test_few_rows_few_bytes_and_few_held_tuples_go_the_express_way(
    rows: int, size: int, held: tuple[int, ...], way: str, job: Job
) -> None:
    assert chosen(job, offset(rows, size), holding(*held)) == way


def test_all_go_the_express_way_where_the_driver_has_threads_for_all_cores(job: Job) -> None:
    threaded = replace(job, settings=replace(job.settings, threads=2))
    assert chosen(threaded, offset(10**9, 10**12), holding(10**9)) == EXPRESS
    unknown = replace(offset(), size=None)
    assert chosen(threaded, unknown, holding(0)) == EXCHANGE, "nobody knows how much there is to read"


def test_a_train_is_shorter_where_one_process_has_all_of_its_tuples(tmp_path: Path) -> None:
    def room(box: str, **settings: Any) -> int:
        net = pk.Network("train")
        packets = net.source("in", pk.memory([(1, "x")], schema={"ts": "int64", "k": "string"}))
        outputs = {"counts": {"n": "count(*)"}, "medians": {"m": "median(ts)"}}
        stream = packets if box == "none" else packets.dedupe() if box == "dedupe" else None
        (stream or packets.aggregate(outputs[box], size=10, by="k")).output("out")
        job = job_of(net, tmp_path / f"{box}{len(settings)}")
        return replace(job, settings=replace(job.settings, **settings)).train_bytes

    assert room("counts") == room("dedupe") == room("none", threads=2) == TRAIN_BYTES
    assert room("counts", threads=2) == REDUCED_BYTES
    assert room("medians", threads=2) == CARRIED_BYTES
    assert room("dedupe", threads=2) == REMEMBERED_BYTES
    assert room("dedupe", threads=2, train_bytes=7) == 7


def test_a_network_that_calls_functions_has_one_thread(tmp_path: Path) -> None:
    job = job_of(function(), tmp_path)
    assert replace(job, settings=replace(job.settings, threads=2)).threads == 1


def test_the_interpreter_does_not_get_more_threads_than_it_can_serve(job: Job) -> None:
    assert replace(job, settings=replace(job.settings, threads=64)).threads == MOST_THREADS


@pytest.mark.parametrize(("rows", "way"), [(FEW_ROWS, EXPRESS), (FEW_ROWS + 1, EXCHANGE)])
def test_nothing_else_has_a_say_in_it(rows: int, way: str, job: Job) -> None:
    """Neither the clock, nor how much was read before, nor what the boxes have done so far."""
    others = [
        offset(rows, now=10**18),
        offset(rows, beats={"in": {"0": 5}}, gone=True, requests=9),
        replace(offset(rows), inputs={"in": InputAt({"at": 10**12}, ended=True)}, tasks=64),
    ]
    before = Record(batch=10**6, now=10**18, boxes={"groups": BoxWork(10**12, 10**12, 1e9, 10**12, 0, 10**9)})
    assert {chosen(job, each, record) for each in others for record in (before, Record())} == {way}


def test_a_batch_done_again_goes_by_its_offset_and_so_the_same_way(job: Job) -> None:
    for planned in (offset(FEW_ROWS), offset(FEW_ROWS + 1), replace(offset(), size=None)):
        again = intake_offset(offset_text(planned))
        assert chosen(job, again, holding(5)) == chosen(job, planned, holding(5))


def test_a_batch_of_which_nobody_knows_the_size_goes_by_exchange(job: Job) -> None:
    assert chosen(job, replace(offset(), size=None), Record()) == EXCHANGE


@dataclass(frozen=True)
class PlannedElsewhere(Memory):
    """As a Spark DataFrame is: not the planner says what a batch takes."""

    @property
    def planned_elsewhere(self) -> bool:
        return True


def test_a_network_with_a_dataframe_goes_by_exchange(tmp_path: Path) -> None:
    job = job_of(counts(PlannedElsewhere((), pk.memory([], schema=SCHEMA).schema())), tmp_path)
    assert chosen(job, offset(), Record()) == EXCHANGE
    assert chosen(job, offset(), Record(), EXPRESS) == EXPRESS, "unless somebody says otherwise"


@pytest.mark.parametrize("way", [EXPRESS, EXCHANGE])
@pytest.mark.parametrize("rows", [0, 10 * FEW_ROWS])
def test_a_setting_decides_for_all_batches(way: str, rows: int, job: Job) -> None:
    assert chosen(job, offset(rows), holding(10 * rows), way) == way


# --- without stages, and the express way itself ----------------------------------------------------------------------


def test_a_plan_without_stages_needs_no_exchange_and_gives_the_same(tmp_path: Path) -> None:
    def network() -> pk.Network:
        net = pk.Network("plain")
        net.source("in", pk.memory(ROWS, schema=SCHEMA, train=10)).where("k = 'x'").output("some")
        return net

    job = job_of(network(), tmp_path)
    assert job.plan.stages == 0
    assert {chosen(job, offset(10 * FEW_ROWS), Record(), way) for way in WAYS} == {EXPRESS}
    results = [network().run("local", way=way)["some"].to_pylist() for way in WAYS]
    assert results == [[{"ts": at, "k": "x"} for at in range(0, 30, 3)]] * 3


def test_the_express_way_runs_all_stages_and_leaves_rows_for_the_outlet_alone(tmp_path: Path) -> None:
    job = job_of(counts(), tmp_path, buckets=3)
    planner = Planner(job)
    start = planner.initial()
    end = planner.latest(start)
    rows = [row for assignment in planner.assignments(start, end) for row in read_assignment(job, assignment, 0)]
    assert {row.stage for row in rows} >= {1, OUTLET}
    left = run_stages(job, 0, rows)
    assert {row.stage for row in left} == {OUTLET}
    done = sorted(row.header["from"] for row in left if row.header["from"].startswith("stage"))
    assert done == [f"stage {stage} bucket {bucket:04d}" for stage in (1, 2) for bucket in range(3)]


def test_threads_leave_the_same_files_of_state_and_the_same_results(tmp_path: Path) -> None:
    """What a batch leaves does not depend on who is done first; only the clock readings of batches differ."""

    def left(threads: int) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
        job = job_of(counts(), tmp_path / str(threads), buckets=4, tasks=4)
        job = replace(job, settings=replace(job.settings, threads=threads))
        planner, start, reports = Planner(job), Planner(job).initial(), []
        for batch in range(3):
            end = replace(planner.latest(start), now=1_000 + batch)
            rows = run_stages(job, batch, read_shares(job, batch, planner.assignments(start, end)))
            reports += [{k: v for k, v in row.header.items() if k != "content"} for row in rows]
            start = end
        folder = tmp_path / str(threads) / "state"
        return reports, {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*.state"))}

    assert left(1) == left(4)


def test_batches_go_the_way_that_is_chosen_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of 10 tuples is small until boxes that hold anything are too much."""
    seen: list[str] = []

    def run_stages_seen(*arguments: Any) -> Any:
        seen.append(EXPRESS)
        return run_stages(*arguments)

    monkeypatch.setattr(local, "run_stages", run_stages_seen)
    assert counts().run("local").record().batch == 2
    assert seen == [EXPRESS] * 3
    monkeypatch.setattr("penstock.runtime.ways.EXPRESS_HELD", 0)
    seen.clear()
    counts().run("local")
    assert seen == [EXPRESS], "only the first batch finds empty boxes"


# --- who may choose --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choose", [Settings, counts().start, lambda way: counts().run("local", way=way)])
def test_an_unknown_way_is_refused(choose: Callable[..., Any]) -> None:
    with pytest.raises(pk.QueryError) as refused:
        choose(way="fast")
    assert str(refused.value) == REFUSED


def test_an_unknown_way_is_refused_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "start_spark", lambda master: pytest.fail("Spark is not needed to refuse it"))
    application = tmp_path / "app.py"
    application.write_text(
        "import penstock as pk\n"
        "net = pk.Network('net')\n"
        "net.source('in', pk.memory([(1,)], schema={'ts': 'int64'})).output('out')\n"
    )
    shown = CliRunner().invoke(main.app, ["run", str(application), "--way", "fast"])
    assert shown.exit_code == 2
    assert REFUSED in shown.output


# --- errors ----------------------------------------------------------------------------------------------------------


def cast() -> pk.Network:
    """A text that is no number comes out of the first stage."""
    net = pk.Network("errors")
    groups = net.source("in", pk.memory(ROWS, schema=SCHEMA)).aggregate({"t": "max(k)"}, on="ts", size=5, name="groups")
    numbers = groups.map(ts="ts", number="CAST(t AS BIGINT)", name="numbers")
    numbers.aggregate({"n": "sum(number)"}, on="ts", size=10, name="all").output("out")
    return net


def large() -> pk.Network:
    """A value that no kernel has room for is made behind the first stage."""
    net = pk.Network("errors")
    groups = net.source("in", pk.memory(ROWS, schema=SCHEMA)).aggregate({"t": "max(k)"}, on="ts", size=5, name="groups")
    groups.map(ts="ts", long="repeat(t, 2000000000)", name="blow").output("out")
    return net


def failing(window: Any) -> int:
    raise ValueError(f"the window at {window.start} is not for me")


def function() -> pk.Network:
    """A function of the user's fails on the first window that closes."""
    net = pk.Network("errors")
    total = pk.window_function(final=failing, returns="int64", columns="k")
    source = net.source("in", pk.memory(ROWS, schema=SCHEMA))
    source.aggregate({"n": total}, on="ts", size=5, name="totals").output("out")
    return net


ERRORS = {
    cast: (pk.QueryError, "network 'errors', box 'numbers': "),
    large: (pk.WorldError, "network 'errors', box 'blow': a query over one train needs more memory than it may take"),
    function: (pk.WorldError, "the window at 0 is not for me"),
}


def told(network: Callable[[], pk.Network], engine: str, way: str) -> str:
    kind, text = ERRORS[network]
    with pytest.raises(kind) as failure:
        network().run(engine, way=way, buckets=2, tasks=2)
    assert type(failure.value) is kind
    assert text in str(failure.value)
    return str(failure.value)


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_KERNEL_MEMORY", "64MB")
    monkeypatch.setattr(kernel, "_kernels", {})


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("network", ERRORS)
def test_an_error_in_a_stage_is_the_same_by_both_ways(network: Callable[[], pk.Network]) -> None:
    assert told(network, "local", EXPRESS) == told(network, "local", EXCHANGE)


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready", "little_memory")
@pytest.mark.parametrize("network", ERRORS)
def test_an_error_in_a_stage_on_spark_is_the_same_by_both_ways_and_as_in_one_process(
    network: Callable[[], pk.Network],
) -> None:
    express = told(network, "spark", EXPRESS)
    assert express == told(network, "spark", EXCHANGE)
    assert express == told(network, "local", EXPRESS)
