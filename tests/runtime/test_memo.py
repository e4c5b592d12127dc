"""The memo of a stage survives JSON; what an earlier version has written is read."""

from __future__ import annotations

import json

import pytest

import penstock as pk
from penstock.progress.extremes import Extremes, Reach
from penstock.runtime.memo import FORMAT, Memo


def test_a_memo_survives_json() -> None:
    memo = Memo(
        "a1",
        7,
        {"ports": "v2"},
        {"in": {"a": Extremes(5, others={"b": Reach(1, 2)})}},
        {"stage 1 bucket 0000": {"counts": {"ts": 3}}},
        {"counts": {"ts": 4}},
    )
    assert Memo.from_json(json.loads(json.dumps(memo.to_json()))) == memo


def test_what_says_nothing_is_left_out() -> None:
    assert Memo().to_json() == {"format": FORMAT}


def test_a_memo_without_a_format_number_is_read() -> None:
    assert Memo.from_json({"now": 3, "shards": {}, "sent": {"in": {"ts": 1}}}) == Memo(now=3, sent={"in": {"ts": 1}})
    assert Memo.from_json({}) == Memo()


def test_what_is_newer_is_refused() -> None:
    with pytest.raises(pk.WorldError, match=r"(?s)the memo of a stage .*newer.*format 1 or older.*format 2"):
        Memo.from_json({"format": FORMAT + 1})
