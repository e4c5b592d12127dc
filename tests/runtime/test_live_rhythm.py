"""When live tuples are due, by when they have come.

```
 0    1    2    3    4    5    6
 |    |    |    |    due
 came came came came
```
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.live_rhythm import LiveRhythm

LOOK = 0.01


class Watch:
    """Somebody who looks every hundredth of a second, but not while busy."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rhythm = LiveRhythm(lambda: self.now)

    def look_until(self, end: float, arrivals: list[float], busy: tuple[float, float] = (-1.0, -1.0)) -> None:
        left = [at for at in arrivals if at >= self.now]
        while self.now < end:
            self.now += LOOK
            if not busy[0] < self.now < busy[1]:
                came = [at for at in left if at <= self.now]
                left = left[len(came) :]
                self.rhythm.look(came=bool(came))


def test_the_next_ones_are_due_a_usual_gap_behind_the_last() -> None:
    watch = Watch()
    watch.look_until(4.5, [1.0, 2.0, 3.0, 4.0])
    assert watch.rhythm.gap == pytest.approx(1.0, abs=2 * LOOK)
    assert watch.rhythm.due == pytest.approx(5.0, abs=4 * LOOK)


def test_nobody_knows_what_is_usual_before_some_have_come() -> None:
    watch = Watch()
    watch.look_until(3.5, [1.0, 2.0, 3.0])
    assert watch.rhythm.gap is None
    assert watch.rhythm.due is None


def test_what_came_while_nobody_looked_came_when_it_was_due() -> None:
    watch = Watch()
    watch.look_until(5.5, [1.0, 2.0, 3.0, 4.0, 5.0], busy=(4.9, 5.4))
    assert watch.rhythm.due == pytest.approx(6.0, abs=6 * LOOK)


def test_a_gap_that_was_odd_does_not_change_what_is_usual() -> None:
    watch = Watch()
    watch.look_until(12.5, [1.0, 2.0, 3.0, 4.0, 5.0, 11.0, 12.0])
    assert watch.rhythm.gap == pytest.approx(1.0, abs=2 * LOOK)
    assert watch.rhythm.due == pytest.approx(13.0, abs=4 * LOOK)


def test_what_has_not_come_for_long_is_not_due_any_more() -> None:
    watch = Watch()
    watch.look_until(5.4, [1.0, 2.0, 3.0, 4.0])
    assert watch.rhythm.due is not None
    watch.look_until(5.7, [])
    assert watch.rhythm.due is None


@given(st.lists(st.tuples(st.floats(0.001, 5.0), st.booleans()), max_size=40))
def test_whatever_comes_the_next_is_due_at_most_a_gap_from_now(looks: list[tuple[float, bool]]) -> None:
    watch = Watch()
    for seconds, came in looks:
        watch.now += seconds
        watch.rhythm.look(came=came)
        gap, due = watch.rhythm.gap, watch.rhythm.due
        assert gap is None or gap >= 0
        assert due is None or (gap is not None and watch.now - gap <= due <= watch.now + gap)
