"""What the shards of an input state, and what follows of it for the input."""

from __future__ import annotations

import json
from itertools import permutations

import pytest

import penstock as pk
from penstock.algebra.marks import Marks
from penstock.algebra.source import Source
from penstock.algebra.ticks import BEGINNING, END
from penstock.progress.extremes import NOTHING, Extremes, Highest, Reach
from penstock.progress.shards import add_seen, read_shards, shard_marks, source_marks, stating, write_shards


@pytest.fixture
def source() -> Source:
    net = pk.Network("net")
    net.source(
        "in",
        pk.memory([], schema={"ts": "int64", "seen": "int64"}),
        progress={"ts": pk.delayed(2), "seen": pk.punctuated()},
    ).output("out")
    (found,) = net.network.sources
    return found


def test_what_tasks_have_seen_adds_up_whatever_comes_first() -> None:
    seen = [{"a": Extremes(largest=3)}, {"a": Extremes(largest=9), "b": Extremes(ended=True)}, {"a": NOTHING}]
    for order in permutations(seen):
        known: dict[str, Extremes] = {}
        for one in order:
            add_seen(known, one)
        assert known == {"a": Extremes(largest=9), "b": Extremes(ended=True)}


def test_what_is_known_of_shards_goes_through_json() -> None:
    known = {"a": Extremes(9, highest=Highest(2, (9, 7)), others={"u": Reach(4, highest=Highest(1, (4,)))})}
    assert read_shards(json.loads(json.dumps(write_shards(known)))) == known
    assert read_shards({"a": {"largest": 9, "others": {"u": {"largest": 4}}}}) == {
        "a": Extremes(9, others={"u": Reach(4)})
    }


def test_the_mark_of_an_input_is_the_minimum_over_its_shards(source: Source) -> None:
    assert source_marks(source, {}).of("ts") == BEGINNING
    assert source_marks(source, {"a": Extremes(largest=9), "b": Extremes(largest=4)}).of("ts") == 2
    assert source_marks(source, {"a": Extremes(largest=9), "b": NOTHING}).of("ts") == BEGINNING
    assert source_marks(source, {"a": Extremes(largest=9), "b": Extremes(ended=True)}).of("ts") == 7


def test_an_input_has_ended_when_all_its_shards_have(source: Source) -> None:
    marks = source_marks(source, {"a": Extremes(ended=True), "b": Extremes(ended=True)})
    assert marks == Marks({"ts": END, "seen": END}, ended=True)
    assert not source_marks(source, {"a": Extremes(ended=True), "b": NOTHING}).ended


def test_where_all_shards_were_closed_the_furthest_says_where_the_input_stands(source: Source) -> None:
    closed = {"a": Extremes(largest=9, at=1, left=2), "b": Extremes(largest=4, at=1, left=2)}
    assert source_marks(source, closed).of("ts") == 7


def test_what_a_shard_states_of_several_attributes_is_what_its_marks_are(source: Source) -> None:
    said = Marks({"ts": 5, "seen": 8})
    assert shard_marks(source, stating(source, said)) == said
