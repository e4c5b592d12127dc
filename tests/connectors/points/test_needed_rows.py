"""History that is filtered by the storage key or by time: little is read, and the answers are those of a full read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.connectors.connector import NeededRows
from penstock.connectors.points import point_target
from penstock.connectors.points.retention import Horizon
from penstock.plan import compile as compiling
from penstock.plan.compile import compile_network
from penstock.plan.prune_rows import prune_rows
from penstock.runtime.board import Record
from penstock.storage.folder import Folder

N = {"n": "count(*)", "least": "min(v)"}
ROWS = 1_000


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point_target, "GROUP_ROWS", 10)
    monkeypatch.setattr(point_target, "GROUP_ROWS_BY_TIME", 10)


@pytest.fixture(params=[False, True], ids=["as written", "merged"])
def point(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What has passed: 1,000 tuples of 100 keys in ten batches, a little out of order."""
    place = str(tmp_path / "point")
    table = pa.table(
        {"ts": [t ^ 5 for t in range(ROWS)], "k": [t * 7 % 100 for t in range(ROWS)], "v": list(range(ROWS))}
    )
    net = pk.Network("writes")
    passing = net.source("s", pk.memory(table, train=ROWS // 10), progress=pk.delayed(8))
    passing.connection_point("p", path=place, key="k")
    net.run(engine="local", checkpoint=str(tmp_path / "writes"), buckets=2, tasks=2)
    if request.param:
        target: Any = net.network.outputs[0].target
        target.tend(99, Folder(str(tmp_path / "writes" / "outlet" / "p")), Horizon())
    return place


@contextmanager
def full_reads() -> Iterator[None]:
    rules = tuple(rule for rule in compiling.RULES if rule is not prune_rows)
    with patch.object(compiling, "RULES", rules):
        yield


def asked(place: str, behind: Callable[[pk.Stream], None]) -> pk.Network:
    net = pk.Network("asks")
    behind(net.source("h", pk.connection_point(place)))
    return net


def by_key(stream: pk.Stream) -> None:
    stream.where("k = 17").output("o")


def renamed(stream: pk.Stream) -> None:
    mine = stream.map(ts="ts", key="k", v="v").where("key IN (3, 17) AND v > 300")
    mine.output("o")
    mine.aggregate(N, on=pk.TUPLE_NUMBER, size=4).output("fours")
    mine.dedupe(by=["key"], on="ts").output("first")


def by_time(stream: pk.Stream) -> None:
    stream.where("ts BETWEEN 420 AND 480").aggregate(N, size=20, by="k").output("o")


def two_readers(stream: pk.Stream) -> None:
    stream.where("k < 3").output("o")
    few, _ = stream.filter("k = 50", name="few")
    few.aggregate(N, size=500).output("counts")


def united(stream: pk.Stream) -> None:
    pk.union(stream.where("k = 1"), stream.where("k = 99")).output("o")


def by_a_table(stream: pk.Stream) -> None:
    wanted = pk.table(pa.table({"k": [5, None, 61], "name": ["five", "none", "sixty-one"]}))
    stream.join(wanted, "l.k = r.k").where("v > 100").output("o")


@pytest.mark.parametrize("train_rows", [None, 70])
@pytest.mark.parametrize("behind", [by_key, renamed, by_time, two_readers, united, by_a_table])
def test_the_answers_are_those_of_a_full_read(
    point: str, behind: Callable[[pk.Stream], None], train_rows: int | None
) -> None:
    names = [output.name for output in asked(point, behind).network.outputs]
    little = asked(point, behind).run(engine="local", train_rows=train_rows, buckets=2, tasks=2)
    with full_reads():
        full = asked(point, behind).run(engine="local", train_rows=train_rows, buckets=2, tasks=2)
    assert full.record().inputs["h"].read == ROWS
    for name in names:
        assert in_some_order(little[name]) == in_some_order(full[name]) != []
    if behind in (by_key, renamed, two_readers):
        assert little["o"].to_pylist() == full["o"].to_pylist()
    assert little.late("h").num_rows == full.late("h").num_rows == 0
    if train_rows is None:
        assert little.record().inputs["h"].read < ROWS / 2


def in_some_order(table: pa.Table) -> list[Any]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def needed(net: pk.Network) -> str | None:
    """What the plan tells the input."""
    connector: Any = compile_network(net.network).network.sources[0].connector
    rows: NeededRows | None = connector.needed
    return None if rows is None else f"{rows.bounds} ({', '.join(rows.progressing)})"


def test_what_the_input_is_told(tmp_path: Path) -> None:
    place = str(tmp_path / "point")
    writes = pk.Network("writes")
    source = writes.source("s", pk.memory([(1, 1, 1)], schema={"ts": "int64", "k": "int64", "v": "int64"}))
    source.connection_point("p", path=place)
    writes.run(engine="local")
    assert needed(asked(place, by_key)) == "k = 17 (ts)"
    assert needed(asked(place, renamed)) == "k in (3, 17) and v >= 300 (ts)"
    assert needed(asked(place, two_readers)) == "k <= 3 or k = 50 (ts)"
    assert needed(asked(place, united)) == "k = 1 or k = 99 (ts)"
    assert needed(asked(place, by_a_table)) == "v >= 100 and k in (5, 61) (ts)"
    assert needed(asked(place, lambda s: s.output("o"))) is None
    assert needed(asked(place, lambda s: s.aggregate(N, size=9).where("n = 3").output("o"))) is None
    assert needed(asked(place, lambda s: s.map(ts="ts", k="k + 1").where("k = 3").output("o"))) is None

    pq.write_table(pa.table({"k": [5]}), tmp_path / "may-change.parquet")
    for table, how in ((tmp_path / "may-change.parquet", "semi"), (pa.table({"k": [5]}), "anti")):
        joined = asked(place, lambda s, table=table, how=how: s.join(pk.table(table), "l.k = r.k", how=how).output("o"))
        assert needed(joined) is None
    many = pa.table({"k": list(range(20_000))})
    assert needed(asked(place, lambda s: s.join(pk.table(many), "l.k = r.k", how="semi").output("o"))) == (
        "k between 0 and 19999 (ts)"
    )

    def rest(stream: pk.Stream) -> None:
        for number, each in enumerate(stream.filter("k = 3", name="parts")):
            each.output(f"o{number}")

    assert needed(asked(place, rest)) is None


def test_where_tuples_tell_progress_all_of_them_are_read(tmp_path: Path) -> None:
    place = str(tmp_path / "table")
    deltalake.write_deltalake(place, pa.table({"ts": [1, 2], "k": [1, 2]}))
    for policy in (None, pk.delayed(3)):
        net = pk.Network("asks")
        net.source("h", pk.delta(place), progress=policy).where("k = 2").output("o")
        assert needed(net) is None
    net = pk.Network("asks")
    net.source("h", pk.delta(place), progress=pk.punctuated()).where("k = 2").output("o")
    assert needed(net) == "k = 2 (ts)"
    net = pk.Network("asks")
    silent = pk.punctuated(idle=pk.heartbeat(every="1 second"))
    net.source("h", pk.connection_point(place), schema={"ts": "timestamp", "k": "int64"}, progress=silent).where(
        "k = 2"
    ).output("o")
    assert needed(net) is None


def test_explain_says_what_is_left_out_and_how_much_is_read(point: str) -> None:
    text = asked(point, by_key).explain()
    assert "leaves out rows that are not k = 17: reads " in text
    assert "leaves out" not in asked(point, lambda s: s.output("o")).explain()


def test_late_tuples_and_those_without_a_time_are_told_of_whoever_wants_them(point: str) -> None:
    """Others may write into the table what breaks the punctuation in its commits. Trains are so short that those of
    both runs end at the same places: which tuples are late depends on that."""
    held = deltalake.DeltaTable(point).to_pyarrow_table().schema
    for row in ((-100, 3, 0), (None, 4, 0)):
        strays = pa.Table.from_pylist(
            [dict(zip(("ts", "k", "v", "_arrival", "_arrived", "_batch"), (*row, 1, 1, 1000), strict=True))]
        )
        deltalake.write_deltalake(point, strays.cast(held), mode="append")

    def run() -> pk.Result:
        net = pk.Network("asks")
        net.source("h", pk.delta(point)).where("k = 17").output("o")
        return net.run(engine="local", train_rows=9)

    little = run()
    with full_reads():
        full = run()
    assert little["o"].to_pylist() == full["o"].to_pylist()
    assert little.late("h").to_pylist() == full.late("h").to_pylist() != []
    assert little.errors("h").num_rows == full.errors("h").num_rows == 1


def test_a_network_that_changes_inside_a_unit_goes_on_from_the_same_place(point: str, tmp_path: Path) -> None:
    """What is left of a unit is read for who wants all of it, though its first part was read for one key."""

    def stopping(record: Record) -> None:
        if record.batch == 2:
            raise KeyboardInterrupt

    def everything(stream: pk.Stream) -> None:
        by_key(stream)
        stream.output("all")

    def results() -> pk.Result:
        checkpoint = str(tmp_path / "asks")
        with pytest.raises(KeyboardInterrupt):
            asked(point, by_key).run(engine="local", train_rows=7, checkpoint=checkpoint, on_batch=stopping)
        return asked(point, everything).run(engine="local", train_rows=70, checkpoint=checkpoint)

    result = results()
    later = result["all"]["v"].to_pylist()
    assert later == list(range(ROWS - len(later), ROWS))
    with full_reads():
        whole = asked(point, by_key).run(engine="local")
    assert result["o"].to_pylist() == whole["o"].to_pylist()
