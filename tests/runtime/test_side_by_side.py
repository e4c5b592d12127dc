"""Pieces of work in threads: their order, their errors, and what they see."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from penstock.runtime.side_by_side import side_by_side

seen: ContextVar[str] = ContextVar("seen", default="")


def piece(number: int, seconds: float) -> Callable[[], int]:
    def work() -> int:
        time.sleep(seconds)
        return number

    return work


def test_results_are_in_the_order_of_the_pieces_whoever_is_done_first() -> None:
    assert side_by_side([piece(1, 0.05), piece(2, 0.0), piece(3, 0.02)], threads=3) == [1, 2, 3]


def test_pieces_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=10)
    assert sorted(side_by_side([both.wait, both.wait], threads=2)) == [0, 1]


def test_one_thread_is_the_callers_own() -> None:
    assert side_by_side([threading.get_ident] * 2, threads=1) == [threading.get_ident()] * 2


def test_the_error_of_the_first_piece_is_raised_when_all_have_ended() -> None:
    ended: list[str] = []
    quick_has_ended = threading.Event()

    def slow() -> None:
        assert quick_has_ended.wait(60)
        ended.append("slow")
        raise ValueError("slow")

    def quick() -> None:
        ended.append("quick")
        quick_has_ended.set()
        raise ValueError("quick")

    with pytest.raises(ValueError, match="slow"):
        side_by_side([slow, quick], threads=2)
    assert ended == ["quick", "slow"]


def test_pieces_see_what_the_caller_has_set() -> None:
    before = seen.set("here")
    try:
        assert side_by_side([seen.get, seen.get], threads=2) == ["here", "here"]
    finally:
        seen.reset(before)
