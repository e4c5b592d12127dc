"""The board: one record per batch, and what follows from it."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

import penstock as pk
from penstock.algebra.marks import Mark, Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.progress.disorder import Disorder
from penstock.progress.extremes import Extremes
from penstock.progress.issued import Issued
from penstock.runtime.board import KEEP_RECORDS, Board, Need, Record
from penstock.runtime.refusals import Refusal, Refusals
from penstock.runtime.traces import Hop, Trace
from penstock.runtime.work import BoxWork, InputCount
from penstock.storage.disk import finish_forgetting
from penstock.storage.folder import Folder


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(Folder(str(tmp_path / "board")))


def test_a_record_survives_the_way_through_json() -> None:
    record = Record(
        3,
        {"in": {"a": Extremes(5, BEGINNING, False), "b": Extremes(ended=True)}},
        {"in": Marks({"ts": END}, {"left": 3}, ended=True)},
        {"counts": {"0": Marks({"ts": -7}, joint=({"l": 1}, {"r": 2}))}},
        {"in": InputCount(10, 7, 1, 1, 1)},
        {"counts": BoxWork(7, 3, 0.5, 2, 5, 1)},
        {"out": 3},
        wake=9,
        waiting=(Need("counts", 0, "ts", 10, 5, 3, ({Mark("l", "left"): 1, Mark("r", "right"): 2},)),),
        now=8,
        began=1,
        behind={"counts": "group 'x'"},
        traces=(Trace("3.0", "ETS", "in", "a", "ts >= 5", 3, 8, (Hop("intake", 8, 9), Hop("outlet", 9, 10, 1, 1))),),
        epoch=2,
        offset="the offset",
        digest="a1",
        committed={"out": 3},
        refusals={"in": Refusals({"NULL": Refusal("NULL", 1, "ts is NULL", "a.csv", None)})},
        disorder={"in": {"ts": Disorder(9, 4, {"12": 2})}},
        version=2,
    )
    assert all(getattr(record, each.name) != getattr(Record(), each.name) for each in fields(Record))
    assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_before_the_first_batch_the_board_is_empty(board: Board) -> None:
    assert board.newest() == -1
    assert board.latest() == Record()


def test_the_latest_record_is_that_of_the_newest_batch(board: Board) -> None:
    for batch in (0, 1, 2):
        board.post(Record(batch, outputs={"out": batch * 10}))
    assert board.newest() == 2
    assert board.latest().outputs == {"out": 20}
    assert board.at(1).outputs == {"out": 10}
    board.post(Record(2, outputs={"out": 21}))
    assert board.latest().outputs == {"out": 21}


def test_only_the_last_records_are_kept(board: Board, tmp_path: Path) -> None:
    for batch in range(KEEP_RECORDS + 5):
        board.post(Record(batch))
    finish_forgetting()
    assert len(list((tmp_path / "board").iterdir())) == KEEP_RECORDS
    assert board.newest() == KEEP_RECORDS + 4


def test_a_run_has_ended_when_every_shard_of_every_input_has() -> None:
    ended, alive = Extremes(ended=True), Extremes(largest=5)
    assert not Record().ended
    assert not Record(shards={"one": {"0": ended}, "two": {"a": ended, "b": alive}}).ended
    assert Record(shards={"one": {"0": ended}, "two": {"a": ended, "b": ended}}).ended


def test_a_record_tells_what_an_input_and_its_shards_have_stated() -> None:
    net = pk.Network("net")
    net.source("in", pk.memory([], schema={"ts": "int64"}), progress=pk.delayed(2)).output("out")
    (source,) = net.network.sources
    assert Record(shards={"in": {"a": Extremes(largest=9)}}).issued(source) == Issued(
        Marks({"ts": 7}), {"a": Marks({"ts": 7})}, {"a": {"ts": 9}}
    )
