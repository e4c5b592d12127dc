"""Connection points: what passes along an arc is kept once, and read back it is the same stream."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.connectors.points.point_target import ConnectionPoint
from penstock.connectors.points.retention import Horizon
from penstock.connectors.points.stored_files import OWN_COLUMNS, stored_files
from penstock.plan.compile import compile_network
from penstock.runtime.local import LocalExecutor
from penstock.runtime.opening import open_job
from penstock.runtime.settings import PROCESS, Settings
from penstock.storage.folder import Folder

SCHEMA = {"ts": "int64", "k": "string"}
ROWS = [(t ^ 5, "abc"[t % 3]) for t in range(60)]
DELAY = 8


def passing(net: pk.Network, rows: list[tuple[int, str]] = ROWS, train: int = 7) -> pk.Stream:
    return net.source("s", pk.memory(rows, schema=SCHEMA, train=train), progress=pk.delayed(DELAY))


def run(net: pk.Network, **settings: Any) -> pk.Result:
    return net.run(engine="local", **{"buckets": 2, "tasks": 2, **settings})


def behind(stream: pk.Stream) -> None:
    """Boxes that are defined on arrival order, and one that is not."""
    stream.output("all")
    stream.bsort(on="ts", slack=2, name="sorted").output("sorted")
    stream.dedupe(by=["k"], on="ts").output("first")
    stream.aggregate({"n": "count(*)", "least": "min(ts)"}, on=pk.TUPLE_NUMBER, size=4, by="k").output("fours")
    stream.aggregate(
        {"n": "count(*)"}, on="ts", size=8, by="k", assuming=pk.order("ts", slack=1, by="k"), name="ordered"
    ).output("windows")


def told(result: pk.Result) -> dict[str, Any]:
    """All that has come out, and what was late; in order, where that does not depend on how batches are cut."""
    found: dict[str, Any] = {name: result[name].to_pylist() for name in ("all", "sorted")}
    found |= {name: in_some_order(result[name]) for name in ("first", "fours", "windows")}
    return {**found, "late": in_some_order(result.late("ordered"))}


def in_some_order(tuples: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in tuples.to_pylist())


def table_of(place: Path | str) -> pa.Table:
    return deltalake.DeltaTable(str(place)).to_pyarrow_table()


def test_what_passes_is_kept_once_with_its_order_of_arrival_and_goes_on(tmp_path: Path) -> None:
    net = pk.Network("n")
    passing(net).connection_point("raw").output("all")
    result = run(net, checkpoint=str(tmp_path / "cp"))
    kept = table_of(tmp_path / "cp" / "points" / "raw").sort_by([("_batch", "ascending"), ("_arrival", "ascending")])
    assert kept.column_names == ["ts", "k", *OWN_COLUMNS]
    assert [tuple(row.values()) for row in kept.select(["ts", "k"]).to_pylist()] == ROWS
    assert kept["_batch"].to_pylist() == [at // 7 for at in range(len(ROWS))]
    arrived = [element.arrived for element in result.elements("all") if hasattr(element, "arrived")]
    assert kept["_arrived"].to_pylist() == [int(moment.timestamp() * 1e6) for moment in arrived]


@pytest.mark.parametrize("buckets", [1, 2, 3, 4])
@pytest.mark.parametrize("train_rows", [None, 5])
def test_boxes_give_behind_the_point_what_they_give_when_it_is_read_back(
    buckets: int, train_rows: int | None, tmp_path: Path
) -> None:
    net = pk.Network("n")
    behind(passing(net).connection_point("raw", path=str(tmp_path / "raw")))
    first = run(net, buckets=buckets)
    again = pk.Network("again")
    behind(again.source("s", pk.connection_point(str(tmp_path / "raw"))))
    second = run(again, buckets=buckets, train_rows=train_rows)
    assert told(second) == told(first)
    assert first.late("ordered").num_rows > 0
    assert second.record().inputs["s"].late == 0


@pytest.mark.parametrize("buckets", [1, 4])
def test_behind_a_stage_as_well_though_buckets_write_files_of_their_own(buckets: int, tmp_path: Path) -> None:
    def counts(net: pk.Network) -> pk.Stream:
        return passing(net).aggregate({"n": "count(*)"}, size=3, by="k")

    def tail(stream: pk.Stream) -> None:
        stream.dedupe(by=["n"], on="ts").output("first")
        stream.aggregate({"n": "sum(n)", "k": "max(k)"}, on=pk.TUPLE_NUMBER, size=3).output("threes")

    net = pk.Network("n")
    tail(counts(net).connection_point("counts", path=str(tmp_path / "counts")))
    first = run(net, buckets=buckets)
    files = stored_files(deltalake.DeltaTable(str(tmp_path / "counts")))
    assert buckets == 1 or len(files) > len({file.first for file in files})
    again = pk.Network("again")
    tail(again.source("s", pk.connection_point(str(tmp_path / "counts"))))
    second = run(again, train_rows=4)
    for name in ("first", "threes"):
        assert in_some_order(second[name]) == in_some_order(first[name]) != []


def test_qos_timestamps_are_those_of_the_first_arrival(tmp_path: Path) -> None:
    net = pk.Network("n")
    clocks = [pk.clock("2020-01-01 00:00:00"), (1, "a"), pk.clock("2020-01-01 00:01:00"), (2, "a")]
    source = net.source("s", pk.memory(clocks, schema=SCHEMA, train=2))
    source.connection_point("raw", path=str(tmp_path / "raw")).output("all")
    counted = {"n": "count(*)"}
    source.aggregate(counted, size=10).output("counts")
    first = run(net)
    again = pk.Network("again")
    stream = again.source("s", pk.connection_point(str(tmp_path / "raw")))
    # Beside an input whose tuples arrive now.
    other = again.source("t", pk.memory([(3, "b")], schema=SCHEMA))
    stream.output("all")
    stream.aggregate(counted, size=10).output("counts")
    pk.union(stream, other).aggregate(counted, size=10).output("both")
    second = run(again)
    for name in ("all", "counts"):
        stamps = [[e.arrived for e in result.elements(name) if hasattr(e, "arrived")] for result in (first, second)]
        assert stamps[0] == stamps[1] != []
    assert second["both"].to_pylist() == [{"ts": 0, "n": 3}]


def test_punctuation_of_all_attributes_is_kept(tmp_path: Path) -> None:
    net = pk.Network("n")
    schema = {"ts": "int64", "te": "int64"}
    rows = [(t, t + 3) for t in range(20)]
    both = net.source("s", pk.memory(rows, schema=schema, train=4), progress={"ts": pk.ordered(), "te": pk.ordered()})
    both.connection_point("raw", path=str(tmp_path / "raw"))
    run(net)
    again = pk.Network("again")
    read = again.source("s", pk.connection_point(str(tmp_path / "raw")))
    assert set(read.progressing) == {"ts", "te"}
    read.aggregate({"n": "count(*)"}, on="te", size=5).output("counts")
    assert run(again, train_rows=4)["counts"]["n"].to_pylist() == [2, 5, 5, 5, 3]


def test_between_stored_batches_the_input_states_at_least_what_the_stream_had(tmp_path: Path) -> None:
    net = pk.Network("n")
    passing(net).connection_point("raw", path=str(tmp_path / "raw")).output("all")
    marks: list[int] = []
    net.run(engine="local", on_batch=lambda record: marks.append(record.marks["s"].of("ts")))
    again = pk.Network("again")
    again.source("s", pk.connection_point(str(tmp_path / "raw"))).output("all")
    read: list[int] = []
    again.run(engine="local", train_rows=7, on_batch=lambda record: read.append(record.marks["s"].of("ts")))
    assert len(read) == len(marks)
    assert all(stated >= known for stated, known in zip(read, marks, strict=True))


def test_merged_files_hold_the_same_stream_and_followers_see_nothing_new(tmp_path: Path) -> None:
    place = str(tmp_path / "raw")
    net = pk.Network("n")
    behind(passing(net).connection_point("raw", path=place, key="k"))
    first = run(net, checkpoint=str(tmp_path / "cp"))
    before, version = table_of(place), deltalake.DeltaTable(place).version()
    tend(net, tmp_path, Horizon())
    table = deltalake.DeltaTable(place)
    (file,) = stored_files(table, ["ts"])
    assert (file.first, file.last, file.rows) == (0, 8, len(ROWS))
    order = [("_batch", "ascending"), ("_arrival", "ascending")]
    assert table_of(place).sort_by(order).equals(before.sort_by(order))
    assert pq.read_table(table.file_uris()[0])["k"].to_pylist() == sorted(k for _, k in ROWS)
    again = pk.Network("again")
    behind(again.source("s", pk.connection_point(place)))
    assert told(run(again, train_rows=5)) == told(first)
    # Who reads on from before finds the files that were merged, and nothing in the version that merged them.
    late = pk.Network("late")
    behind(late.source("s", pk.connection_point(place, since=1)))
    assert told(run(late)) == told(first)
    assert table.version() == version + 1


def test_what_is_no_longer_kept_leaves_and_does_not_end_followers(tmp_path: Path) -> None:
    place = str(tmp_path / "raw")
    net = pk.Network("n")
    passing(net).connection_point("raw", path=place, keep=pk.keep(time=20))
    run(net, checkpoint=str(tmp_path / "cp"))
    tend(net, tmp_path, Horizon("ts", least=35))
    # A file is a batch of seven: those whose largest is below 35 have left.
    batches = [[ts for ts, _ in ROWS[at : at + 7]] for at in range(0, len(ROWS), 7)]
    kept = [ts for batch in batches if max(batch) >= 35 for ts in batch]
    assert sorted(table_of(place)["ts"].to_pylist()) == sorted(kept)
    for connector in (pk.connection_point(place, since=1), pk.delta(place, since=1)):
        follower = pk.Network("follower")
        follower.source("s", connector).output("all")
        assert run(follower)["all"]["ts"].to_pylist() == [ts for ts, _ in ROWS]
    fresh = pk.Network("fresh")
    fresh.source("s", pk.connection_point(place)).output("all")
    assert run(fresh)["all"]["ts"].to_pylist() == kept


def test_upkeep_goes_on_beside_the_run(tmp_path: Path) -> None:
    place = str(tmp_path / "raw")
    net = pk.Network("n")
    rows = [(t, "abc"[t % 3]) for t in range(600)]
    passing(net, rows, train=4).connection_point("raw", path=place, keep=pk.keep(time=100), key="k").output("all")
    result = run(net)
    assert result["all"].num_rows == 600
    table = deltalake.DeltaTable(place)
    kept = sorted(table.to_pyarrow_table()["ts"].to_pylist())
    # All that must be there is, and most of the rest has left: the last look was at most two times 32 batches ago.
    assert kept == list(range(kept[0], 600))
    assert 100 < kept[0] <= 495
    assert len(table.file_uris()) < 100


def test_who_looks_after_a_point_notices_that_somebody_else_has_taken_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "raw")
    net = pk.Network("n")
    passing(net).connection_point("raw", path=place, key="k")
    run(net, checkpoint=str(tmp_path / "cp"))
    merge, others = ConnectionPoint._merged, [1, 2]

    def late(*given: Any) -> Any:
        merged = merge(*given)
        if others:
            others.pop()
            tend(net, tmp_path, Horizon())  # somebody else is quicker
        return merged

    monkeypatch.setattr(ConnectionPoint, "_merged", late)
    tend(net, tmp_path, Horizon())
    assert sorted(table_of(place)["ts"].to_pylist()) == sorted(ts for ts, _ in ROWS)
    assert len(deltalake.DeltaTable(place).file_uris()) == 1


def test_a_merge_that_is_cut_short_leaves_nothing_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "raw"
    net = pk.Network("n")
    passing(net).connection_point("raw", path=str(place))
    run(net, checkpoint=str(tmp_path / "cp"))

    def killed(*_: Any) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ConnectionPoint, "_replace", killed)
        with pytest.raises(KeyboardInterrupt):
            tend(net, tmp_path, Horizon(), batch=50)
    (left,) = place.glob("part-00000050-*")
    assert table_of(place).num_rows == len(ROWS)
    tend(net, tmp_path, Horizon())
    assert left.exists()  # it might be of a batch that is not committed yet
    os.utime(left, (0, 0))
    tend(net, tmp_path, Horizon())
    assert not left.exists()
    assert table_of(place).num_rows == len(ROWS)


def test_a_restart_goes_on_with_the_same_table(tmp_path: Path) -> None:
    place, checkpoint = str(tmp_path / "raw"), str(tmp_path / "cp")
    for end in (30, 60):
        net = pk.Network("n")
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{end}.csv").write_text("ts\n" + "\n".join(map(str, range(end - 30, end))) + "\n")
        source = net.source("s", pk.files(str(tmp_path / "in" / "*.csv"), schema={"ts": "int64"}))
        source.connection_point("raw", path=place)
        run(net, checkpoint=checkpoint)
    assert sorted(table_of(place)["ts"].to_pylist())[:30] == list(range(30))


def test_a_point_that_is_added_takes_no_state_from_the_box_before_it(tmp_path: Path) -> None:
    def lives(end: int, *, point: bool) -> pk.Result:
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{end}.csv").write_text("ts\n" + "\n".join(map(str, range(end - 30, end))) + "\n")
        net = pk.Network("n")
        source = net.source("s", pk.files(str(tmp_path / "in"), format="csv", schema={"ts": "int64"}, follow=True))
        counts = source.aggregate({"n": "count(*)"}, size=20)
        counts.output("counts")
        if point:
            counts.connection_point("raw", path=str(tmp_path / "raw"))
        plan = compile_network(net.network)
        settings = Settings(buckets=2, tasks=1, durability=PROCESS)
        executor = LocalExecutor(job := open_job(plan, settings, Folder(str(tmp_path / "cp")), cores=2))
        while executor.step() is not None:
            pass
        executor.close()
        return pk.Result(job)

    assert lives(30, point=False)["counts"].to_pylist() == [{"ts": 0, "n": 20}]
    assert lives(60, point=True)["counts"].to_pylist()[1:] == [{"ts": 20, "n": 20}]
    assert table_of(tmp_path / "raw").select(["ts", "n"]).to_pylist() == [{"ts": 20, "n": 20}]


def test_another_run_may_not_write_to_the_same_point(tmp_path: Path) -> None:
    for expected in (None, "already holds tuples"):
        net = pk.Network("n")
        passing(net).connection_point("raw", path=str(tmp_path / "raw"))
        if expected is None:
            run(net)
        else:
            with pytest.raises(pk.QueryError, match=expected):
                run(net)


def test_a_result_tells_what_its_points_hold(tmp_path: Path) -> None:
    net = pk.Network("n")
    clocks = [pk.clock("2020-01-01 00:00:00"), *[(t, "a") for t in range(9)]]
    source = net.source("s", pk.memory(clocks, schema=SCHEMA, train=5))
    source.connection_point("raw", keep=pk.keep(time=100, bytes="1 GB"), key="k").output("all")
    (point,) = run(net, checkpoint=str(tmp_path / "cp")).points()
    assert (point.name, point.place) == ("raw", str(tmp_path / "cp" / "points" / "raw"))
    assert (point.rows, point.files, point.key) == (9, 2, ("k",))
    assert point.keep == "100 and at most 1,000,000,000 bytes"
    assert str(point.since) == "2020-01-01 00:00:00+00:00"


def test_explain_says_that_it_is_a_connection_point() -> None:
    net = pk.Network("n")
    passing(net).connection_point("raw", keep=1000, key=["k"])
    assert "output raw <- s: connection point in the checkpoint, keeps 1,000 rows, by k" in net.explain()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"key": "x"}, "x"),
        ({"keep": "2 hours"}, r"'2 hours' is no length on 'ts'(.|\n)*keep=pk.keep\(time=7200\)"),
        ({"keep": -1}, "must be positive"),
        ({"keep": 1.5}, "says nothing of how much is kept"),
        ({"grace": "0 seconds"}, "grace must be positive"),
        ({"keep": "5 apples"}, "'5 apples' is no length on 'ts'"),
    ],
)
def test_what_cannot_be_kept_is_refused_when_the_network_is_built(options: dict[str, Any], said: str) -> None:
    with pytest.raises(pk.QueryError, match=said):
        passing(pk.Network("n")).connection_point("raw", **options)


def test_a_stream_with_a_column_of_the_points_names_is_refused() -> None:
    net = pk.Network("n")
    stream = passing(net).map(ts="ts", _batch="1")
    with pytest.raises(pk.QueryError, match="'_batch', which is a name that a connection point needs"):
        stream.connection_point("raw")


def test_a_time_is_no_bound_for_a_stream_without_progress() -> None:
    net = pk.Network("n")
    with pytest.raises(pk.QueryError, match="makes no progress on any attribute"):
        passing(net).late().connection_point("late", keep="2 hours")


def test_another_delta_table_is_no_connection_point(tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"ts": [1]}))
    with pytest.raises(pk.WorldError, match="is no connection point"):
        pk.Network("n").source("s", pk.connection_point(str(tmp_path / "t")))


def test_the_log_says_of_removals_that_they_are_retention(tmp_path: Path) -> None:
    net = pk.Network("n")
    passing(net).connection_point("raw", path=str(tmp_path / "raw"))
    run(net, checkpoint=str(tmp_path / "cp"))
    tend(net, tmp_path, Horizon(rows=10))
    last = sorted((tmp_path / "raw" / "_delta_log").glob("*.json"))[-1]
    actions = [json.loads(line) for line in last.read_text().splitlines()]
    assert all(action["remove"]["dataChange"] for action in actions if "remove" in action)
    assert next(a["commitInfo"] for a in actions if "commitInfo" in a)["penstock.retention"] == "true"
    assert table_of(tmp_path / "raw").num_rows == 11  # four of the last batch, and seven


def tend(net: pk.Network, folder: Path, horizon: Horizon, batch: int = 99) -> None:
    """Do what a run does beside itself, now."""
    target: Any = next(output.target for output in net.network.outputs if output.name == "raw")
    target.tend(batch, Folder(str(folder / "cp" / "outlet" / "raw")), horizon)
