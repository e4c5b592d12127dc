"""Which pieces of a history are ordered, and which of them a batch takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import penstock as pk
from penstock.connectors.connector import Advance, Feed, Limit, Position, Split
from penstock.language import attaching
from penstock.language.attaching import Order, Query, attach
from penstock.plan.compile import compile_network
from penstock.plan.plan import Plan
from penstock.runtime import history_pieces
from penstock.runtime.history_pieces import Done, HistoryPieces, can_be_read_ahead
from penstock.storage.folder import Folder

PAST = "q s past"
PIECE = 40


class Table(Feed):
    """A history of so many rows; a position is the next one."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def start(self) -> Position:
        return {"at": 0}

    def advance(self, position: Position, limit: Limit) -> Advance:
        rows = min(limit.rows, self.rows - position["at"])
        return Advance({"at": position["at"] + rows}, rows=rows)

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        return [Split("0", start["at"], end["at"] - start["at"])]


class Reader:
    """Does what it is told to have done."""

    def __init__(self) -> None:
        self.ordered: dict[int, tuple[int, int]] = {}
        """First row and rows of each piece."""
        self.finished: dict[int, Done] = {}
        self.rests = 0

    def order(self, number: int, version: int, splits: Sequence[tuple[str, Split]], share: float) -> None:
        ((name, split),) = splits
        assert (name, version, share) == (PAST, 3, 0.3)
        self.ordered[number] = (split.seq, split.rows)

    def finish(self, number: int, rows: int = 1, *, failed: bool = False) -> None:
        self.finished[number] = Done(rows, 8 * rows, failed)

    def done(self, number: int) -> Done | None:
        return self.finished.get(number)

    def path(self, number: int) -> str:
        return f"piece {number}"

    def forget(self, number: int) -> None:
        del self.ordered[number]

    def rest(self) -> None:
        assert not self.ordered
        self.rests += 1


def plan_with(query: Query, share: float = 0.3) -> Plan:
    net = pk.Network("live")
    source = net.source("in", pk.memory([], schema={"ts": "int64", "k": "string"}), progress=pk.ordered())
    source.connection_point("s")
    order = Order(query, ("s",), "q", "beginning", share)
    return compile_network(attach(net.network, order, lambda output: Folder("nowhere"), {}))


def counts(stream: pk.Stream) -> None:
    stream.where("k != 'c'").aggregate({"n": "count(*)"}, size=5, by="k").output("counts")


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def pieces(reader: Reader) -> Iterator[HistoryPieces]:
    with patch.object(history_pieces, "LOOK_SECONDS", 0.0), patch.object(attaching, "PIECE_ROWS", PIECE):
        yield HistoryPieces(plan_with(counts), 3, reader, itertools.count().__next__)


def look(pieces: HistoryPieces, table: Table, at: int = 0, fitting: int | None = None) -> bool:
    return pieces.reads(PAST, table, {"at": at}, ("ts",), fitting)


def test_a_few_pieces_are_ordered_one_after_the_other(pieces: HistoryPieces, reader: Reader) -> None:
    assert look(pieces, Table(1000))
    assert list(reader.ordered.values()) == [(0, 40), (40, 40), (80, 40)]
    assert look(pieces, Table(1000))
    assert len(reader.ordered) == 3


def test_a_batch_takes_what_is_done_up_to_the_first_that_is_not(pieces: HistoryPieces, reader: Reader) -> None:
    look(pieces, Table(1000))
    assert pieces.ready(PAST, 100) is None
    reader.finish(1, 5)
    assert pieces.ready(PAST, 100) is None
    reader.finish(0, 5)
    found = pieces.ready(PAST, 100)
    assert found == (Advance({"at": 80}, rows=10, bytes=80), [{"at": 40}, {"at": 80}])
    assert pieces.path(PAST, {"at": 40}, {"at": 80}) == "piece 1"
    assert pieces.path(PAST, {"at": 0}, {"at": 80}) is None


def test_a_batch_takes_one_piece_at_least_and_no_more_rows_than_it_may(pieces: HistoryPieces, reader: Reader) -> None:
    look(pieces, Table(1000))
    for number in range(3):
        reader.finish(number, 5)
    assert [len(pieces.ready(PAST, most)[1]) for most in (1, 9, 10, 14, 15)] == [1, 1, 2, 2, 3]  # type: ignore[index]


def test_pieces_that_were_taken_are_forgotten_and_others_ordered(pieces: HistoryPieces, reader: Reader) -> None:
    look(pieces, Table(1000))
    assert look(pieces, Table(1000), 80)
    assert list(reader.ordered.values()) == [(80, 40), (120, 40), (160, 40)]


def test_a_run_that_went_another_way_begins_anew(pieces: HistoryPieces, reader: Reader) -> None:
    look(pieces, Table(1000))
    assert look(pieces, Table(1000), 50)
    assert list(reader.ordered.values()) == [(50, 40), (90, 40), (130, 40)]


def test_what_is_short_is_left_to_the_run(pieces: HistoryPieces, reader: Reader) -> None:
    assert not look(pieces, Table(1))
    assert reader.rests == 1
    assert look(pieces, Table(2))
    assert list(reader.ordered.values()) == [(0, 2)]


@pytest.mark.parametrize("done", [{"rows": 21}, {"failed": True}])
def test_what_is_not_worth_it_is_given_up(pieces: HistoryPieces, reader: Reader, done: dict[str, Any]) -> None:
    look(pieces, Table(1000))
    reader.finish(1, **done)
    assert not look(pieces, Table(1000))
    assert not reader.ordered
    assert not look(pieces, Table(1000))


@pytest.mark.parametrize(("fitting", "rows"), [(None, 40), (20, 40), (4, 20), (5, 40)])
def test_pieces_are_as_long_as_the_stages_can_take(
    pieces: HistoryPieces, reader: Reader, fitting: int | None, rows: int
) -> None:
    look(pieces, Table(1000))
    reader.finish(0, 10)
    look(pieces, Table(1000), 0, fitting)
    look(pieces, Table(1000), 40, fitting)
    assert list(reader.ordered.values())[-1] == (120, rows)


@pytest.mark.parametrize(("fitting", "rows"), [(20, 40), (2, 20)])
def test_shorter_pieces_become_longer_again(pieces: HistoryPieces, reader: Reader, fitting: int, rows: int) -> None:
    look(pieces, Table(1000))
    reader.finish(0, 10)
    look(pieces, Table(1000), 0, 4)
    look(pieces, Table(1000), 40, 4)
    assert list(reader.ordered.values())[-1] == (120, 20)
    reader.finish(3, 2)
    look(pieces, Table(1000), 40, fitting)
    look(pieces, Table(1000), 120, fitting)
    assert list(reader.ordered.values())[-1] == (140 + rows, rows)


def with_rows(stream: pk.Stream) -> None:
    counts(stream)
    stream.output("rows")


def numbered(stream: pk.Stream) -> None:
    stream.aggregate({"n": "max(ts)"}, on=pk.TUPLE_NUMBER, size=3, by="k").output("numbered")


def looked_up(stream: pk.Stream) -> None:
    names = pk.table(pa.table({"k": ["a"], "name": ["one"]}))
    stream.join(names, "l.k = r.k").aggregate({"n": "count(*)"}, size=5).output("looked_up")


@pytest.mark.parametrize(
    ("query", "ahead"), [(counts, True), (with_rows, False), (numbered, False), (looked_up, False)]
)
def test_only_what_depends_on_its_tuples_alone_is_read_ahead(query: Query, ahead: bool) -> None:
    plan = plan_with(query)
    assert can_be_read_ahead(plan, plan.network.sources[1]) is ahead


def test_other_inputs_are_not_read_ahead(reader: Reader) -> None:
    pieces = HistoryPieces(plan_with(counts), 3, reader, int)
    assert not pieces.reads("in", Table(1000), {"at": 0}, ("ts",), None)
    assert not look(HistoryPieces(plan_with(counts), 3, None, int), Table(1000))
