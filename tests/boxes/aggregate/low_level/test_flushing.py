"""Which old entries leave: at once, slowly, lazily, in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.algebra.ticks import BEGINNING, END
from penstock.algebra.window import Window
from penstock.boxes.aggregate.entry import PANE
from penstock.boxes.aggregate.low_level.box import AtOnce, Flush, InOrder, Lazy, Slow
from penstock.boxes.aggregate.low_level.entries import PLACE, Entries
from penstock.boxes.aggregate.low_level.flushing import Moment, Turn, flushing
from penstock.testing.memory_slots import MemorySlots

MINUTE = Window(60, 60)
START = Turn()


def leaving(
    flush: Flush, panes: list[int], mark: int, *, tuples: int = 0, turn: Turn = START, ejected: int | None = None
) -> tuple[list[int], Turn]:
    """The places that leave: the entry of place i has the i-th pane."""
    gone, after = flushing(flush, MINUTE).flush(entries_of(panes), Moment(mark, tuples, ejected), turn)
    return places_of(gone), after


def entries_of(panes: list[int]) -> Entries:
    """A table with an entry of each pane, from place 0 on."""
    entries = Entries(MemorySlots(), len(panes))
    entries.put(pa.table({PLACE: np.arange(len(panes)), PANE: np.array(panes, np.int64)}))
    return entries


def places_of(gone: list[pa.Table]) -> list[int]:
    return sorted(place for table in gone for place in table.column(PLACE).to_pylist())


@pytest.mark.parametrize(
    ("flush", "mark", "places"),
    [
        (AtOnce(), 59, []),
        (AtOnce(), 60, [0]),
        (AtOnce(), 125, [0, 1]),
        (Lazy(0), 60, [0]),
        (Lazy(2), 60, []),
        (Lazy(2), 179, []),
        (Lazy(2), 180, [0]),
        (Slow(2), 180, [0]),
        (InOrder(), 119, []),
        (InOrder(), 120, [0]),
    ],
)
def test_what_is_overdue_leaves_without_a_tuple(flush: Flush, mark: int, places: list[int]) -> None:
    assert leaving(flush, [0, 1, 2, 3], mark)[0] == places


@pytest.mark.parametrize("flush", [AtOnce(), Lazy(2), Slow(2), InOrder()])
def test_all_leave_at_the_end_and_none_before_anything_is_known(flush: Flush) -> None:
    assert leaving(flush, [0, -5, 2**60], END)[0] == [0, 1, 2]
    assert leaving(flush, [0, -5, 2**60], BEGINNING, tuples=1000)[0] == []


def test_slow_flush_goes_round_the_table_and_skips_what_is_not_old() -> None:
    """
    places  0  1  2  3  4  5
    panes   0  7  0  0  7  0      the mark is in pane 7, its entries are new; one turn for every 10 tuples
    """
    panes, slow = [0, 7, 0, 0, 7, 0], Slow(delay=100, every=10)
    places, turn = leaving(slow, panes, 7 * 60, tuples=25)
    assert (places, turn) == ([0, 2], Turn(3, 5))
    places, turn = leaving(slow, panes, 7 * 60, tuples=5, turn=Turn(3, 5))
    assert (places, turn) == ([3], Turn(4, 0))
    places, turn = leaving(slow, panes, 7 * 60, tuples=20, turn=Turn(4, 0))
    assert (places, turn) == ([0, 5], Turn(1, 0))


def test_turns_are_not_saved_up_while_nothing_is_old() -> None:
    slow = Slow(delay=100, every=10)
    assert leaving(slow, [7, 7], 7 * 60, tuples=1004) == ([], Turn(0, 4))


def test_a_batch_with_too_few_tuples_counts_towards_the_next_turn() -> None:
    slow, turn = Slow(delay=100, every=10), Turn()
    left = []
    for _ in range(5):
        places, turn = leaving(slow, [0, 0, 0], 60, tuples=4, turn=turn)
        left.append(places)
    assert left == [[], [], [0], [], [1]]


def test_in_order_all_before_an_ejected_entry_leave_first() -> None:
    assert leaving(InOrder(), [0, 1, 1, 0], 60, ejected=1)[0] == [0, 3]
    assert leaving(InOrder(), [0, 1, 1, 0], 60, ejected=0)[0] == []
    assert leaving(Slow(), [0, 1, 1, 0], 60, ejected=1)[0] == []


def test_in_order_the_oldest_pane_has_its_turn_first() -> None:
    # Sliding windows have several old panes that are not overdue.
    gone, turn = flushing(InOrder(), Window(6, 4)).flush(entries_of([4, 3, 4, 3]), Moment(10, 3), Turn(2, 0))
    assert places_of(gone) == [1, 2, 3]
    assert turn.position == 3
