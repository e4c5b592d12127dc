"""Ways out of waiting survive JSON; a damaged document is refused."""

from __future__ import annotations

import json

import pytest

from penstock.algebra.joint_punctuation import read_ways, shortest, write_ways
from penstock.algebra.marks import FALLING, Mark
from penstock.errors import WorldError

LEFT, RIGHT = Mark("l_ts", "left"), Mark("r_ts", "right")


def test_ways_survive_json_in_their_order() -> None:
    ways = ({RIGHT: 5, LEFT: 1}, {Mark("left", FALLING): 3}, {Mark("ts"): 9})
    back = read_ways(json.loads(json.dumps(write_ways(ways))))
    assert back == ways
    assert [list(way) for way in back] == [list(way) for way in ways]


def test_only_ways_that_no_other_is_shorter_than_are_told() -> None:
    assert shortest([{RIGHT: 5, LEFT: 1}, {RIGHT: 2, LEFT: 9}, {RIGHT: 5, LEFT: 2}]) == [
        {RIGHT: 2, LEFT: 9},
        {RIGHT: 5, LEFT: 1},
    ]


@pytest.mark.parametrize(
    "document",
    [None, {}, [{}], [[]], [["ts"]], [[["ts", "rising"]]], [[["ts", "up", 1]]], [[["ts", "left", "1"]]], [[[1, 2, 3]]]],
    ids=repr,
)
def test_a_damaged_document_is_refused(document: object) -> None:
    with pytest.raises(WorldError, match="what a box waits for is not written as such"):
        read_ways(document)
