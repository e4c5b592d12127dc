"""What buckets of a stage tell the next one of their progress."""

from __future__ import annotations

from penstock.algebra.marks import UNKNOWN, Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.progress.between_stages import heard, rolled_up

SHAPE = Marks({"ts": BEGINNING, "at": BEGINNING}, joint=({"l": BEGINNING}, {"r": BEGINNING}))


def test_marks_are_rolled_up_downwards_and_without_pairs() -> None:
    told = Marks({"ts": 17, "at": -1}, {"left": 19}, ({"l": 3}, {"r": 4}), True)
    assert rolled_up(told, 10) == Marks({"ts": 10, "at": -10}, {"left": 10}, ended=True)
    assert rolled_up(Marks({"ts": END, "at": BEGINNING}), 10) == Marks({"ts": END, "at": BEGINNING})


def test_nothing_is_known_before_all_buckets_have_spoken() -> None:
    one, other = Marks({"ts": 30, "at": 5}, ended=True), Marks({"ts": 10, "at": 9}, ended=True)
    assert heard(SHAPE, [one], 2) == SHAPE.alone
    assert heard(SHAPE, [one, other], 2) == Marks({"ts": 10, "at": 5}, ended=True)


def test_a_bucket_that_says_nothing_of_a_box_holds_it_back() -> None:
    assert heard(SHAPE, [Marks({"ts": 30, "at": 5}), UNKNOWN], 2) == SHAPE.alone
