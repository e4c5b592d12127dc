"""A Delta table as an input: the rows of every version once, in the order of commits, whatever happens to the table."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from tests.connectors.conftest import EVERYTHING, Drained
from tests.connectors.delta.tables import SCHEMA, add, forget_commits, stamps

import penstock as pk
from penstock.connectors.connector import Limit
from penstock.connectors.delta.table_log import TableLog
from penstock.connectors.journal import FileJournal, MemoryJournal
from penstock.errors import QueryError, WorldError

Drain = Callable[..., Drained]


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def test_versions_come_in_order_each_with_its_rows(place: str, drain: Drain) -> None:
    for first in (40, 20, 30):
        add(place, first, first + 1)
    drained = drain(pk.delta(place))
    assert drained.tuples == [{"ts": ts, "k": f"k{ts}"} for ts in (40, 41, 20, 21, 30, 31)]
    assert drained.positions[-1] == {"version": 3, "file": 0}


def test_columns_that_nobody_asks_for_are_not_read(place: str, drain: Drain) -> None:
    add(place, 1, 2)
    assert drain(pk.delta(place), columns=["k"]).tuples == [{"k": "k1"}, {"k": "k2"}]


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 100])
def test_trains_of_any_length_bring_the_same(rows: int, place: str, drain: Drain) -> None:
    for first in range(0, 20, 4):
        add(place, *range(first, first + 4))
    drained = drain(pk.delta(place), limit=Limit(rows))
    assert stamps(drained) == list(range(20))
    assert drained.batches >= 20 // rows


def test_random_limits_in_rows_and_bytes_bring_the_same(
    place: str, drain: Drain, any_limit: Callable[[], Limit]
) -> None:
    for first in range(0, 3000, 500):
        add(place, *range(first, first + 500))
    assert stamps(drain(pk.delta(place), limit=any_limit)) == list(range(3000))


def test_a_large_file_is_cut_by_row_groups(place: str, drain: Drain) -> None:
    rows = pa.table({"ts": range(1_200_000)})
    options = deltalake.WriterProperties(max_row_group_size=400_000)
    deltalake.write_deltalake(place, rows, writer_properties=options)
    whole = drain(pk.delta(place))
    assert whole.splits == 3
    assert stamps(drain(pk.delta(place), limit=Limit(500_000))) == stamps(whole) == list(range(1_200_000))


def test_merged_files_bring_no_new_rows(place: str, drain: Drain) -> None:
    for ts in range(5):
        add(place, ts)
    deltalake.DeltaTable(place).optimize.compact()
    add(place, 5)
    assert stamps(drain(pk.delta(place))) == [0, 1, 2, 3, 4, 5]


def test_the_same_positions_give_the_same_splits_in_another_process_and_after_upkeep(
    place: str, tmp_path: Path
) -> None:
    for ts in range(6):
        add(place, 2 * ts, 2 * ts + 1)
    journal, connector = FileJournal(str(tmp_path / "journal.jsonl")), pk.delta(place)
    feed = connector.open(SCHEMA, journal)
    places, cuts = [feed.start()], []
    while not (step := feed.advance(places[-1], Limit(3))).ended:
        cuts.append(feed.splits(places[-1], step.position))
        places.append(json.loads(json.dumps(step.position)))
    table = deltalake.DeltaTable(place)
    table.optimize.compact()
    table.create_checkpoint()
    again = pickle.loads(pickle.dumps(connector)).open(SCHEMA, FileJournal(str(tmp_path / "journal.jsonl")))
    assert again.start() == places[0]
    assert [again.splits(*pair) for pair in pairwise(places)] == cuts
    assert again.advance(places[-1], EVERYTHING).ended


def test_an_input_that_ends_ends_with_the_version_it_has_found_first(place: str, drain: Drain) -> None:
    add(place, 1)
    journal = MemoryJournal()
    pk.delta(place).open(SCHEMA, journal)
    add(place, 2)
    assert stamps(drain(pk.delta(place), journal=journal)) == [1]
    assert stamps(drain(pk.delta(place))) == [1, 2]


def test_a_table_that_is_followed_waits_for_the_next_version(place: str) -> None:
    add(place, 1)
    feed = pk.delta(place, follow=True).open(SCHEMA, MemoryJournal())
    step = feed.advance(feed.start(), EVERYTHING)
    assert (step.position["version"], step.rows, step.ended) == (1, 1, False)
    assert feed.advance(step.position, EVERYTHING).position == step.position
    add(place, 2)
    later = feed.advance(step.position, EVERYTHING)
    assert (later.position["version"], later.rows, later.ended) == (2, 1, False)


def test_waiting_looks_for_one_file_and_lists_nothing(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add(place, 1)
    feed = pk.delta(place, follow=True).open(SCHEMA, MemoryJournal())
    at = feed.advance(feed.start(), EVERYTHING).position
    listed: list[object] = []
    monkeypatch.setattr(TableLog, "versions", lambda self: listed.append(self) or [0])
    for _ in range(100):
        feed.advance(at, EVERYTHING)
    assert not listed


def test_a_table_without_rows_ends_at_once(place: str, drain: Drain) -> None:
    deltalake.DeltaTable.create(place, SCHEMA)
    drained = drain(pk.delta(place))
    assert (drained.tuples, drained.batches) == ([], 1)


def test_a_table_that_is_not_there_yet_is_waited_for(place: str) -> None:
    feed = pk.delta(place, follow=True).open(SCHEMA, MemoryJournal())
    start = feed.start()
    assert feed.advance(start, EVERYTHING).position == start
    add(place, 1, 2)
    assert feed.advance(start, EVERYTHING).rows == 2


def test_a_place_without_a_table_is_refused(tmp_path: Path, place: str) -> None:
    with pytest.raises(WorldError, match="there is no Delta table at"):
        pk.Network("n").source("s", pk.delta(place))
    with pytest.raises(QueryError, match="the schema of this input is not known"):
        pk.Network("n").source("s", pk.delta(place, follow=True))
    with pytest.raises(WorldError, match="there is no Delta table at"):
        pk.delta(place).open(SCHEMA, MemoryJournal())
    with pytest.raises(WorldError, match="there is no Delta table at"):
        pk.delta(place, follow=True, since=3).open(SCHEMA, MemoryJournal())
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "a.parquet").write_text("")
    with pytest.raises(WorldError, match=r"a folder with a\.parquet"):
        pk.delta(place).open(SCHEMA, MemoryJournal())


# Where it starts


def test_it_starts_with_the_changes_of_a_version(place: str, drain: Drain) -> None:
    for ts in range(4):
        add(place, ts)
    assert stamps(drain(pk.delta(place, since=2))) == [2, 3]
    assert stamps(drain(pk.delta(place, since=4))) == []


def test_a_version_that_is_not_there_is_refused(place: str) -> None:
    add(place, 1)
    with pytest.raises(QueryError, match="has no version 7") as refused:
        pk.delta(place, since=7).open(SCHEMA, MemoryJournal())
    assert refused.value.expected == "a version from 0 to 0, or 1 for what comes next"


def spread(place: str) -> list[dt.datetime]:
    """Give versions times that are an hour apart."""
    found = []
    for version, path in enumerate(sorted((Path(place) / "_delta_log").glob("*.json"))):
        moment = dt.datetime(2026, 1, 1, version, tzinfo=dt.UTC)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "commitInfo" in line:
                line["commitInfo"]["timestamp"] = int(moment.timestamp() * 1000)
        path.write_text("\n".join(map(json.dumps, lines)))
        found.append(moment)
    return found


def test_it_starts_with_the_first_version_since_a_time(place: str, drain: Drain) -> None:
    for ts in range(4):
        add(place, ts)
    hours = spread(place)
    half = dt.timedelta(minutes=30)
    cases = {hours[2]: [2, 3], hours[2] - half: [2, 3], hours[0] - half: [0, 1, 2, 3], hours[3] + half: []}
    for since, expected in cases.items():
        assert stamps(drain(pk.delta(place, since=since))) == expected
        assert stamps(drain(pk.delta(place, since=since.isoformat()))) == expected
        assert stamps(drain(pk.delta(place, since=since.replace(tzinfo=None)))) == expected


def test_a_time_that_the_log_does_not_reach_back_to_is_refused(place: str) -> None:
    for ts in range(4):
        add(place, ts)
    spread(place)
    deltalake.DeltaTable(place).create_checkpoint()
    forget_commits(place, 3)
    with pytest.raises(QueryError, match="is not known any more") as refused:
        pk.delta(place, since="2026-01-01 01:00").open(SCHEMA, MemoryJournal())
    assert "2026-01-01 03:00:00+00:00" in str(refused.value.expected)


@pytest.mark.parametrize("since", ["soon", -1, True, 1.5])
def test_what_is_no_place_to_start_is_refused(since: Any, place: str) -> None:
    with pytest.raises(QueryError):
        pk.delta(place, since=since)


def test_the_beginning_of_a_log_that_was_cut_short_is_all_that_the_table_held_then(
    place: str, tmp_path: Path, drain: Drain
) -> None:
    for ts in range(4):
        add(place, ts)
    deltalake.DeltaTable(place).create_checkpoint()
    forget_commits(place, 3)
    add(place, 4)
    add(place, 5)
    journal = FileJournal(str(tmp_path / "journal.jsonl"))
    whole = drain(pk.delta(place), journal=journal, limit=Limit(2))
    assert stamps(whole) == [0, 1, 2, 3, 4, 5]
    assert whole.positions[0] == {"version": 3, "file": 2}
    # The state that it started from leaves as well, in time.
    deltalake.DeltaTable(place).create_checkpoint()
    (Path(place) / "_delta_log" / f"{3:020d}.checkpoint.parquet").unlink()
    assert stamps(drain(pk.delta(place), journal=FileJournal(str(tmp_path / "journal.jsonl")))) == [0, 1, 2, 3, 4, 5]


def test_a_version_that_has_left_the_log_before_it_was_read_is_an_error(place: str) -> None:
    for ts in range(4):
        add(place, ts)
    journal = MemoryJournal()
    feed = pk.delta(place, follow=True).open(SCHEMA, journal)
    first = feed.advance(feed.start(), Limit(2)).position
    deltalake.DeltaTable(place).create_checkpoint()
    forget_commits(place, 3)
    again = pk.delta(place, follow=True).open(SCHEMA, journal)
    with pytest.raises(WorldError, match=r"version 2 of the Delta table .* has left its log") as gone:
        again.advance(first, EVERYTHING)
    assert gone.value.found == "versions 3 to 3"
    with pytest.raises(WorldError, match=r"version 0 of the Delta table .* has left its log"):
        again.splits(again.start(), first)


# Options


def test_options_of_the_other_use_are_refused(place: str, tmp_path: Path) -> None:
    add(place, 1)
    with pytest.raises(QueryError, match=r"partition_by=.* means nothing for a Delta table that is an input"):
        pk.delta(place, partition_by="k").open(SCHEMA, MemoryJournal())
    net = pk.Network("n")
    net.source("s", pk.memory([(1,)], schema={"ts": "int64"})).output("o", to=pk.delta(str(tmp_path / "o"), since=3))
    with pytest.raises(QueryError, match="since=3 means nothing for a Delta table that is an output"):
        net.run("local")
    with pytest.raises(QueryError, match="unknown changes"):
        pk.delta(place, changes="never")  # type: ignore[arg-type]


def test_what_it_is_called(place: str) -> None:
    assert pk.delta(place).describe() == f"the Delta table {place}"
    assert pk.delta(place, follow=True, since=7).describe() == f"the Delta table {place}, since version 7, followed"
    assert pk.delta(place, since="2026-01-01").describe() == f"the Delta table {place}, since 2026-01-01"
    assert pk.delta(place, partition_by="k").describe() == f"the Delta table {place}, partitioned by k"
