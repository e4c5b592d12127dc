"""Packets counted by tens, then summed by twenties: what one network gives, and two halves must give too."""

from __future__ import annotations

import penstock as pk

COUNTS = """
 ts  k  n
  0  x  5
  0  y  5
 10  x  5
 10  y  5
 20  x  2
 20  y  2
"""
SUMS = [("p", 0), (0, 20), ("p", 20), (20, 4), ("p", float("inf"))]


def packets(net: pk.Network) -> pk.Stream:
    rows = [(t, "xy"[t % 2]) for t in range(24)]
    return net.source("packets", pk.memory(rows, schema={"ts": "int64", "k": "string"}, train=3))


def counted(packets: pk.Stream) -> pk.Stream:
    return packets.aggregate({"n": "count(*)"}, size=10, by="k")


def summed(counts: pk.Stream) -> None:
    counts.output("read")
    counts.aggregate({"n": "sum(n)"}, size=20).output("sums")
