"""Processes that read pieces of a history ahead: what they leave, and what becomes of those that end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.properties.test_attach import read_in_small_parts
from tests.runtime.test_reading_ahead import PAST, begun

from penstock.connectors.connector import Limit
from penstock.connectors.journal import FileJournal
from penstock.runtime.history_pieces import Done
from penstock.runtime.reading_ahead import read_ahead
from penstock.runtime.shelf import Shelf
from penstock.spark.carrier import ship
from penstock.spark.fork_client import PLACE
from penstock.spark.reading_process import ReadingProcesses
from penstock.spark.warm_start import WarmStart

Order = Callable[[int], None]


@pytest.fixture(params=["forked", "started"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Whether there is a process from which readers are forked; the fixture lives as long as that process."""
    if request.param == "started":
        monkeypatch.delenv(PLACE, raising=False)
        yield request.param
        return
    warm = WarmStart()
    monkeypatch.setenv(PLACE, str(Path(warm.executable).parent / "forks"))
    yield request.param
    del warm


@pytest.fixture
def readers(tmp_path: Path, how: str) -> Iterator[tuple[ReadingProcesses, Order, Done]]:
    """Readers, how they are told to read a history, and what must come of it."""
    with read_in_small_parts(7):
        job, executor = begun(tmp_path / "run")
        newest = Shelf.of(job).newest
    source = next(s for s in newest.plan.network.sources if s.name == PAST)
    feed = source.connector.open(source.delivered, FileJournal(str(tmp_path / "journal.jsonl"), False))
    splits = [(PAST, split) for split in feed.splits(feed.start(), feed.advance(feed.start(), Limit(30)).position)]
    ticket = ship(newest)
    found = ReadingProcesses(str(tmp_path), lambda version: ticket)
    yield found, lambda number: found.order(number, 2, splits, 0.3), read_ahead(newest, splits, str(tmp_path / "here"))
    found.rest()
    executor.close()


def awaited(readers: ReadingProcesses, number: int) -> Done:
    deadline = time.monotonic() + 120
    while (done := readers.done(number)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return done


def processes() -> set[psutil.Process]:
    """The readers of this process: those that it has started, and those that were forked for it."""
    own = psutil.Process().children(recursive=True)
    words = {child: " ".join(child.cmdline()) for child in own if child.status() != psutil.STATUS_ZOMBIE}
    started = {child for child in words if "penstock.spark.reading_process" in words[child]}
    forked = {child for child in words if "penstock.spark.fork_server" in words[child]} - set(
        psutil.Process().children()
    )
    return started | forked


def test_a_piece_is_read_to_its_file(readers: tuple[ReadingProcesses, Order, Done]) -> None:
    found, order, expected = readers
    order(4)
    assert found.done(4) is None
    assert awaited(found, 4) == expected
    assert expected.rows > 0
    assert os.path.exists(found.path(4))
    found.forget(4)
    assert not os.path.exists(found.path(4))


def test_who_rests_begins_anew_with_the_next_order(readers: tuple[ReadingProcesses, Order, Done]) -> None:
    found, order, expected = readers
    before = processes()
    order(0)
    awaited(found, 0)
    (reader,) = processes() - before
    found.forget(0)
    found.rest()
    reader.wait(60)
    order(1)
    assert awaited(found, 1) == expected


def test_what_a_process_leaves_undone_is_read_by_the_run(readers: tuple[ReadingProcesses, Order, Done]) -> None:
    found, order, _ = readers
    before = processes()
    order(0)
    (reader,) = processes() - before
    reader.kill()
    order(1)
    assert awaited(found, 0).failed
    assert awaited(found, 1).failed


def test_readers_are_forked_where_somebody_forks(readers: tuple[ReadingProcesses, Order, Done], how: str) -> None:
    found, order, _ = readers
    before = processes()
    order(0)
    awaited(found, 0)
    (reader,) = processes() - before
    assert ("fork_server" in " ".join(reader.cmdline())) == (how == "forked")


def test_without_a_server_readers_are_started(
    readers: tuple[ReadingProcesses, Order, Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, order, expected = readers
    monkeypatch.setenv(PLACE, "/nowhere/at all")
    order(0)
    assert awaited(found, 0) == expected


def test_what_cannot_be_read_is_told_and_others_are_read(
    readers: tuple[ReadingProcesses, Order, Done], tmp_path: Path
) -> None:
    found, order, expected = readers
    os.makedirs(found.path(0))
    order(0)
    order(1)
    assert awaited(found, 0).failed
    assert awaited(found, 1) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such class of processes")
def test_readers_take_only_the_time_that_nobody_else_wants(readers: tuple[ReadingProcesses, Order, Done]) -> None:
    found, order, _ = readers
    before = processes()
    order(0)
    awaited(found, 0)
    (reader,) = processes() - before
    assert reader.nice() == 19
    assert os.sched_getscheduler(reader.pid) == os.SCHED_IDLE
