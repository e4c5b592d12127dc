"""Tests of networks: play a script to a network, and look at what comes out.

>>> import penstock as pk
>>> from penstock.testing import assert_rows, play

>>> net = pk.Network("example")
>>> files = pk.memory([], schema={"ts": "int64", "link": "string"})  # in an application: pk.files(...)
>>> packets = net.source("packets", files, progress=pk.delayed(5))
>>> stream = packets.aggregate({"n": "count(*)"}, size=10, name="count").output("counts")

>>> played = play(net, {"packets": [(3, "a"), (12, "b"), (8, "a"), (21, "a"), (2, "b")]})
>>> assert_rows(played["counts"], [(0, 2), (10, 1), (20, 1)])
>>> assert_rows(played.late("packets"), [(2, "b")])
>>> played.marks("packets")
[-2, 7, 7, 16, inf]

The script stands in the place of the inputs, and every output is kept. All the rest is the network as it is, with the
real planner, boxes and state.
"""

from penstock.testing.played import Played, play
from penstock.testing.rows import assert_rows
from penstock.testing.scripted import shard

__all__ = ["Played", "assert_rows", "play", "shard"]
