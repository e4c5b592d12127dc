"""The windows of rows, computed for many groups at once, are those that one finds by trying."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.algebra.ticks import BEGINNING, END
from penstock.algebra.window import Window
from penstock.boxes.aggregate.by_group.window_starts import OpenedStarts, PeriodicStarts, Starts, limits
from penstock.boxes.aggregate.group_windows import NO_WINDOWS, Windows

TICKS = st.integers(-30, 30)
ROWS = st.lists(st.tuples(st.integers(0, 2), TICKS), max_size=12)
LIMITS = st.lists(st.one_of(TICKS, st.sampled_from([BEGINNING, END])), min_size=3, max_size=3)


@st.composite
def periodic(draw: Any) -> tuple[Starts, dict[int, list[int]], list[tuple[int, int]]]:
    size, advance = draw(st.integers(1, 9)), draw(st.integers(1, 12))
    bounded = draw(st.booleans())
    origins = draw(st.lists(st.integers(-30, 30), min_size=3, max_size=3)) if bounded else [0, 0, 0]
    # A bounded row never lies before the origin of its group.
    rows = [(g, max(t, origins[g]) if bounded else t) for g, t in draw(ROWS)]
    steps = range(0 if bounded else -80, 90)
    windows = {g: [origins[g] + w * advance for w in steps] for g in range(3)}
    return PeriodicStarts(Window(size, advance), np.array(origins), bounded=bounded), windows, rows


@st.composite
def opened(draw: Any) -> tuple[Starts, dict[int, list[int]], list[tuple[int, int]]]:
    rows = draw(ROWS)
    pairs = Windows.of(*(np.array(c, np.int64) for c in zip(*rows[::2], strict=True))) if rows else NO_WINDOWS
    windows = {g: pairs.starts[pairs.groups == g].tolist() for g in range(3)}
    return OpenedStarts(draw(st.integers(1, 9)), pairs), windows, rows


def pairs(windows: Windows) -> list[tuple[int, int]]:
    return list(zip(windows.groups.tolist(), windows.starts.tolist(), strict=True))


@pytest.mark.parametrize("kind", [periodic, opened])
def test_starts_are_those_of_the_windows_around_each_row(kind: Any) -> None:
    @given(made=kind(), limit=LIMITS, later=LIMITS)
    def agrees(made: Any, limit: list[int], later: list[int]) -> None:
        starts, windows, rows = made
        groups, ticks = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
        bound, upper = np.array(limit), np.array([max(a, b) for a, b in zip(limit, later, strict=True)])
        around = [[s for s in windows[g] if s <= t < s + starts.size] for g, t in rows]
        still = [[s for s in found if s > bound[g]] for found, (g, _) in zip(around, rows, strict=True)]
        waiting = sorted({(g, s) for found, (g, _) in zip(still, rows, strict=True) for s in found})
        assert pairs(starts.open(groups, ticks, bound)) == waiting
        assert starts.count(groups, ticks, bound).tolist() == [len(found) for found in still]
        lowest = starts.lowest(groups, ticks, bound, NO_WINDOWS).tolist()
        assert lowest == [min(found, default=END) for found in still]
        number = starts.number(groups, ticks, bound, groups, 3)
        assert number.tolist() == [sum(g == group for g, _ in waiting) for group in range(3)]
        if isinstance(starts, PeriodicStarts):
            closed = {(g, s) for g, s in waiting if s <= upper[g]}
            assert pairs(starts.closed(groups, ticks, bound, upper)) == sorted(closed)
            same = starts.aligned(groups, ticks)
            assert [[s for s in windows[g] if s <= t < s + starts.size] for g, t in zip(groups, same, strict=True)] == (
                around
            )
        gone = Windows.of(*(np.array(c, np.int64) for c in zip(*waiting[::2], strict=True))) if waiting else NO_WINDOWS
        left = [[s for s in found if (g, s) not in waiting[::2]] for found, (g, _) in zip(still, rows, strict=True)]
        assert starts.lowest(groups, ticks, bound, gone).tolist() == [min(found, default=END) for found in left]

    agrees()


def test_limits_keep_infinities() -> None:
    assert limits(np.array([BEGINNING, BEGINNING + 3, 0, END]), 5).tolist() == [BEGINNING, BEGINNING, -5, END]
