"""Punctuation in the commits of a Delta table: what a network says there, and what one that reads the table hears."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from tests.connectors.conftest import EVERYTHING

import penstock as pk
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.connectors.connector import Feed, Limit, Position
from penstock.connectors.delta.commit_marks import KEY, CommitMarks, Standing, convert_tick
from penstock.connectors.delta.input_position import DeltaSplit
from penstock.connectors.journal import MemoryJournal
from penstock.connectors.targets.target import OutputProgress
from penstock.runtime.board import Board, Record
from penstock.storage.folder import Folder

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def scratch(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path / "checkpoint" / "out"))


def said(place: str) -> list[dict[str, Any]]:
    """What the commits of a table say, oldest first."""
    history = sorted(deltalake.DeltaTable(place).history(), key=lambda one: one["version"])
    return [json.loads(one[KEY]) for one in history if KEY in one]


def progress(before: dict[str, int], after: dict[str, int], schema: pa.Schema = SCHEMA) -> OutputProgress:
    return OutputProgress(Marks(before), Marks(after), schema)


def deliver(target: Any, scratch: Folder, batch: int, rows: list[int], moved: OutputProgress) -> None:
    table = pa.table({"ts": rows, "k": ["k"] * len(rows)}, schema=SCHEMA)
    staged = target.stage(batch, 0, table, scratch)
    target.commit(batch, [staged] if staged is not None else [], scratch, moved)


# What is written


def test_a_batch_says_how_far_it_has_come_in_its_commit(place: str, scratch: Folder) -> None:
    target = pk.delta(place)
    target.check("out", SCHEMA, scratch)
    deliver(target, scratch, 0, [1, 2], progress({}, {"ts": 2}))
    (told,) = said(place)
    assert told == {"format": 1, "writer": told["writer"], "marks": {"ts": 2}, "ended": False}
    deliver(target, scratch, 1, [3], progress({"ts": 2}, {"ts": END}))
    assert said(place)[1]["ended"]


def test_a_batch_without_tuples_makes_a_commit_only_if_a_mark_moves(place: str, scratch: Folder) -> None:
    target = pk.delta(place)
    target.check("out", SCHEMA, scratch)
    deliver(target, scratch, 0, [1], progress({}, {"ts": 1}))
    deliver(target, scratch, 1, [], progress({"ts": 1}, {"ts": 1}))
    assert deltalake.DeltaTable(place).version() == 1
    deliver(target, scratch, 2, [], progress({"ts": 1}, {"ts": 5}))
    assert [one["marks"]["ts"] for one in said(place)] == [1, 5]
    deliver(target, scratch, 2, [], progress({"ts": 1}, {"ts": 5}))  # done again
    assert deltalake.DeltaTable(place).version() == 2
    assert target.last_committed(scratch) == 2


def test_a_step_makes_such_commits_rare_but_the_end_is_always_told(place: str, scratch: Folder) -> None:
    target = pk.delta(place, punctuation=10)
    target.check("out", SCHEMA, scratch)
    marks = [1, 9, 10, 11, 25, 25, END]
    for batch, (before, after) in enumerate(zip([1, *marks], marks, strict=False)):
        deliver(target, scratch, batch, [], progress({"ts": before}, {"ts": after}))
    assert [one["marks"]["ts"] for one in said(place)] == [10, 25, END]


def test_a_step_is_measured_in_the_unit_of_its_attribute() -> None:
    schema = pa.schema([("ts", pa.timestamp("us")), ("n", pa.int64())])
    target = pk.delta("nowhere", punctuation="1 minute")
    assert target.shows([], progress({"ts": 0}, {"ts": 60_000_000}, schema))
    assert not target.shows([], progress({"ts": 0}, {"ts": 59_999_999}, schema))
    assert not target.shows([], progress({"n": 0}, {"n": 90}, schema))
    for wrong in ("soon", 0, -3, 1.5):
        with pytest.raises(pk.QueryError):
            pk.delta("nowhere", punctuation=wrong)  # type: ignore[arg-type]


def test_a_table_may_be_written_without_punctuation(place: str, scratch: Folder) -> None:
    target = pk.delta(place, punctuation=False)
    target.check("out", SCHEMA, scratch)
    deliver(target, scratch, 0, [1], progress({}, {"ts": 1}))
    deliver(target, scratch, 1, [], progress({"ts": 1}, {"ts": 9}))
    assert (said(place), deltalake.DeltaTable(place).version()) == ([], 1)


def test_a_run_that_dies_behind_such_a_commit_does_not_repeat_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def network() -> pk.Network:
        net = pk.Network("n")
        source = net.source("s", pk.memory([(t,) for t in range(6)], schema={"ts": "int64"}, train=1))
        source.where("ts > 99").output("o", to=pk.delta(place))
        return net

    def dying(board: Board, record: Record) -> None:
        if record.batch == 3:
            raise KeyboardInterrupt
        post(board, record)

    post, checkpoint = Board.post, str(tmp_path / "checkpoint")
    monkeypatch.setattr(Board, "post", dying)
    with pytest.raises(KeyboardInterrupt):
        network().run("local", checkpoint=checkpoint)
    assert [one["marks"]["ts"] for one in said(place)] == [0, 1, 2, 3]
    monkeypatch.undo()
    network().run("local", checkpoint=checkpoint)
    assert [one["marks"]["ts"] for one in said(place)] == [0, 1, 2, 3, 4, END]


@pytest.mark.parametrize(
    ("kind", "tick", "stored"),
    [
        (pa.int32(), 7, 7),
        (pa.uint64(), 7, 7),
        (pa.timestamp("s"), 7, 7_000_000),
        (pa.timestamp("ns"), 7_999, 7),
        (pa.timestamp("ms", "Europe/Paris"), -1, -1_000),
        (pa.date32(), 3, 3),
        (pa.date64(), 3 * 86_400_000, 3),
        (pa.timestamp("s"), END, END),
        (pa.timestamp("s"), BEGINNING, BEGINNING),
    ],
)
def test_marks_are_in_ticks_of_the_types_that_the_table_has(kind: pa.DataType, tick: int, stored: int) -> None:
    told = CommitMarks.of(progress({}, {"ts": tick}, pa.schema([("ts", kind)])), "a")
    assert told.marks == Marks({"ts": stored})
    assert CommitMarks.from_text(told.to_text()) == told


def test_types_that_have_nothing_in_common_have_no_mark() -> None:
    assert convert_tick(7, pa.int64(), pa.timestamp("us")) is None


# What is heard


def write(place: str, text: Any, *rows: int) -> None:
    """A commit of somebody who says something under our key."""
    properties = deltalake.CommitProperties(custom_metadata=None if text is None else {KEY: text})
    table = pa.table({"ts": list(rows), "k": ["k"] * len(rows)}, schema=SCHEMA)
    if rows:
        deltalake.write_deltalake(place, table, mode="append", commit_properties=properties)
        return
    known = deltalake.DeltaTable(place)
    known.create_write_transaction([], "append", known.schema(), [], commit_properties=properties)


def marks(writer: str, ended: bool = False, **ticks: int) -> str:
    return CommitMarks(writer, Marks(ticks), ended).to_text()


def stated(feed: Feed, start: Position, end: Position) -> dict[str, int]:
    found = [split for split in feed.splits(start, end) if isinstance(split, DeltaSplit) and split.path is None]
    return {name: tick for split in found for name, tick in split.stated.rising.items()}


def test_the_marks_of_a_version_come_behind_its_rows(place: str) -> None:
    write(place, marks("a", ts=3), 1, 2, 3)
    feed = pk.delta(place).open(SCHEMA, MemoryJournal())
    start = feed.start()
    half = feed.advance(start, Limit(2)).position
    assert stated(feed, start, half) == {}
    end = feed.advance(half, EVERYTHING).position
    assert stated(feed, half, end) == {"ts": 3}
    (chunk,) = pk.delta(place).read(feed.splits(half, end)[-1], SCHEMA, ["ts"])
    assert (chunk.tuples.num_rows, chunk.stated) == (0, {"ts": [3]})


def test_a_commit_without_rows_is_heard(place: str) -> None:
    write(place, marks("a", ts=3), 1)
    feed = pk.delta(place, follow=True).open(SCHEMA, MemoryJournal())
    at = feed.advance(feed.start(), EVERYTHING).position
    write(place, marks("a", ts=30))
    step = feed.advance(at, EVERYTHING)
    assert (step.rows, stated(feed, at, step.position)) == (0, {"ts": 30})
    write(place, None)  # somebody else's upkeep says nothing
    later = feed.advance(step.position, EVERYTHING)
    assert feed.splits(step.position, later.position) == []


def test_of_several_writers_the_slowest_counts_until_it_has_ended(place: str) -> None:
    write(place, marks("a", ts=3), 1)
    feed = pk.delta(place, follow=True).open(SCHEMA, MemoryJournal())
    heard, at = [], feed.start()
    for text in (None, marks("b", ts=1), marks("a", ts=9), marks("b", ts=5), marks("b", ended=True, ts=END)):
        if text is not None:
            write(place, text, 10)
        end = feed.advance(at, EVERYTHING).position
        heard.append(stated(feed, at, end))
        at = end
    assert heard == [{"ts": 3}, {}, {}, {"ts": 5}, {"ts": 9}]


def test_a_table_that_is_followed_is_at_its_end_when_all_writers_are(place: str) -> None:
    write(place, marks("a", ts=3), 1)
    write(place, marks("a", ended=True, ts=END), 5)
    feed = pk.delta(place, follow=True).open(SCHEMA, MemoryJournal())
    step = feed.advance(feed.start(), EVERYTHING)
    assert (stated(feed, feed.start(), step.position), step.ended) == ({"ts": END}, False)
    assert feed.advance(step.position, EVERYTHING).position == step.position


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_a_run_that_ended_before_another_began_does_not_make_its_tuples_late(
    rows: int, follow: bool, place: str
) -> None:
    write(place, marks("monday", ts=2), 1, 2)
    write(place, marks("monday", ended=True, ts=END), 3)
    write(place, marks("tuesday", ts=10), 10, 11)
    feed = pk.delta(place, follow=follow).open(SCHEMA, MemoryJournal())
    at, heard = feed.start(), []
    while (step := feed.advance(at, Limit(rows))).position != at:
        heard.append(stated(feed, at, step.position).get("ts", BEGINNING))
        at = step.position
        if step.ended:
            break
    assert max(heard) == 10


def test_one_who_does_not_listen_hears_nothing(place: str) -> None:
    write(place, marks("a", ts=3), 1)
    write(place, marks("a", ts=9), 9)
    feed = pk.delta(place, since=1, punctuation=False).open(SCHEMA, MemoryJournal())
    end = feed.advance(feed.start(), EVERYTHING).position
    assert (feed.start(), end) == ({"version": 1, "file": 0}, {"version": 2, "file": 0})
    assert stated(feed, feed.start(), end) == {}


def test_one_who_starts_in_the_middle_hears_what_was_said_just_before(place: str) -> None:
    write(place, marks("a", ts=3), 1)
    write(place, marks("b", ts=8), 9)
    write(place, marks("a", ts=4), 5)
    feed = pk.delta(place, since=2).open(SCHEMA, MemoryJournal())
    assert feed.start()["writers"] == {"a": {"ts": 3}, "b": {"ts": 8}}


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "7",
        "[]",
        '{"format": 2, "writer": "a", "marks": {"ts": 9}, "ended": false}',
        '{"format": 1, "writer": "a", "marks": {"ts": "9"}, "ended": false}',
        '{"format": 1, "writer": "a", "marks": {"ts": 1e3}, "ended": false}',
        '{"format": 1, "writer": "a", "marks": {"ts": 99999999999999999999}, "ended": false}',
        '{"format": 1, "writer": 7, "marks": {"ts": 9}, "ended": false}',
        '{"format": 1, "writer": "a", "marks": [9], "ended": false}',
        '{"format": 1, "writer": "a", "marks": {"ts": 9}, "ended": "no"}',
        '{"format": 1, "writer": "a", "ended": false}',
        '{"format": 1, "writer": "a", "marks": {}, "falling": {"ts": "9"}, "ended": false}',
        '{"format": 1, "writer": "a", "marks": {}, "joint": [{"ts": 9}], "ended": false}',
        '{"format": 1, "writer": "a", "marks": {}, "joint": [{"ts": 9}, 7], "ended": false}',
        "[" * 100_000,
    ],
)
def test_what_nobody_here_could_have_written_is_left_alone(
    text: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(place, text, 1)
    feed = pk.delta(place).open(SCHEMA, MemoryJournal())
    with caplog.at_level(logging.WARNING):
        end = feed.advance(feed.start(), EVERYTHING).position
    assert stated(feed, feed.start(), end) == {}
    assert pk.delta(place).states == ()


def test_marks_that_fall_and_joint_ones_are_heard(place: str) -> None:
    joint = ({"ts": 4}, {"n": 6})
    rows = pa.table({"ts": [1], "n": [7], "left": [50]})
    for left, sides in ((-40, joint), (-30, ({"ts": 4}, {"n": 9}))):
        text = CommitMarks("a", Marks({"ts": 1}, {"left": left}, sides)).to_text()
        assert CommitMarks.from_text(text).marks.joint == sides
        said = deltalake.CommitProperties(custom_metadata={KEY: text})
        deltalake.write_deltalake(place, rows, mode="append", commit_properties=said)
    table = pk.delta(place)
    assert (table.states, table.falling, table.pairs) == (("ts", "left"), ("left",), (("ts",), ("n",)))
    feed = table.open(rows.schema, MemoryJournal())
    at = feed.advance(feed.start(), Limit(1)).position
    end = feed.advance(at, EVERYTHING).position
    (chunk,) = table.read(feed.splits(feed.start(), at)[-1], rows.schema, ["ts"])
    assert (chunk.stated, chunk.joint) == ({"ts": [1], "left": [40]}, joint)
    (chunk,) = table.read(feed.splits(at, end)[-1], rows.schema, ["ts"])
    assert (chunk.stated, chunk.joint) == ({"left": [30]}, ({"ts": 4}, {"n": 9}))


def test_of_several_writers_no_pair_is_heard(place: str) -> None:
    """The pairs of two writers need not follow upon each other."""
    joint = ({"ts": 4}, {"k": 6})
    both = Standing().heard(CommitMarks("a", Marks(joint=joint)))
    assert both.marks().joint == joint
    for later in (CommitMarks("b", Marks(joint=joint)), CommitMarks("a", Marks(joint=joint), ended=True)):
        both = both.heard(later)
        assert not any(both.marks().joint)


def test_a_standing_survives_its_document() -> None:
    for standing in (
        Standing(),
        Standing({"a": Marks({"ts": 3})}),
        Standing({}, Marks({"ts": BEGINNING})),
        Standing({"a": Marks({"ts": 3}, {"left": -5}, ({"l": 1}, {"r": 2}))}),
        Standing({}, Marks({}, {"left": BEGINNING}), several=True),
    ):
        assert Standing.from_json(json.loads(json.dumps(standing.to_json()))) == standing


# How a network takes it


def declared(connector: Any, **options: Any) -> str:
    """How an input of a network is described."""
    net = pk.Network("n")
    net.source("s", connector, **options).output("o")
    return net.network.sources[0].describe()


def test_a_table_with_punctuation_needs_no_policy(place: str) -> None:
    write(place, marks("a", ts=3), 1)
    assert pk.delta(place).states == ("ts",)
    assert "on ts, punctuated" in declared(pk.delta(place))


def test_punctuation_is_found_behind_commits_that_do_not_speak(place: str) -> None:
    write(place, marks("b", te=3), 1)
    write(place, marks("a", ts=3), 1)
    for _ in range(70):
        write(place, None)
    assert pk.delta(place).states == ("ts",)


def test_an_attribute_of_which_nobody_speaks_is_taken_to_be_ordered(place: str) -> None:
    rows = pa.table({"ts": [1], "n": [1]})
    said = deltalake.CommitProperties(custom_metadata={KEY: marks("a", n=3)})
    deltalake.write_deltalake(place, rows, commit_properties=said)
    assert "on n, punctuated" in declared(pk.delta(place))
    assert "on ts, ordered" in declared(pk.delta(place), on="ts")


def test_other_tables_take_a_policy_and_so_does_who_does_not_want_to_hear(place: str) -> None:
    write(place, None, 1)
    assert pk.delta(place).states == ()
    assert "on ts, ordered" in declared(pk.delta(place))
    write(place, marks("a", ts=3), 5)
    assert "on ts, delayed" in declared(pk.delta(place), progress=pk.delayed(5))
    assert "on ts, ordered" in declared(pk.delta(place, punctuation=False))


def test_punctuation_of_columns_that_are_not_read_is_left_alone(place: str) -> None:
    write(place, marks("a", ts=3, te=4, k=5), 1)
    assert pk.delta(place).states == ("ts",)
    net = pk.Network("n")
    net.source("s", pk.delta(place), schema={"k": "string", "ts": "int32"}).aggregate(
        {"n": "count(*)"}, on="ts", size=2
    ).output("o")
    assert net.run("local")["o"].to_pylist() == [{"ts": 0, "n": 1}]


def test_marks_come_in_the_types_that_the_input_declares(place: str, tmp_path: Path) -> None:
    net = pk.Network("writes")
    rows = [("2026-01-01 00:00:01",), ("2026-01-01 00:00:07",)]
    net.source("s", pk.memory(rows, schema={"ts": "timestamp[s]"}, train=1)).output("o", to=pk.delta(place))
    net.run("local")
    feed = pk.delta(place, follow=True).open(pa.schema([("ts", pa.timestamp("ms"))]), MemoryJournal())
    at = feed.advance(feed.start(), Limit(1)).position
    assert stated(feed, feed.start(), at) == {"ts": 1_767_225_601_000}
