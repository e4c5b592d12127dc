"""Any arc can be a connection point, and any box can be fed from one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import penstock as pk
from penstock.connectors.points.stored_files import OWN_COLUMNS

SCHEMA = {"ts": "int64", "k": "string"}
ROWS = [(t ^ 5, "abc"[t % 3]) for t in range(60)]


BOXES: dict[str, Any] = {
    "where": lambda s, t: s.where("k != 'a'"),
    "map": lambda s, t: s.map(ts="ts", key="k"),
    "union": lambda s, t: pk.union(s, t),
    "union of a stage and the intake": lambda s, t: pk.union(
        s.aggregate({"n": "count(*)"}, size=10, by="k"), t.map(ts="ts", k="k", n="7::bigint")
    ),
    "merge": lambda s, t: pk.merge(s, t),
    "bsort": lambda s, t: s.bsort(on="ts", slack=2),
    "dedupe": lambda s, t: s.dedupe(by="k"),
    "top": lambda s, t: s.top(1, by="ts", size=10),
    "aggregate": lambda s, t: s.aggregate({"n": "count(*)"}, size=10, by="k"),
    "aggregate of tuples": lambda s, t: s.aggregate({"n": "count(*)"}, on=pk.TUPLE_NUMBER, size=4),
    "sliding": lambda s, t: s.aggregate({"n": "median(ts)"}, size=10, advance=5),
    "join": lambda s, t: s.join(t, "l.k = r.k", on="ts", size=5),
    "left join": lambda s, t: s.join(t, "l.k = r.k and r.ts < 10", on="ts", size=5, how="left"),
    "semi join": lambda s, t: s.join(t, "l.k = r.k", on="ts", size=5, how="semi"),
    "resample": lambda s, t: s.resample(t, {"n": "count(*)"}, on="ts", size=3),
    "table": lambda s, t: s.join(pk.table(pa.table({"k": ["a", "b"], "v": [1, 2]})), "l.k = r.k"),
    "low level": lambda s, t: s.aggregate(
        {"n": "count(*)", "last": "max(ts)"}, size=10, by="k", flush="slow", table=64
    ),
    "counts by a small integer": lambda s, t: s.map(ts="ts", i="ts % 7").aggregate({"n": "count(*)"}, size=9, by="i"),
    "late": lambda s, t: t.late(),
}


def streams(net: pk.Network, delay: int = 8) -> list[pk.Stream]:
    first = net.source("s", pk.memory(ROWS, schema=SCHEMA, train=7), progress=pk.delayed(8))
    return [first, second(net, delay)]


def second(net: pk.Network, delay: int = 8) -> pk.Stream:
    return net.source("t", pk.memory(ROWS, schema=SCHEMA, train=5), progress=pk.delayed(delay))


def run(net: pk.Network, **settings: Any) -> pk.Result:
    return net.run(engine="local", buckets=2, tasks=2, **settings)


def in_some_order(tuples: pa.Table) -> list[str]:
    return sorted(map(str, tuples.to_pylist()))


@pytest.mark.parametrize("box", BOXES)
def test_any_arc_can_be_one(box: str, tmp_path: Path) -> None:
    net = pk.Network("n")
    BOXES[box](*streams(net, delay=2)).connection_point("point", path=str(tmp_path / "point")).output("all")
    result = run(net)
    kept = deltalake.DeltaTable(str(tmp_path / "point")).to_pyarrow_table().drop_columns(list(OWN_COLUMNS))
    assert in_some_order(kept) == in_some_order(result["all"]) != []


@pytest.mark.parametrize("box", [box for box in BOXES if box != "late"])
def test_any_box_can_be_fed_from_one(box: str, tmp_path: Path) -> None:
    net, fed, mixed = pk.Network("n"), pk.Network("fed"), pk.Network("mixed")
    places = [str(tmp_path / name) for name in "st"]
    sources = streams(net)
    for source, place in zip(sources, places, strict=True):
        source.connection_point(Path(place).name, path=place)
    BOXES[box](*sources).output("all")
    first = run(net)
    read = [fed.source(name, pk.connection_point(place)) for name, place in zip("st", places, strict=True)]
    BOXES[box](*read).output("all")
    # Beside an input whose tuples arrive now.
    one = mixed.source("s", pk.connection_point(places[0]))
    BOXES[box](one, second(mixed)).output("all")
    assert in_some_order(run(fed, train_rows=9)["all"]) == in_some_order(first["all"])
    assert in_some_order(run(mixed)["all"]) == in_some_order(first["all"])
