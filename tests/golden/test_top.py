"""Golden cases of Top."""

from __future__ import annotations

from tests.golden.conftest import Runner
from tests.golden.tables import elements, rows, same

import penstock as pk

PACKETS = """
ts  link  len
 1  a      60
 3  b     900
 2  a    1500   | late by one, within the promise
 7  a     700
 8  -     100
 9  b     900
12  a      40
11  b       -   | without a value: last
14  b      80
"""
SCHEMA = {"ts": "int64", "link": "string", "len": "int64"}


def test_the_two_largest_packets_of_each_link(run: Runner) -> None:
    net = pk.Network("top")
    packets = net.source("in", pk.memory(rows(PACKETS), schema=SCHEMA, train=3), progress=pk.delayed(1))
    packets.top(2, by="len", size=10, groups="link").output("out")
    result = run(net)
    same(
        result["out"],
        """
        window  rank  ts  link  len
             0     1   2  a    1500
             0     2   7  a     700
             0     1   3  b     900   | of equal ones the earlier is better
             0     2   9  b     900
             0     1   8  -     100
            10     1  12  a      40
            10     1  14  b      80
            10     2  11  b       -
        """,
    )


def test_the_smallest_of_windows_that_overlap(run: Runner) -> None:
    net = pk.Network("top")
    packets = net.source("in", pk.memory(rows(PACKETS), schema=SCHEMA, train=4), progress=pk.delayed(1))
    least = packets.where("len IS NOT NULL").top(1, by="len", on="ts", size=10, advance=5, ascending=True, name="least")
    least.map(window="window", size="len").output("out")
    result = run(net)
    same(result["out"], "window size \n -5 60 \n 0 60 \n 5 40 \n 10 40")
    # The mark of a window start: nothing that leaves later is of an earlier window.
    assert [e for e in elements(result, "out") if e[0] == "p"][-1] == ("p", float("inf"))
    assert result.record().boxes["least"].held_rows == 0


def test_what_is_behind_closes_in_the_same_batch(run: Runner) -> None:
    net = pk.Network("top")
    packets = net.source("in", pk.memory(rows(PACKETS), schema=SCHEMA, train=2), progress=pk.delayed(1))
    best = packets.top(1, by="len", size=10, groups="link")
    best.aggregate({"sum": "sum(len)", "n": "count(*)"}, on="window", size=10).output("out")
    same(run(net)["out"], "window sum n \n 0 2500 3 \n 10 120 2")
