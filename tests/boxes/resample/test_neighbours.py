"""Windows around left tuples, found along the right ones, against every pair compared."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.resample.neighbours import earlier, horizon, later, reach


@pytest.mark.parametrize("seed", range(20))
def test_every_window_that_is_not_empty_is_met_once_with_its_first_and_last_tuple(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left = np.sort(rng.integers(-20, 20, rng.integers(0, 15)))
    groups, right = rng.integers(0, 3, 25), rng.integers(-20, 20, 25)
    order = np.lexsort((right, groups))
    groups, right = groups[order], right[order]
    size = int(rng.integers(0, 9))
    since, until = np.sort(rng.integers(-30, 30, (2, 3)), axis=0)
    found = reach(left, right, groups, size, since, until)
    expected = [
        (i, int(inside[0]), int(inside[-1]))
        for g in range(3)
        for i, tick in enumerate(left)
        if since[g] <= tick + size < until[g]
        and len(inside := np.flatnonzero((groups == g) & (abs(right - tick) <= size)))
    ]
    windows = found.windows(0, len(left))
    assert list(zip(windows.left, windows.first, windows.last, strict=True)) == expected
    pieces = [found.windows(low, high) for low, high in found.pieces(3)]
    met = [w for p in pieces for w in zip(p.left, p.first, p.last, strict=True)]
    assert sorted(met) == sorted(expected)


def test_ticks_stop_at_the_ends_of_the_scale() -> None:
    ticks = np.array([BEGINNING, BEGINNING + 3, 0, END - 3, END])
    assert later(ticks, 5).tolist() == [BEGINNING + 5, BEGINNING + 8, 5, END, END]
    assert earlier(ticks, 5).tolist() == [BEGINNING, BEGINNING, -5, END - 8, END - 5]
    # A window is complete at END, wherever it ends.
    assert horizon(ticks, 5).tolist() == [BEGINNING + 5, BEGINNING + 8, 5, END - 1, END - 1]
