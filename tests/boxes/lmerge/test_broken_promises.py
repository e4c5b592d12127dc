"""Elements that break a promise leave by the port of errors, with a reason, and nothing else is lost."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from tests.algebra.temporal.prefixes import Element, adjust, database, insert
from tests.boxes.lmerge.copies import Merge

import penstock as pk
from penstock.boxes.lmerge.arrivals import ABSENT
from penstock.boxes.lmerge.chains import legal
from penstock.boxes.lmerge.tokens import MOST_ROUNDS, affordable
from penstock.testing.memory_slots import MemorySlots

INF = math.inf


def refused(case: str, *elements: Element, then: tuple[Element, ...] = ()) -> tuple[list[Any], list[str]]:
    """The database behind two batches of one input, and why elements were refused."""
    merge = Merge(2, case)
    merge.batch([(list(elements), -INF), ([], -INF)])
    merge.batch([(list(then), INF), ([], -INF)])
    assert all(error["origin"] == "lmerge1 <- in0" for error in merge.errors)
    assert all(json.loads(error["record"])["p"] is not None for error in merge.errors)
    return database(merge.elements), [error["reason"] for error in merge.errors]


ALREADY = "its event is there already"
MISSING = "it adjusts an event that is not there with this end"


@pytest.mark.parametrize("case", ["R3", "R3-", "R4"])
def test_an_adjust_of_what_is_not_there(case: str) -> None:
    elements = [insert("A", 1, 5), adjust("A", 1, 6, 9), adjust("B", 1, 5, 9), adjust("A", 1, 5, 7)]
    assert refused(case, *elements) == ([("A", 1, 7)], [MISSING, MISSING])


@pytest.mark.parametrize("case", ["R3", "R3-"])
def test_a_second_event_where_there_is_one(case: str) -> None:
    again = insert("A", 1, 8)
    assert refused(case, insert("A", 1, 5), again, then=(again,)) == ([("A", 1, 5)], [ALREADY, ALREADY])
    removed = adjust("A", 1, 5, 1)
    assert refused(case, insert("A", 1, 5), removed, again) == ([("A", 1, 8)], [])


def test_r4_takes_a_second_event() -> None:
    assert refused("R4", insert("A", 1, 5), insert("A", 1, 5)) == ([("A", 1, 5), ("A", 1, 5)], [])


def test_what_follows_an_illegal_element_is_judged_without_it() -> None:
    chain = [insert("A", 1, 5), adjust("A", 1, 7, 8), adjust("A", 1, 8, 9), adjust("A", 1, 5, 8), adjust("A", 1, 8, 9)]
    for case in ("R3", "R4"):
        assert refused(case, *chain) == ([("A", 1, 9)], [MISSING, MISSING])


@pytest.mark.parametrize("case", ["R0", "R1", "R2"])
def test_an_input_in_order_that_falls_back(case: str) -> None:
    elements = [insert("A", 3, 9), insert("B", 1, 9), insert("C", 4, 9), insert("D", 3, 9)]
    found, why = refused(case, *elements, then=(insert("E", 2, 9), insert("F", 5, 9)))
    assert found == [("A", 3, 9), ("C", 4, 9), ("F", 5, 9)]
    assert why == [f"its vs {'does not rise' if case == 'R0' else 'falls'}, and {case} asks for order"] * 3


def test_r0_takes_no_two_of_one_time() -> None:
    found, why = refused("R0", insert("A", 3, 9), insert("B", 3, 9), then=(insert("C", 3, 9),))
    assert found == [("A", 3, 9)]
    assert len(why) == 2


@pytest.mark.parametrize("case", ["R0", "R1", "R2"])
def test_an_adjust_among_inserts(case: str) -> None:
    found, why = refused(case, insert("A", 3, 9), adjust("A", 3, 9, 10), insert("B", 4, 9))
    assert found == [("A", 3, 9), ("B", 4, 9)]
    assert why == [f"it is an adjust, and {case} takes none"]


def test_r2_an_event_twice_from_one_input() -> None:
    a, b = insert("A", 3, 9), insert("B", 3, 9)
    assert refused("R2", a, b, a, then=(b, insert("C", 3, 9))) == (
        [("A", 3, 9), ("B", 3, 9), ("C", 3, 9)],
        [ALREADY, ALREADY],
    )


@pytest.mark.parametrize("case", ["R0", "R1", "R2", "R3", "R4"])
def test_elements_that_no_stream_can_have(case: str) -> None:
    bad = [
        (1, "upsert", 1, 5, None, "X"),
        (1, None, 1, 5, None, "X"),
        (1, "insert", None, 5, None, "X"),
        (1, "insert", 5, 5, None, "X"),
        (1, "adjust", 5, 4, 9, "X"),
        (1, "adjust", 5, 9, 5, "X"),
        (4, "insert", 5, 9, None, "X"),
        (9, "adjust", 5, 9, 7, "X"),
        (-(2**63) + 9, "insert", -(2**63) + 9, 9, None, "X"),
        (9, "adjust", 5, 9, 2**63 - 1, "X"),
    ]
    found, why = refused(case, insert("A", 1, 9), *bad, insert("B", 2, 9))
    assert found == [("A", 1, 9), ("B", 2, 9)]
    assert why == [
        "it is neither insert nor adjust",
        "it is neither insert nor adjust",
        "it does not say when its event begins",
        "it inserts an event that does not end after it begins",
        "it ends its event before it begins",
        "it adjusts an event that does not end after it begins",
        "its sync is not that of its times",
        "its sync is not that of its times",
        "one of its times is out of range",
        "one of its times is out of range",
    ]


def test_chains_against_one_element_after_the_other() -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        rows = int(rng.integers(0, 60))
        chain, asks, leaves = rng.integers(0, 4, rows), rng.integers(0, 4, rows), rng.integers(0, 4, rows)
        begins = rng.integers(0, 4, 4)
        there, expected = begins.copy(), []
        for c, asked, left in zip(chain, asks, leaves, strict=True):
            expected.append(bool(there[c] == asked))
            there[c] = left if expected[-1] else there[c]
        assert legal(chain, begins[chain], asks, leaves).tolist() == expected


def test_counted_chains_against_one_element_after_the_other() -> None:
    rng = np.random.default_rng(6)
    for _ in range(30):
        rows = int(rng.integers(0, 60))
        chain, leaves = rng.integers(0, 3, rows), rng.integers(0, 4, rows)
        asks = np.where(rng.random(rows) < 0.3, ABSENT, rng.integers(0, 4, rows))
        there = {(c, e): int(rng.integers(0, 2)) for c in range(3) for e in range(4)}
        known = [np.array(column) for column in zip(*((c, e, n) for (c, e), n in there.items()), strict=True)]
        expected = []
        for c, asked, left in zip(chain.tolist(), asks.tolist(), leaves.tolist(), strict=True):
            expected.append(asked == ABSENT or there[c, asked] > 0)
            if expected[-1]:
                there[c, left] += 1
                if asked != ABSENT:
                    there[c, asked] -= 1
        assert affordable(chain, asks, leaves, (known[0], known[1], known[2])).tolist() == expected


def test_who_breaks_promises_without_end_is_not_believed_any_more() -> None:
    """Each adjust of 7 to 8 makes one of 8 to 7 look legal: so only one can be judged in a round."""
    rows = 4 * MOST_ROUNDS
    asks = np.where(np.arange(rows) % 2, 8, 7)
    leaves = np.where(np.arange(rows) % 2, 7, 8)
    asks, leaves = np.append(asks, ABSENT), np.append(leaves, 5)
    chain, none = np.zeros(rows + 1, np.int64), np.zeros(0, np.int64)
    assert not affordable(chain, asks, leaves, (none, none, none))[:rows].any()


def test_a_leading_input_that_lacks_a_half_frozen_event_cannot_take_it_back() -> None:
    """in0 is stable at 5 with A in [2, 9); in1 leads from then on, and has never had A."""
    for case in ("R3", "R3-", "R4"):
        merge = Merge(2, case)
        merge.batch([([insert("A", 2, 9)], 5), ([], -INF)])
        merge.batch([([], 5), ([insert("B", 7, 9)], 8)])
        merge.batch([([], 5), ([], 20)])
        assert database(merge.elements) == [("A", 2, 9), ("B", 7, 9)]
        assert merge.slots[0].rows() == 0


def test_only_slots_are_touched_in_which_something_happens() -> None:
    for case in ("R3", "R4"):
        merge = Merge(2, case)
        merge.batch([([insert("A", 10_000 * at, INF) for at in range(20)], 5), ([], -INF)])
        slots: MemorySlots = merge.slots[0]
        before = {slot: list(parts.values()) for slot, parts in slots.held.items()}
        merge.batch([([adjust("A", 50_000, INF, 60_000)], 6), ([], -INF)])
        changed = [s for s, parts in slots.held.items() if any(a is not b for a, b in zip(parts.values(), before[s]))]  # noqa: B905
        assert len(changed) == 2, "the slot of the event, and the note on all slots"
        slots.reads = 0
        merge.batch([([], 7), ([], -INF)])
        assert slots.reads <= 4, "the slot in which the stable point lies, and the note"


def test_a_policy_must_make_sense() -> None:
    for wrong in ({"insert": "soon"}, {"insert": 0}, {"insert": 1.5}, {"insert": True}, {"adjust": "never"}):
        with pytest.raises(pk.QueryError):
            pk.merge_policy(**wrong)
