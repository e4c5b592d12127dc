"""The intake: how a batch is planned and shared out, and what a task makes of its share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runtime.jobs import job_of

import penstock as pk
from penstock.algebra.schema import parse_type
from penstock.algebra.ticks import END
from penstock.connectors.connector import Split
from penstock.runtime.intake import read_assignment
from penstock.runtime.local import LocalExecutor
from penstock.runtime.offsets import InputAt, intake_offset, offset_text
from penstock.runtime.planner import Planner, _share_out
from penstock.runtime.result import Result
from penstock.runtime.train import OUTLET


def shares(sizes: list[int], tasks: int) -> list[list[int]]:
    splits = [("in", Split("0", seq, rows)) for seq, rows in enumerate(sizes)]
    return [[split.rows for _, split in share] for share in _share_out(splits, tasks)]


@pytest.mark.parametrize(
    ("sizes", "tasks", "expected"),
    [
        ([], 4, [[]]),  # one task all the same: it reports what has ended
        ([5], 4, [[5]]),
        ([10, 10, 10, 10], 2, [[10, 10], [10, 10]]),
        ([10, 10, 10, 10], 4, [[10], [10], [10], [10]]),
        ([10, 10, 10], 1, [[10, 10, 10]]),
        ([100, 1, 1, 1], 2, [[100], [1, 1, 1]]),
        ([1, 1, 1, 100], 2, [[1, 1, 1, 100]]),  # contiguous: order of arrival is not given up for balance
        ([0, 0, 0, 0], 2, [[0, 0], [0, 0]]),  # nobody knows how large they are
    ],
)
def test_splits_are_shared_out_evenly_and_in_order(sizes: list[int], tasks: int, expected: list[list[int]]) -> None:
    assert shares(sizes, tasks) == expected


def network(elements: list[Any], **options: Any) -> pk.Network:
    net = pk.Network("net")
    connector = pk.memory(elements, schema={"ts": "int64", "k": "string"}, train=2, shard_by="k")
    source = net.source("in", connector, **options)
    source.aggregate({"n": "count(*)"}, size=10, by="k").output("counts")
    return net


ELEMENTS = [(1, "a"), (20, "b"), (5, "a"), (3, "b"), (None, "a"), (9, "a")]


def test_an_offset_says_everything_that_the_answer_depends_on(tmp_path: Path) -> None:
    job = job_of(network(ELEMENTS), tmp_path)
    planner = Planner(job)
    start = planner.initial()
    end = planner.latest(start)
    assert intake_offset(offset_text(end)) == end
    assert end.inputs == {"in": InputAt({"at": 2}, ended=False)}
    assert planner.assignments(start, start) == []
    first = planner.assignments(start, end)
    again = Planner(job).assignments(*(intake_offset(offset_text(offset)) for offset in (start, end)))
    assert again == first


def test_a_batch_that_is_read_again_gives_the_same_rows(tmp_path: Path) -> None:
    job = job_of(network(ELEMENTS), tmp_path)
    planner = Planner(job)
    start = planner.initial()
    end = planner.latest(start)

    def rows() -> list[Any]:
        found = [r for a in planner.assignments(start, end) for r in read_assignment(job, a, 0)]
        # What a box cost differs from run to run, and is no part of the answer.
        return [(r.bucket, r.header["stage"], r.tuples() if r.body else None) for r in found if r.stage != OUTLET]

    assert rows() == rows()


def test_lateness_is_judged_on_what_was_issued_before_the_batch(tmp_path: Path) -> None:
    executor = LocalExecutor(job_of(network(ELEMENTS), tmp_path))
    records = []
    while (record := executor.step()) is not None:
        records.append(record)
    executor.close()
    # Batch 1: shard a stands at 1 and b at 20. Batch 2: (3, "b") is late, (5, "a") is not. Batch 3: one has no time.
    counts = [(r.inputs["in"].read, r.inputs["in"].taken, r.inputs["in"].late, r.inputs["in"].refused) for r in records]
    assert counts == [(2, 2, 0, 0), (4, 3, 1, 0), (6, 4, 1, 1)]
    assert [r.marks["in"].of("ts") for r in records] == [1, 5, END]
    assert [r.ended for r in records] == [False, False, True]


@pytest.mark.parametrize("advance", [10, 5])
def test_a_shard_that_appears_later_starts_where_its_input_stands(tmp_path: Path, data: Path, advance: int) -> None:
    """Lane a has closed the windows below 50 when lane b appears: what b has below 50 is late, as those have left."""

    def write(lane: str, name: str, *times: int) -> None:
        (data / lane).mkdir(exist_ok=True)
        pq.write_table(pa.table({"ts": pa.array(times, pa.int64())}), data / lane / name)

    net = pk.Network("net")
    files = pk.files(str(data), format="parquet", follow=True, lanes="folder")
    source = net.source("in", files, schema={"ts": "int64"})
    source.aggregate({"n": "count(*)"}, size=10, advance=advance).output("counts")
    job = job_of(net, tmp_path / "checkpoint")
    executor = LocalExecutor(job)
    marks = []
    for lane, name, times in (("a", "1", (1, 2, 50)), ("b", "1", (5,)), ("b", "2", (55, 70)), ("a", "2", (90,))):
        write(lane, f"{name}.parquet", *times)
        record = executor.step()
        assert record is not None
        marks.append(record.marks["in"].of("ts"))
    executor.close()
    assert marks == [50, 50, 50, 70]
    result = Result(job)
    assert result.late("in").to_pylist() == [{"ts": 5}]
    starts = result["counts"]["ts"].to_pylist()
    assert len(starts) == len(set(starts)), "a window left twice"
    assert record.boxes["aggregate1"].tuples_in == 6


def test_with_nothing_new_the_offset_stays(tmp_path: Path) -> None:
    planner = Planner(job_of(network([(1, "a")]), tmp_path))
    end = planner.latest(planner.initial())
    assert end.inputs["in"].ended
    assert planner.latest(end) == end


def test_a_late_tuple_can_stop_the_run(tmp_path: Path) -> None:
    with pytest.raises(pk.WorldError) as stopped:
        network(ELEMENTS, late="error").run("local", checkpoint=str(tmp_path))
    assert str(stopped.value) == (
        "network 'net', box 'in': 1 late tuple, and the input was declared with late='error'\n"
        "  expected: ts >= 20 (ordered)\n"
        "  found: ts = 3\n"
        "  to do: declare a weaker progress policy, or late='route' to have late tuples set aside"
    )


def test_records_that_are_punctuation_are_no_tuples() -> None:
    net = pk.Network("net")
    elements = [(1, "x"), (10, "mark"), (12, "x"), (11, "x"), (3, "x"), (None, "mark")]
    source = net.source(
        "in",
        pk.memory(elements, schema={"ts": "int64", "k": "string"}, train=2),
        progress=pk.punctuated(where="k = 'mark'"),
    )
    source.aggregate({"n": "count(*)"}, size=10).output("counts")
    result = net.run("local")
    count = result.record().inputs["in"]
    assert (count.read, count.taken, count.late, count.refused, count.punctuation) == (6, 3, 1, 1, 1)
    assert result.late("in").to_pylist() == [{"ts": 3, "k": "x"}]
    assert result["counts"].to_pylist() == [{"ts": 0, "n": 1}, {"ts": 10, "n": 2}]


def test_punctuation_may_lack_the_other_attributes_and_is_counted_once() -> None:
    net = pk.Network("net")
    elements = [(1, 1, "x"), (10, None, "mark"), (None, 2, "mark"), (3, None, "x"), (12, 3, "x")]
    source = net.source(
        "in",
        pk.memory(elements, schema={"ts": "int64", "id": "int64", "k": "string"}, train=2),
        progress={"ts": pk.punctuated(where="k = 'mark'"), "id": pk.ordered()},
    )
    source.aggregate({"n": "count(*)"}, on="ts", size=10).output("counts")
    result = net.run("local")
    count = result.record().inputs["in"]
    assert (count.read, count.taken, count.late, count.refused, count.punctuation) == (5, 2, 0, 2, 1)
    assert [r.split(" is ")[0] for r in result.errors("in")["reason"].to_pylist()] == ["ts", "id"]
    stepper = net.stepper()
    stepper.run(inputs=True)
    assert stepper.output("counts").equals(result["counts"])


@pytest.mark.parametrize(
    ("kind", "far"),
    [("int64", [2**63 - 1, -(2**63)]), ("uint64", [2**63, 2**64 - 1]), ("timestamp[ns]", [8_100_000_000 * 10**9])],
)
@pytest.mark.parametrize("architecture", ["out-of-order", "in-order"])
def test_a_time_that_is_out_of_range_is_refused_and_harms_nobody(kind: str, far: list[int], architecture: str) -> None:
    net = pk.Network("net")
    values = pa.array([3, *far, 4, 25], pa.uint64() if kind == "uint64" else pa.int64())
    table = pa.table({"ts": values.cast(parse_type(kind))})
    size = "10 ns" if kind == "timestamp[ns]" else 10
    source = net.source("in", pk.memory(table, train=2), progress=pk.delayed(size))
    source.aggregate({"n": "count(*)"}, size=size).output("counts")
    result = net.run("local", architecture=architecture)
    assert result["counts"]["n"].to_pylist() == [2, 1]
    assert result["counts"]["ts"].cast(pa.int64()).to_pylist() == [0, 20]
    assert result.record().inputs["in"].refused == len(far) == result.errors("in").num_rows
    assert all(reason.startswith("ts is out of range") for reason in result.errors("in")["reason"].to_pylist())
    stepper = net.stepper()
    stepper.run(inputs=True)
    assert stepper.output("counts").equals(result["counts"])


@pytest.mark.parametrize("policy", [pk.delayed(5), pk.delayed(5, by="k")])
@pytest.mark.parametrize("architecture", ["out-of-order", "in-order"])
@pytest.mark.parametrize(
    "kind", [pa.string_view(), pa.binary_view(), pa.dictionary(pa.int8(), pa.string()), pa.decimal32(5, 2)]
)
def test_keys_may_come_in_any_layout_of_arrow(kind: pa.DataType, architecture: str, policy: Any) -> None:
    keys = pa.array(["1.00", "2.00", None, "1.00"])
    keys = keys.cast(pa.binary()).cast(kind) if kind == pa.binary_view() else pa.array(keys.to_pylist()).cast(kind)
    table = pa.table({"ts": [1, 2, 3, 14], "k": keys})
    net = pk.Network("net")
    source = net.source("in", pk.memory(table, train=2), progress=policy)
    source.aggregate({"n": "count(*)"}, size=10, advance=5, by="k").output("counts")
    counts = net.run("local", architecture=architecture, buckets=2)["counts"]
    assert sorted(counts["n"].to_pylist()) == [1] * 8
    assert len(counts["k"].unique()) == 3
