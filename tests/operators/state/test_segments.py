"""Tuples kept by time: what is found, what is let go of, and how many slots it takes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.algebra.ticks import BEGINNING, END
from penstock.operators.state.chunks import MERGE_CHUNKS
from penstock.operators.state.segments import MOST_SEGMENTS, SIDES, Segment, Segments
from penstock.testing.memory_slots import MemorySlots


def store(side: int = 0, slots: MemorySlots | None = None) -> tuple[Segments, MemorySlots]:
    slots = slots if slots is not None else MemorySlots()
    return Segments(slots, side, "part", "ts"), slots


def times(*ticks: int) -> pa.Table:
    return pa.table({"ts": pa.array(ticks, pa.int64())})


def found(segments: Segments, low: int = BEGINNING, high: int = END) -> list[int]:
    return sorted(t for chunk in segments.read(low, high) for t in chunk["ts"].to_pylist() if low <= t <= high)


@pytest.mark.parametrize("number", [-(2**62), -5, -1, 0, 1, 7, 2**62])
@pytest.mark.parametrize("level", [0, 1, 17, 63])
@pytest.mark.parametrize("side", range(SIDES))
def test_a_slot_says_which_segment_it_is(number: int, level: int, side: int) -> None:
    slot = Segment(level, number).slot(side)
    assert (Segment.of(slot), slot % SIDES) == (Segment(level, number), side)


@pytest.mark.parametrize("unit", [1, 1000, 10**12])
def test_what_lies_in_a_range_is_found_and_the_rest_not_read(unit: int) -> None:
    segments, slots = store()
    ticks = [t * unit for t in range(-500, 500)]
    segments.add(times(*ticks))
    assert 4 <= len(slots.numbers()) <= 20
    slots.reads = 0
    assert found(segments, -30 * unit, 30 * unit) == [t * unit for t in range(-30, 31)]
    assert slots.reads <= 3


def test_stores_do_not_see_each_other() -> None:
    one, slots = store(0)
    other, _ = store(1, slots)
    one.add(times(1, 2))
    other.add(times(2, 3))
    assert (found(one), found(other)) == ([1, 2], [2, 3])
    assert other.sift(BEGINNING, END, lambda t: np.zeros(t.num_rows, bool)) == 2
    assert (found(one), found(other)) == ([1, 2], [])


def test_only_segments_that_lose_something_are_rewritten() -> None:
    segments, slots = store()
    segments.add(times(*range(1000)))
    before = {slot: parts["part"][0] for slot, parts in slots.held.items()}
    assert segments.sift(BEGINNING, 309, lambda t: t["ts"].to_numpy() >= 310) == 310
    assert found(segments) == list(range(310, 1000))
    same = [slot for slot, chunk in before.items() if slots.held.get(slot, {}).get("part", [None])[0] is chunk]
    assert len(same) == sum(Segment.of(slot).low >= 310 for slot in before)


def test_single_tuples_do_not_take_a_slot_each_for_ever() -> None:
    segments, slots = store()
    for tick in range(0, 3000, 10):
        segments.add(times(tick))
        assert len(slots.numbers()) <= MOST_SEGMENTS + 1
    assert found(segments) == list(range(0, 3000, 10))


def test_a_segment_gathers_a_bounded_number_of_chunks() -> None:
    segments, slots = store()
    for _ in range(3 * MERGE_CHUNKS):
        segments.add(times(5))
        assert slots.count(Segment(0, 5).slot(0), "part") < MERGE_CHUNKS
    assert found(segments) == [5] * 3 * MERGE_CHUNKS


def test_the_whole_scale_fits() -> None:
    segments, _ = store()
    ticks = [-(2**63) + 1, -1, 0, 2**63 - 2]
    segments.add(times(*ticks))
    assert found(segments) == ticks
    for tick in range(MOST_SEGMENTS):
        segments.add(times(tick * 2**50))
    assert len(found(segments)) == len(ticks) + MOST_SEGMENTS
