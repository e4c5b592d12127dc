"""The memo of a stage survives JSON; what another version has written is refused."""

from __future__ import annotations

import json

import pytest

import penstock as pk
from penstock.algebra.marks import Marks
from penstock.progress.extremes import Extremes, Reach
from penstock.runtime.memo import FORMAT, Memo


def test_a_memo_survives_json() -> None:
    memo = Memo(
        "a1",
        7,
        {"ports": "v2"},
        {"in": {"a": Extremes(5, others={"b": Reach(1, 2)})}},
        {"stage 1 bucket 0000": {"counts": Marks({"ts": 3}, {"left": 2}, ended=True)}},
        {"counts": Marks({"ts": 4})},
    )
    assert Memo.from_json(json.loads(json.dumps(memo.to_json()))) == memo


def test_what_says_nothing_is_left_out() -> None:
    assert Memo().to_json() == {"format": FORMAT}


def test_before_the_first_batch_there_is_none() -> None:
    assert Memo.from_json({}) == Memo()


def test_the_format_before_is_read() -> None:
    assert Memo.from_json({"format": FORMAT - 1, "now": 3}) == Memo(now=3)


@pytest.mark.parametrize(("document", "word"), [({"format": FORMAT + 1}, "newer"), ({"now": 3}, "older")])
def test_another_format_is_refused(document: dict[str, int], word: str) -> None:
    with pytest.raises(pk.WorldError, match=rf"(?s)the memo of a stage .*{word}.*format {FORMAT}\n.*format \d"):
        Memo.from_json(document)
