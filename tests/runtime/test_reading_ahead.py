"""Pieces of a history that are read ahead: the batch that takes them gets what it would have read itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tests.properties.test_attach import Case, opened, read_in_small_parts

import penstock as pk
from penstock.language.attaching import Order, Query
from penstock.progress.extremes import Extremes
from penstock.progress.issued import issued_by
from penstock.runtime.attaching import attached_plan
from penstock.runtime.intake import read_assignment
from penstock.runtime.job import Job
from penstock.runtime.local import LocalExecutor
from penstock.runtime.offsets import Offset, intake_offset, offset_text
from penstock.runtime.outlet import Outlet
from penstock.runtime.planner import Assignment, Planner
from penstock.runtime.prepared_rows import prepared_rows
from penstock.runtime.result import Result
from penstock.runtime.shelf import Shelf
from penstock.runtime.train import Row

PAST = "q point past"
ROWS = [(i // 2 - i % 3, "ab"[i % 2]) for i in range(60)]
CASE = Case(ROWS, 5, 7, 2, False, 8, None, None, frozenset(), 0.3)


def sums(stream: pk.Stream) -> None:
    stream.aggregate({"n": "count(*)", "s": "sum(ts / 7.0)"}, on="ts", size=5, by="k").output("sums")


def begun(folder: Path, query: Query = sums) -> tuple[Job, LocalExecutor]:
    """A run to which a query has been attached, before the batch that brings it in."""
    job = opened(CASE, folder, CASE.plan)
    executor, shelf = LocalExecutor(job), Shelf.of(job)
    for _ in range(CASE.attach):
        assert executor.step() is not None
    shelf.change(attached_plan(shelf.newest, Order(query, ("point",), "q", "beginning", 0.3)), (), 1)
    return job, executor


def finished(executor: LocalExecutor) -> list[Any]:
    """The offsets of the rest of the run, until it has nothing to do."""
    found = []
    while (record := executor.step()) is not None or (record := executor.step()) is not None:
        found.append(intake_offset(record.offset))
    executor.close()
    return found


@pytest.fixture(autouse=True)
def small_parts() -> Iterator[None]:
    with read_in_small_parts(7):
        yield


def test_a_batch_takes_pieces_and_its_offset_says_where_they_end(tmp_path: Path) -> None:
    _, executor = begun(tmp_path / "run")
    offsets = finished(executor)
    taken = [offset for offset in offsets if offset.pieces]
    assert taken
    assert all(offset.pieces[PAST][-1] == offset.inputs[PAST].position for offset in taken)
    assert not any(offset.inputs[PAST].ended for offset in taken)
    assert offsets[-1].inputs[PAST].ended
    assert all(intake_offset(offset_text(offset)) == offset for offset in offsets)


class PiecesPlannedError(Exception):
    """A batch that takes pieces is planned."""


@pytest.fixture
def taken(tmp_path: Path) -> Iterator[tuple[Job, list[Assignment]]]:
    """A job, and the pieces that a batch of it is about to take."""
    _, executor = begun(tmp_path / "run")
    assignments, found = Planner.assignments, list[tuple[Job, list[Assignment]]]()

    def spied(planner: Planner, start: Offset, end: Offset) -> list[Assignment]:
        parts = assignments(planner, start, end)
        if end.pieces:
            found.append((planner._job, [part for part in parts if part.prepared is not None]))
            raise PiecesPlannedError
        return parts

    with patch.object(Planner, "assignments", spied), pytest.raises(PiecesPlannedError):
        finished(executor)
    yield found[0]
    executor.close()


def told(rows: Sequence[Row]) -> list[Any]:
    """Rows without what takes another time each time."""
    for row in rows:
        for name in ("hops", "boxes"):
            row.header.get("content", {}).pop(name, None)
    return [(row.bucket, row.header, row.tuples() if row.is_train else None) for row in rows]


def test_what_was_read_ahead_is_what_the_batch_reads(taken: tuple[Job, list[Assignment]]) -> None:
    job, pieces = taken
    assert pieces
    for piece in pieces:
        assert piece.prepared is not None
        ahead = prepared_rows(job, piece)
        assert ahead is not None
        assert any(row.is_train for row in ahead)
        assert told(ahead) == told(list(read_assignment(job, replace(piece, prepared=None), 9)))


def test_a_piece_that_lies_elsewhere_is_read_by_the_batch(taken: tuple[Job, list[Assignment]]) -> None:
    job, (piece, *_) = taken
    expected = told(list(read_assignment(job, piece, 9)))
    assert piece.prepared is not None
    os.unlink(piece.prepared)
    assert prepared_rows(job, piece) is None
    assert told(list(read_assignment(job, piece, 9))) == expected


def test_a_file_that_is_damaged_is_not_taken(taken: tuple[Job, list[Assignment]]) -> None:
    job, (piece, *_) = taken
    assert piece.prepared is not None
    Path(piece.prepared).write_bytes(b"ARROW1 and something else")
    assert prepared_rows(job, piece) is None


def test_a_piece_with_late_tuples_is_read_by_the_batch(taken: tuple[Job, list[Assignment]]) -> None:
    job, (piece, *_) = taken
    source = next(s for s in job.plan.network.sources if s.name == PAST)
    shard = source.connector.shards()[0]
    issued = {PAST: issued_by(source, {shard: Extremes(stated=1000)})}
    assert prepared_rows(job, replace(piece, issued=issued)) is None


def test_tuples_of_no_use_are_left_out_by_the_batch(taken: tuple[Job, list[Assignment]]) -> None:
    job, (piece, *_) = taken
    assert prepared_rows(job, replace(piece, floors={PAST: {"ts": 3}})) is None


def test_a_batch_that_is_done_again_reads_its_pieces_itself_to_the_same_sums(tmp_path: Path) -> None:
    _, executor = begun(tmp_path / "calm")
    finished(executor)
    expected = Result(opened(CASE, tmp_path / "calm", CASE.plan))["sums"].to_pylist()

    _, executor = begun(tmp_path / "run")
    commit, cut = Outlet.commit, list[int]()

    def fail_once(outlet: Outlet, batch: int, rows: Any, offset: str) -> Any:
        if not cut and intake_offset(offset).pieces:
            cut.append(batch)
            raise OSError("the power is gone")
        return commit(outlet, batch, rows, offset)

    with patch.object(Outlet, "commit", fail_once), pytest.raises(OSError, match="the power is gone"):
        finished(executor)
    executor.close()
    job = opened(CASE, tmp_path / "run", CASE.plan)
    finished(LocalExecutor(job))
    assert cut
    assert Result(job)["sums"].to_pylist() == expected


def arrival(stream: pk.Stream) -> None:
    stream.aggregate({"n": "max(ts)"}, on=pk.TUPLE_NUMBER, size=3, by="k").output("threes")


def rows_too(stream: pk.Stream) -> None:
    sums(stream)
    stream.where("k = 'a'").output("rows")


@pytest.mark.parametrize("query", [arrival, rows_too])
def test_what_asks_for_the_batch_is_not_read_ahead(tmp_path: Path, query: Query) -> None:
    _, executor = begun(tmp_path / "run", query)
    offsets = finished(executor)
    assert not any(offset.pieces for offset in offsets)
    assert offsets[-1].inputs[PAST].ended
