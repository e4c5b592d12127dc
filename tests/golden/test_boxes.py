"""Golden cases of the stateless boxes, of late tuples and broken records, and of progress."""

from __future__ import annotations

import math
from typing import Any

from tests.golden.conftest import Runner
from tests.golden.tables import elements, rows, same

import penstock as pk

PACKETS = """
ts  port  len  proto
 1    80   40  tcp
 2    22  900  tcp
 3    53   60  udp
 4    80  990  udp
 5     -   70  tcp
 6   443  950  tcp
 7     7    1  -
"""
SCHEMA = {"ts": "int64", "port": "int64", "len": "int64", "proto": "string"}


def test_filter_routes_to_the_first_predicate_that_holds(run: Runner) -> None:
    """aurora.md 5.2.1.1: three predicates, four streams; a predicate that is NULL does not hold."""
    net = pk.Network("routing")
    packets = net.source("packets", pk.memory(rows(PACKETS), schema=SCHEMA, train=4))
    streams = packets.filter("port = 80", "len > 500", "proto = 'tcp'")
    for name, stream in zip(("web", "large", "tcp", "rest"), streams, strict=True):
        stream.output(name)
    result = run(net)
    same(result["web"], "ts port len proto \n 1 80 40 tcp \n 4 80 990 udp")
    same(result["large"], "ts port len proto \n 2 22 900 tcp \n 6 443 950 tcp")
    same(result["tcp"], "ts port len proto \n 5 - 70 tcp")
    same(result["rest"], "ts port len proto \n 3 53 60 udp \n 7 7 1 -")


def test_map_renames_computes_and_carries_progress(run: Runner) -> None:
    """aurora.md 5.2.1.2; between integers `/` is the floor, so `ts / 4` numbers windows and progresses."""
    net = pk.Network("mapping")
    packets = net.source("packets", pk.memory(rows(PACKETS), schema=SCHEMA, train=4))
    quarters = packets.map(quarter="ts / 4", back="0 - ts", kind="coalesce(proto, 'other')", bits="len * 8")
    assert quarters.progressing == ("quarter",)
    quarters.output("quarters")
    quarters.aggregate({"bits": "sum(bits)"}, on="quarter", size=1, by="kind").output("sums")
    result = run(net)
    same(
        result["quarters"],
        """
        quarter  back  kind   bits
        0        -1    tcp     320
        0        -2    tcp    7200
        0        -3    udp     480
        1        -4    udp    7920
        1        -5    tcp     560
        1        -6    tcp    7600
        1        -7    other     8
        """,
    )
    same(
        result["sums"],
        """
        quarter  kind  bits
        0        tcp   7520
        0        udp    480
        1        udp   7920
        1        tcp   8160
        1        other    8
        """,
    )
    assert [e for e in elements(result, "quarters") if e[0] == "p"] == [("p", 1), ("p", math.inf)]


def test_union_states_the_minimum_and_never_repeats_itself(run: Runner) -> None:
    """oop.md Figure A-1, as a table of what is stated on either side and what leaves."""
    table: list[tuple[Any, Any, Any]] = [
        # left   right  out
        (("p", 5), 90, None),  # nothing is known of the right side
        (60, ("p", 3), 3),
        (("p", 7), 80, None),  # the minimum is still 3
        (90, ("p", 7), 7),
        (90, ("p", 12), None),  # the minimum is still 7
        (("p", 10), 90, 10),
        (70, 70, math.inf),  # both inputs end
    ]

    def script(column: int) -> list[Any]:
        cells = [line[column] for line in table]
        return [pk.punctuation(ts=c[1]) if isinstance(c, tuple) else (c,) for c in cells]

    net = pk.Network("a1")
    left, right = (
        net.source(name, pk.memory(script(i), schema={"ts": "int64"}, train=1), progress=pk.punctuated())
        for i, name in enumerate(("left", "right"))
    )
    pk.union(left, right).output("out")
    result = run(net)
    assert [e[1] for e in elements(result, "out") if e[0] == "p"] == [out for *_, out in table if out is not None]
    assert sorted(result["out"]["ts"].to_pylist()) == [60, 70, 70, 80, 90, 90, 90, 90]


def test_late_tuples_are_a_stream_like_any_other(run: Runner) -> None:
    """Batch 1 issues 10, batch 2 issues 20: what comes below is set aside, whole, and can be filtered and united."""
    net = pk.Network("late")
    table = """
    ts   k  v
     1   a  1
    10   b  2
     9   c  3  | late, batch 2
    20   a  4
    10   b  5  | late, batch 3
    20   c  6
    """
    source = net.source("in", pk.memory(rows(table), schema={"ts": "int64", "k": "string", "v": "int64"}, train=2))
    source.aggregate({"n": "count(*)"}, size=10).output("counts")
    hit, miss = source.late().filter("k = 'b'")
    hit.map(k="k", behind="20 - ts").output("hit")
    pk.union(miss, source.late()).output("twice")
    result = run(net)
    same(result["counts"], "ts n \n 0 1 \n 10 1 \n 20 2")
    same(result["hit"], "k behind \n b 10")
    same(result["twice"], "ts k v \n 9 c 3 \n 9 c 3 \n 10 b 5")
    same(result.late("in"), "ts k v \n 9 c 3 \n 10 b 5")
    count = result.record().inputs["in"]
    assert (count.read, count.taken, count.late, count.refused) == (6, 4, 2, 0)


def test_late_tuples_that_are_dropped_are_counted(run: Runner) -> None:
    net = pk.Network("drop")
    source = net.source("in", pk.memory([(5,), (9,), (3,)], schema={"ts": "int64"}, train=2), late="drop")
    source.aggregate({"n": "count(*)"}, size=10).output("counts")
    result = run(net)
    same(result["counts"], "ts n \n 0 2")
    assert result.record().inputs["in"].late == 1


def test_broken_records_are_a_stream_like_any_other(run: Runner) -> None:
    """A tuple without its time and a row that does not fit are refused; the rest of the train goes on."""
    net = pk.Network("errors")
    elements = [(1, "a"), (None, "b"), (2, "c"), (3,), ("x", "d"), (4, "e")]
    source = net.source("in", pk.memory(elements, schema={"ts": "int64", "k": "string"}, train=3))
    source.output("good")
    source.errors().map(why="reason LIKE '%NULL%'", n="rows").output("why")
    source.errors().where("reason LIKE 'has 1 values%'").output("short")
    result = run(net)
    same(result["good"], "ts k \n 1 a \n 2 c \n 4 e")
    same(result["why"], "why n \n true 1 \n false 1 \n false 1")
    assert result["short"]["record"].to_pylist() == ["(3,)"]
    assert result.errors("in").num_rows == 3
    count = result.record().inputs["in"]
    assert (count.read, count.taken, count.refused) == (6, 3, 3)


def test_shards_have_progress_of_their_own(run: Runner) -> None:
    """Link b lags behind link a by 100: per shard both are in order, and the slower one holds the windows."""
    net = pk.Network("shards")
    table = """
    ts   link
    100  a
      1  b
    110  a   | batch 2
     10  b
    120  a   | batch 3
     20  b
    """
    source = net.source(
        "in", pk.memory(rows(table), schema={"ts": "int64", "link": "string"}, train=2, shard_by="link")
    )
    source.aggregate({"n": "count(*)"}, size=10).output("counts")
    result = run(net)
    assert result.late("in").num_rows == 0
    assert elements(result, "counts") == [
        *[("p", 0), (0, 1), ("p", 10)],
        *[(10, 1), (20, 1), (100, 1), (110, 1), (120, 1), ("p", math.inf)],
    ]
