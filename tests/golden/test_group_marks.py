"""Every group of an input by its own mark: who leaves early, and who is late."""

from __future__ import annotations

from typing import Any

from tests.golden.conftest import Runner
from tests.golden.tables import rows, same

import penstock as pk
from penstock.plan.compile import compile_network
from penstock.runtime.waiting import waiting

SCHEMA = {"ts": "int64", "device": "string"}

# Delay 2, windows of 10, two tuples to a batch. The clock of `fast` is an hour ahead, until it is set right.
#
#  batch     0     1        2      3         4      5      6
#  a         1     3        12            15     23          33     marks   -1  1  10  10  13  21
#  b         2              4      13            24                          0  0   2  11  11  22
#  fast         3602            3612      14           25                       3600 .. 3610
PACKETS = """
ts   device
1    a
2    b
3602 fast
3    a
12   a
4    b
3612 fast
13   b
14   fast   | late: an hour behind what it said before
15   a
23   a
24   b
25   fast   | late
33   a
"""


def leaving(run: Runner, net: pk.Network, *outputs: str) -> tuple[pk.Result, dict[str, list[tuple[Any, ...]]]]:
    """The rows of each output, each behind the batch in which it left."""
    counts: list[dict[str, int]] = []
    result = run(net, on_batch=lambda record: counts.append(dict(record.outputs)))
    found = {}
    for output in outputs:
        table = [tuple(row.values()) for row in result[output].to_pylist()]
        found[output] = sorted((sum(c[output] <= at for c in counts), *row) for at, row in enumerate(table))
    return result, found


def test_a_fast_clock_delays_nobody_and_makes_only_itself_late(run: Runner) -> None:
    net = pk.Network("devices")
    packets = net.source("in", pk.memory(rows(PACKETS), schema=SCHEMA, train=2), progress=pk.delayed(2, by=["device"]))
    count = {"n": "count(*)"}
    packets.aggregate(count, size=10, by="device").output("own")
    # The filter drops whatever moves the marks of `a` beyond 12: they move all the same.
    some = packets.where("ts <= 12 OR device <> 'a'").map(t="ts + 100", unit="upper(device)", name_="device")
    some.aggregate(count, on="t", size=10, by=["name_", "unit"]).output("mapped")
    packets.aggregate(count, size=10).output("all")
    packets.late().output("late")
    result, found = leaving(run, net, "own", "mapped", "all")
    assert found["own"] == [
        (2, 0, "a", 2),  # before b, which is at 4
        (3, 0, "b", 2),
        (3, 3600, "fast", 1),  # by its own clock
        (5, 10, "a", 2),
        (5, 10, "b", 1),
        (6, 20, "a", 1),
        (6, 20, "b", 1),
        (6, 30, "a", 1),
        (6, 3610, "fast", 1),
    ]
    assert found["mapped"] == [
        (2, 100, "a", "A", 2),
        (3, 100, "b", "B", 2),
        (3, 3700, "fast", "FAST", 1),
        (5, 110, "a", "A", 1),
        (5, 110, "b", "B", 1),
        (6, 120, "b", "B", 1),
        (6, 3710, "fast", "FAST", 1),
    ]
    # Who does not ask for devices waits for the slowest of them, not for the fast one to be overtaken.
    assert found["all"] == [(3, 0, 4), (5, 10, 3), (6, 20, 2), (6, 30, 1), (6, 3600, 1), (6, 3610, 1)]
    for late in (result.late("in"), result["late"]):
        same(late, "ts device\n14 fast\n25 fast")
    assert result.record().boxes["in.groups"].late == 2
    counts = result.record().inputs["in"]
    assert (counts.read, counts.taken, counts.late) == (14, 12, 2)


def test_what_the_input_states_moves_every_group_and_a_new_one_takes_nothing_back(run: Runner) -> None:
    net = pk.Network("devices")
    script = [
        *((1, "a"), (2, "b")),  # batch 0
        *((13, "a"), pk.punctuation(ts=5)),  # the slowest, b, is at 5 now
        *((4, "new"), (6, "b")),  # late: below what was stated of all; at 5 and above it would not be
        *((11, "new"), (12, "b")),
        *((10, "new"), (14, "b")),  # below its own mark
        *((20, "c"), pk.punctuation(ts=30)),  # nobody has to come any further
    ]
    packets = net.source("in", pk.memory(script, schema=SCHEMA, train=2), progress=pk.ordered(by="device"))
    packets.aggregate({"n": "count(*)"}, size=10, by="device").output("own")
    packets.aggregate({"n": "count(*)"}, size=10).output("all")
    result, found = leaving(run, net, "own", "all")
    assert found["own"] == [
        (1, 0, "a", 1),
        (3, 0, "b", 2),
        (5, 10, "a", 1),
        (5, 10, "b", 2),
        (5, 10, "new", 1),
        (5, 20, "c", 1),
    ]
    assert found["all"] == [(3, 0, 3), (5, 10, 4), (5, 20, 1)]
    same(result.late("in"), "ts device\n4 new\n10 new")


def test_heartbeats_of_a_silent_input_move_every_group(run: Runner) -> None:
    net = pk.Network("devices")
    lull = [pk.clock(12)] * 3  # a train without tuples
    script = [pk.clock(1), (1, "a"), (2, "b"), *lull, pk.clock(13), (13, "a"), (9, "b")]
    idle = pk.heartbeat(every="5 seconds", skew="1 second", unit="s")
    source = pk.memory(script, schema=SCHEMA, train=3)
    packets = net.source("in", source, progress=pk.ordered(by="device", idle=idle))
    packets.aggregate({"n": "count(*)"}, size=10, by="device").output("own")
    result, found = leaving(run, net, "own")
    # The clock minus the skew is 11: both windows are complete, and 9 is late.
    assert found["own"] == [(1, 0, "a", 1), (1, 0, "b", 1), (2, 10, "a", 1)]
    same(result.late("in"), "ts device\n9 b")


def test_the_slowest_group_is_named_and_the_fast_one_states_nothing_for_others(run: Runner) -> None:
    net = pk.Network("devices")
    script = [
        pk.clock(3),
        (3602, "fast"),
        (3, "a"),
        pk.clock(12),
        (12, "a"),
        (4, "b"),
        pk.clock(14),
        (14, "a"),
        (5, "b"),
    ]
    policy = pk.ordered(by="device", idle=pk.on_demand(skew="20 s", unit="s"))
    packets = net.source("in", pk.memory(script, schema=SCHEMA, train=3), progress=policy)
    packets.aggregate({"n": "count(*)"}, size=10, name="all").output("all")
    network, told = compile_network(net.network).network, []
    result = run(net, on_batch=lambda record: told.extend(str(w) for w in waiting(network, record)))
    assert "waits for input 'in', where device = 'a' is furthest behind, at 3: ts" in told[0]
    assert "waits for input 'in', where device = 'b' is furthest behind, at 4: ts" in told[1]
    assert result.late("in").num_rows == 0


# Two links, a tuple of each to a batch; delay 2, windows of 10. `fast` is an hour ahead on the east link.
#
#  batch      0     1     2     3     4     5     6
#  east a     1           3    12    14    25    26     marks  -1        1   10   12   23
#       fast      3602                                              3600
#  west a           1          13    16                              -1       11   14
#       b     2           4                17    24             0        2             15
LINKS = """
east_ts east_device west_ts west_device
1       a           2       b
3602    fast        1       a
3       a           4       b
12      a           13      a
14      a           16      a
25      a           17      b
26      a           24      b
"""


def linked(net: pk.Network) -> tuple[pk.Stream, pk.Stream]:
    table = rows(LINKS)
    east, west = (
        net.source(
            name,
            pk.memory([row[at : at + 2] for row in table], schema=SCHEMA, train=1),
            progress=pk.delayed(2, by="device"),
        )
        for name, at in (("east", 0), ("west", 2))
    )
    return east, west


def test_where_links_come_together_a_group_waits_for_each_of_them_and_for_no_other_group(run: Runner) -> None:
    net = pk.Network("links")
    east, west = linked(net)
    count = {"n": "count(*)"}
    both = pk.union(east, west)
    both.aggregate(count, size=10, by="device").output("own")
    both.dedupe(by="device").aggregate(count, size=10, by="device").output("first")
    both.aggregate(count, size=10).output("all")
    pairs = east.join(west, "l.device = r.device", on="ts", size=3)
    pairs.aggregate(count, on="l_ts", size=10, by="r_device").output("pairs")
    result, found = leaving(run, net, "own", "first", "all", "pairs")
    # `a` is at 10 in the east and at 11 in the west, where `b` stands at 2. The east has said nothing of `b`, nor the
    # west of `fast`: there the link as a whole must have come so far.
    ends = [(6, 20, "a", 2), (6, 20, "b", 1), (6, 3600, "fast", 1)]
    assert found["own"] == [(3, 0, "a", 3), (5, 0, "b", 2), (6, 10, "a", 4), (6, 10, "b", 1), *ends]
    assert found["first"] == [(3, 0, "a", 2), (5, 0, "b", 2), (6, 10, "a", 4), (6, 10, "b", 1), *ends]
    assert found["all"] == [(5, 0, 5), (6, 10, 5), (6, 20, 3), (6, 3600, 1)]
    # Within 3 of each other: 14 in the west lets 11 pass.
    assert found["pairs"] == [(4, 0, "a", 2), (6, 10, "a", 3)]
    assert result.late("east").num_rows == result.late("west").num_rows == 0
