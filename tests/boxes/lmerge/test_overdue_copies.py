"""Copies that fall silent, are closed because they are overdue, and come back: the output does not notice."""

from __future__ import annotations

import pytest

import penstock as pk
from penstock.testing import assert_rows, play, shard

SCHEMA = {"ts": "int64", "k": "string"}

#  clock     1     5     12     14     15        16            17        40   42     43             44
#  left      1 2   4     10     13                             15 17          30                    31
#  right     1                         2 4       10 13 15                            17 30 31
#            └────── closed at 12 ─────┘ back    └───────────── both closed at 40 ───┘ back
SCRIPT = [
    {"left": [pk.clock(1), (1, "a"), (2, "b")], "right": [(1, "a")]},
    {"left": [pk.clock(5), (4, "a")], "right": []},
    {"left": [pk.clock(12), (10, "a")], "right": []},
    {"left": [pk.clock(14), (13, "a")], "right": []},
    {"left": [pk.clock(15)], "right": [(2, "b"), (4, "a")]},
    {"left": [pk.clock(16)], "right": [(10, "a"), (13, "a"), (15, "c")]},
    {"left": [pk.clock(17), (15, "c"), (17, "d")], "right": []},
    pk.clock(40),
    {"left": [pk.clock(42), (30, "e")], "right": []},
    {"left": [pk.clock(43)], "right": [(17, "d"), (30, "e"), (31, "f")]},
    {"left": [pk.clock(44), (31, "f")], "right": []},
]
ROWS = [(1, "a"), (2, "b"), (4, "a"), (10, "a"), (13, "a"), (15, "c"), (17, "d"), (30, "e"), (31, "f")]


def network(case: str | None, when_overdue: str = "close") -> pk.Network:
    net = pk.Network("copies")
    options = {"progress": pk.ordered(), "overdue": "10 seconds", "when_overdue": when_overdue}
    copies = [net.source(name, pk.memory([], schema=SCHEMA), **options) for name in ("left", "right")]
    pk.lmerge(*copies, case=case, name="merged").output("all")
    return net


@pytest.mark.parametrize("case", [None, "R0", "R1", "R2", "R3", "R4"])
def test_a_copy_that_was_closed_comes_back_and_nothing_is_missing_or_twice(case: str | None) -> None:
    played = play(network(case), SCRIPT, end=False)
    assert_rows(played["all"], ROWS)
    # A copy without open shards stands where it stood: it is not taken for one that has ended, and said all.
    assert played.marks("right") == [1, 1, 1, 1, 4, 15, 15, 15, 15, 31, 31]
    assert played.marks("merged") == [2, 4, 10, 13, 13, 15, 17, 17, 30, 31, 31]
    for name in ("left", "right"):
        assert played.late(name).num_rows == 0
    assert played.errors("merged").num_rows == 0


def test_a_copy_of_several_shards_that_stay_open_waits_for_the_silent_one() -> None:
    script = [
        {"left": [pk.clock(1), shard("east", (1, "e")), shard("west", (2, "w"))], "right": [(1, "e"), (2, "w")]},
        {"left": [pk.clock(20), shard("east", (18, "e"), (20, "e"))], "right": []},
        {"left": [pk.clock(21)], "right": [(18, "e"), (19, "w"), (20, "e"), (21, "w")]},
    ]
    played = play(network("R3", "report"), script, end=False)
    assert_rows(played["all"], [(1, "e"), (2, "w"), (18, "e"), (19, "w"), (20, "e"), (21, "w")])
    # Closed, its silent shard would let the copy say that it has all there is before 20, and 19 would be lost.
    assert played.marks("left") == [1, 2, 2]
    closed = play(network("R3"), script, end=False)
    assert closed.marks("left") == [1, 20, 20]
    assert (19, "w") not in [tuple(row.values()) for row in closed["all"].to_pylist()]
