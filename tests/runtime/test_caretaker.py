"""Work beside a run: one piece at a time, never the run's end, and over when the run is."""

from __future__ import annotations

import logging
import threading

import pytest

from penstock.errors import WorldError
from penstock.runtime.caretaker import Caretaker


def nothing() -> None:
    return


def test_what_comes_while_there_is_work_for_an_output_is_left_out() -> None:
    caretaker, go, done = Caretaker(), threading.Event(), list[str]()
    caretaker.take("a", lambda: (go.wait(10), done.append("first"))[1], nothing)
    caretaker.take("a", lambda: done.append("second"), nothing)
    go.set()
    caretaker.close()
    assert done == ["first"]


def test_closing_waits_for_what_is_under_way_and_leaves_out_the_rest() -> None:
    caretaker, begun, go, done = Caretaker(), threading.Event(), threading.Event(), list[str]()
    caretaker.take("a", lambda: (begun.set(), go.wait(10), done.append("a"))[2], nothing)
    begun.wait(10)
    caretaker.take("b", lambda: done.append("b"), nothing)
    threading.Timer(0.1, go.set).start()
    caretaker.close()
    caretaker.close()
    assert done == ["a"]


def test_what_fails_is_told_and_the_next_is_done(caplog: pytest.LogCaptureFixture) -> None:
    caretaker, done = Caretaker(), list[str]()

    def fail() -> None:
        raise WorldError("the disk is full")

    with caplog.at_level(logging.WARNING, "penstock.upkeep"):
        caretaker.take("a", fail, nothing)
        caretaker.take("b", lambda: done.append("b"), nothing)
        caretaker._under_way["b"].result(10)
        caretaker.close()
    assert done == ["b"]
    assert "the place of output 'a' could not be looked after: the disk is full" in caplog.text


def test_who_has_lost_the_checkpoint_does_nothing_any_more() -> None:
    caretaker, done = Caretaker(), list[str]()

    def refuse() -> None:
        raise WorldError("another process has the checkpoint")

    caretaker.take("a", lambda: done.append("a"), refuse)
    caretaker._under_way["a"].result(10)
    caretaker.close()
    assert done == []
