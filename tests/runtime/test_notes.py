"""Notes: what tasks tell a stage and the outlet survives the way through a row."""

from __future__ import annotations

from dataclasses import fields

import pytest

import penstock as pk
from penstock.algebra.marks import Mark, Marks
from penstock.algebra.ticks import BEGINNING
from penstock.connectors.targets.target import Receipt, StagedFile
from penstock.progress.disorder import Disorder, Stretch
from penstock.progress.extremes import Extremes, Highest, Reach
from penstock.runtime.control import Control
from penstock.runtime.notes import FORMAT, Note, Report
from penstock.runtime.refusals import Refusal, Refusals
from penstock.runtime.train import OUTLET, Row, from_batches, to_batch
from penstock.runtime.work import BoxWork, InputCount

SEEN = {"in": {"a": Extremes(5, 4, False, 9, 2, {"b": Reach(1, 2, Highest(2, (3, 1)))}, Highest(3, (9, 4)))}}

NOTE = Note(
    "stage 1 bucket 0003",
    shards=SEEN,
    known={"in": {"b": Extremes(ended=True)}},
    control=Control(7, {"ports": "v2"}, "from", "to", 1),
    marks={"counts": Marks({"ts": BEGINNING})},
)
REPORT = Report(
    "stage 2 bucket 0001",
    now=7,
    shards=SEEN,
    inputs={"in": InputCount(10, 7, 1, 1, 1)},
    refusals={"in": Refusals({"NULL": Refusal("NULL", 2, "ts is NULL", "a.csv", None)}, 1)},
    disorder={"in": {"a": {"ts": Stretch(1, 9, Disorder(4, 3, {"12": 2}))}}},
    said=(("ETS", "in", "a", Marks({"ts": 5})),),
    boxes={"counts": BoxWork(7, 3, 0.5, 2, 5, 1)},
    bucket=1,
    marks={"counts": Marks({"ts": 3}, {"left": 2}, ({"l_ts": 1}, {"r_ts": 2}), True)},
    wake=0,
    needs={"counts": [(0, "ts", 8)]},
    ways={"counts": ({Mark("l_ts", "left"): 3, Mark("r_ts", "right"): 4},)},
    behind={"counts": "group 'x'"},
    hops={"counts": (3, 4)},
    receipts={"out": [Receipt(3, 1, (StagedFile("a", 1, 9, (("day", None),)),))]},
)


def through_a_row(row: Row) -> Row:
    (arrived,) = from_batches([to_batch(row)])
    assert not arrived.is_train
    assert arrived.body is None
    return arrived


def says_everything(told: Note | Report) -> bool:
    nothing = type(told)("")
    return all(getattr(told, each.name) != getattr(nothing, each.name) for each in fields(told))


def test_a_note_reaches_every_bucket_of_a_stage() -> None:
    assert says_everything(NOTE)
    rows = [through_a_row(row) for row in NOTE.rows(2, 3)]
    assert [(row.stage, row.bucket) for row in rows] == [(2, 0), (2, 1), (2, 2)]
    assert [Note.from_row(row) for row in rows] == [NOTE] * 3


def test_a_report_reaches_the_outlet() -> None:
    assert says_everything(REPORT)
    row = through_a_row(REPORT.row(1))
    assert (row.stage, row.bucket) == (OUTLET, 1)
    assert Report.from_row(row) == REPORT


def test_what_says_nothing_is_left_out() -> None:
    assert Note("intake 0000").to_json() == {"format": FORMAT}
    assert Report("intake 0000").to_json() == {"format": FORMAT, "now": 0, "bucket": 0}
    assert Note.from_json("intake 0000", {"format": FORMAT}) == Note("intake 0000")
    assert Report.from_json("intake 0000", {"format": FORMAT}) == Report("intake 0000")


@pytest.mark.parametrize("kind", [Note, Report])
@pytest.mark.parametrize(("document", "word"), [({"format": FORMAT + 1}, "newer"), ({}, "older")])
def test_another_format_is_refused(kind: type[Note] | type[Report], document: dict[str, int], word: str) -> None:
    with pytest.raises(pk.WorldError, match=rf"(?s){word} version of Penstock.*format {FORMAT}\n.*format \d"):
        kind.from_json("intake 0000", document)
