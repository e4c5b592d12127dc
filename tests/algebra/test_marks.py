"""Marks are values: they are equal by what they say, are put together by laws, and survive JSON."""

from __future__ import annotations

import json
import pickle
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.algebra.marks import (
    FALLING,
    UNKNOWN,
    Mark,
    Marks,
    all_ended,
    least,
    most,
    only_end,
)
from penstock.algebra.ticks import BEGINNING, END
from penstock.errors import WorldError

WHOLE = Marks({"ts": 7}, {"left": -40}, ({"l_ts": 7}, {"r_ts": 3}), True)
EVERY = [
    (Mark("ts"), 7),
    (Mark("left", FALLING), -40),
    (Mark("l_ts", "left"), 7),
    (Mark("r_ts", "right"), 3),
]

ticks = st.dictionaries(st.sampled_from(["ts", "at", "#odd", "k v", ""]), st.integers(BEGINNING, END), max_size=3)
marks = st.builds(Marks, ticks, ticks, st.tuples(ticks, ticks), st.booleans())


def test_every_mark_is_found_in_its_part() -> None:
    assert Marks.made(EVERY, ended=True) == WHOLE
    assert [WHOLE.of(mark) for mark, _ in EVERY] == [tick for _, tick in EVERY]
    assert all(WHOLE.has(mark) for mark, _ in EVERY)
    assert WHOLE.of("ts") == WHOLE.of(Mark("ts")) == 7


def test_a_name_alone_is_that_of_an_attribute_that_increases() -> None:
    assert (WHOLE.of("left"), WHOLE.has("left"), WHOLE.has("l_ts")) == (BEGINNING, False, False)


def test_equal_marks_are_equal_in_whatever_order_they_were_made() -> None:
    one, other = Marks({"a": 1, "b": 2}), Marks({"b": 2, "a": 1})
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other, Marks({"a": 1}), Marks({"a": 1}, ended=True)}) == 3


def test_a_mark_that_is_stated_differs_from_one_that_is_not() -> None:
    stated = Marks({"ts": BEGINNING})
    assert stated != UNKNOWN
    assert stated.of("ts") == UNKNOWN.of("ts") == BEGINNING
    assert not stated.says_anything
    assert Marks(ended=True).says_anything


def test_nobody_waits_for_a_mark_that_is_not_stated() -> None:
    assert WHOLE.reached("ts", 7)
    assert not WHOLE.reached("ts", 8)
    assert WHOLE.reached("at", END)


def test_the_same_marks_at_other_times() -> None:
    assert WHOLE.unknown() == Marks({"ts": BEGINNING}, {"left": BEGINNING}, ({"l_ts": BEGINNING}, {"r_ts": BEGINNING}))
    assert WHOLE.at_end() == Marks({"ts": END}, {"left": END}, ({"l_ts": END}, {"r_ts": END}), True)
    assert (UNKNOWN.end, WHOLE.end) == (BEGINNING, END)


def test_with_other_names_and_ticks() -> None:
    assert WHOLE.renamed(str.upper) == Marks({"TS": 7}, {"LEFT": -40}, ({"L_TS": 7}, {"R_TS": 3}), True)
    assert WHOLE.each(lambda tick: tick // 5 * 5) == Marks({"ts": 5}, {"left": -40}, ({"l_ts": 5}, {"r_ts": 0}), True)
    assert WHOLE.alone == Marks({"ts": 7}, {"left": -40}, ended=True)
    assert WHOLE.with_mark(Mark("left", FALLING), 0).falling == {"left": 0}
    assert WHOLE.with_mark("at", 1).with_rising({"ts": 9}).rising == {"ts": 9, "at": 1}
    assert WHOLE.shaped(Marks({"at": 0, "ts": 0})) == Marks({"at": BEGINNING, "ts": 7}, ended=True)


def test_several_streams_as_one() -> None:
    """
    ```
     one    ts 7   at 2   ended
     other  ts 5          goes on       together: ts 5, and it goes on
    ```
    """
    assert least([Marks({"ts": 7, "at": 2}, ended=True), Marks({"ts": 5})]) == Marks({"ts": 5})
    assert least([Marks(falling={"left": 1}), Marks(falling={"left": -4})]) == Marks(falling={"left": -4})
    assert (all_ended([WHOLE, UNKNOWN]), only_end([WHOLE, WHOLE])) == (False, Marks(ended=True))


@given(st.lists(marks, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_putting_together_depends_on_no_order(several: list[Marks], random: Any) -> None:
    mixed = random.sample(several, len(several))
    for together in (least, most):
        assert together(several) == together(mixed)
        assert together(several) == reduce(lambda one, other: together([one, other]), several)
        assert together([several[0], several[0]]) == several[0]


@given(st.lists(marks, min_size=1, max_size=4))
def test_what_was_said_is_never_taken_back(several: list[Marks]) -> None:
    highest, lowest = most(several), least(several)
    for one in several:
        assert most([highest, one]) == highest
        assert all(lowest.of(name) <= one.of(name) <= highest.of(name) for name in lowest.rising)
        assert lowest.ended <= one.ended <= highest.ended


@given(marks)
def test_they_survive_json_and_another_process(told: Marks) -> None:
    assert Marks.from_json(json.loads(json.dumps(told.to_json()))) == told
    assert pickle.loads(pickle.dumps(told)) == told
    assert hash(Marks.from_json(told.to_json())) == hash(told)


def test_the_document_is_typed_and_leaves_out_what_says_nothing() -> None:
    assert WHOLE.to_json() == {
        "rising": {"ts": 7},
        "falling": {"left": -40},
        "joint": [{"l_ts": 7}, {"r_ts": 3}],
        "ended": True,
    }
    assert UNKNOWN.to_json() == {}


@pytest.mark.parametrize(
    "document",
    [
        None,
        7,
        "ts",
        [],
        {"ts": 7},
        {"rising": 7},
        {"rising": ["ts"]},
        {"rising": {"ts": "7"}},
        {"rising": {"ts": True}},
        {"rising": {"ts": 1.5}},
        {"rising": {"ts": None}},
        {"rising": {"ts": END + 1}},
        {"rising": {7: 7}},
        {"falling": None},
        {"joint": {}},
        {"joint": [{}]},
        {"joint": [{}, {}, {}]},
        {"joint": [{"l_ts": 1}, None]},
        {"ended": 1},
        {"ended": None},
    ],
    ids=repr,
)
def test_a_damaged_document_is_refused(document: object) -> None:
    with pytest.raises(WorldError, match=r"(?s)low-water marks are not written as such.*expected.*found"):
        Marks.from_json(document)
