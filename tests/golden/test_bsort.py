"""Golden cases of BSort and Assume: aurora.md 5.2.2 and Fig. 8."""

from __future__ import annotations

from tests.golden.conftest import Runner
from tests.golden.tables import rows, same

import penstock as pk
from penstock.algebra.marks import Marks
from penstock.boxes.assume.verb import assume
from penstock.runtime.board import Record

FIG_8 = (1, 3, 1, 2, 4, 4, 8, 3, 4, 4)


def test_figure_8(run: Runner) -> None:
    """Slack 2, a buffer of three: eight tuples leave, two stay until the input ends.

    input    1  3  1  2  4  4  8  3  4  4
    output         1  1  2  3  4  3  4  4  | 4  8
    """
    net = pk.Network("fig8")
    elements = [*((ts, a) for ts, a in enumerate(FIG_8)), pk.punctuation(ts=10)]
    stream = net.source("in", pk.memory(elements, schema={"ts": "int64", "A": "int64"}, train=5))
    stream.bsort(on="A", slack=2, name="sorted").output("out")
    held: list[int] = []
    punctuated: list[Marks] = []

    def watch(record: Record) -> None:
        held.append(record.boxes["sorted"].held_rows)
        punctuated.append(record.marks["sorted"])

    result = run(net, on_batch=watch)
    assert result["out"]["A"].to_pylist() == [1, 1, 2, 3, 4, 3, 4, 4, 4, 8]
    assert held == [2, 2, 0]
    # After the first train 3 (ts 1) and 4 (ts 4) are buffered, after the second 8 (ts 6) and 4 (ts 9).
    assert [marks.of("ts") for marks in punctuated[:2]] == [1, 6]
    burst = [e["A"] if isinstance(e, dict) else e.value[0][1] for e in result.elements("out")]
    assert burst == [1, 1, 2, 1, 3, 4, 3, 4, 4, 6, 4, 8, float("inf")]
    work = result.record().boxes["sorted"]
    assert (work.tuples_in, work.tuples_out, work.released) == (10, 10, 10)


def test_groups_have_buffers_of_their_own_and_an_order_can_be_assumed(run: Runner) -> None:
    """Two passes are enough for group a, not for b: there 1 is out of order by three."""
    table = """
    ts  k  v
     1  a  3
     2  b  5
     3  a  2
     4  b  6
     5  b  7
     6  a  1
     7  b  1  | out of order by 3
     8  -  4
     9  a  4
    """
    net = pk.Network("groups")
    source = net.source("in", pk.memory(rows(table), schema={"ts": "int64", "k": "string", "v": "int64"}, train=4))
    by_group = source.bsort(on="v", slack=2, by="k")
    by_group.output("sorted")
    in_order = assume(by_group, pk.order("v", by="k"), name="order")
    in_order.output("in order")
    in_order.late().map(v="v * 10").output("late tens")
    assume(source, pk.order("v", slack=1), name="all").output("all")
    result = run(net)
    found: dict[str | None, list[int]] = {}
    for row in result["sorted"].to_pylist():
        found.setdefault(row["k"], []).append(row["v"])
    assert found == {"a": [1, 2, 3, 4], "b": [5, 1, 6, 7], None: [4]}
    same(result.late("order"), "ts k v \n 7 b 1")
    same(result["late tens"], "v \n 10")
    assert result["in order"].num_rows == 8
    # Without groups, whatever has two larger ones before it is late.
    same(result["all"], "ts k v \n 1 a 3 \n 2 b 5 \n 4 b 6 \n 5 b 7")
    assert result.record().boxes["all"].late == 5
