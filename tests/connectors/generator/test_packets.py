from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.connectors.connector import Limit
from penstock.connectors.generator.packets import Generator, GeneratorSplit, generator
from penstock.connectors.generator.to_parquet import write_packets
from penstock.connectors.journal import MemoryJournal
from penstock.errors import QueryError

EVERYTHING = Limit(2**62, 2**62)
SECOND = 1_000_000


def rows_of(made: Generator, link: str, start: int, stop: int, columns: list[str] | None = None) -> pa.Table:
    split = GeneratorSplit(link, start, stop - start, start, stop, made.origin(0))
    names = made.schema().names if columns is None else columns
    return pa.Table.from_batches([chunk.tuples for chunk in made.read(split, made.schema(), names)]).combine_chunks()


def times(made: Generator, link: str, stop: int) -> Any:
    """Timestamps in microseconds after the start."""
    return rows_of(made, link, 0, stop, ["ts"]).column("ts").cast(pa.int64()).to_numpy() - made.origin(0)


def test_tuples_are_the_same_in_any_cut_and_for_any_columns() -> None:
    made = generator(rate=1_000, groups=50, disorder="1 second", links=2, rows=600_000, seed=3)
    whole = rows_of(made, "link1", 0, 300_000)
    edges = [0, 1, 65_535, 65_537, 200_000, 262_144, 299_999, 300_000]
    cut = pa.concat_tables([rows_of(made, "link1", low, high) for low, high in itertools.pairwise(edges)])
    assert cut.combine_chunks() == whole
    assert rows_of(made, "link1", 100, 70_000, ["len", "ts"]) == whole.slice(100, 69_900).select(["len", "ts"])


def test_seeds_links_and_columns_draw_apart() -> None:
    one, other = generator(links=2, rows=2_000), generator(links=2, rows=2_000, seed=1)
    names = ["srcIP", "destIP", "srcPort", "len"]
    assert rows_of(one, "link0", 0, 1_000, names) != rows_of(one, "link1", 0, 1_000, names)
    assert rows_of(one, "link0", 0, 1_000, names) != rows_of(other, "link0", 0, 1_000, names)
    rows = rows_of(one, "link0", 0, 1_000)
    assert abs(np.corrcoef(rows["srcPort"].to_numpy(), rows["len"].to_numpy())[0, 1]) < 0.15


@pytest.mark.parametrize("groups", [1, 7, 100, 1_000])
def test_there_are_exactly_as_many_pairs_as_asked_for(groups: int) -> None:
    rows = rows_of(generator(groups=groups, rows=40_000), "0", 0, 40_000)
    pairs = rows.group_by(["srcIP", "destIP"]).aggregate([])
    assert len(pairs) == groups
    assert len(rows["srcIP"].unique()) <= 2 * groups**0.5


def test_event_time_follows_the_rate() -> None:
    stamps = times(generator(rate=250, rows=1_000), "0", 1_000)
    assert stamps[0] == 0
    assert set(np.diff(stamps)) == {4_000}


def test_disorder_keeps_its_bound() -> None:
    bound = 2 * SECOND
    made = generator(rate=1_000, rows=50_000, disorder="2 seconds")
    stamps = times(made, "0", 50_000)
    behind = np.maximum.accumulate(stamps) - stamps
    assert behind.max() <= bound
    assert behind.max() > 0.9 * bound
    assert (stamps <= np.arange(50_000) * 1_000).all()


def test_skew_puts_a_link_behind() -> None:
    made = generator(rate=10, links=["a", "b"], rows=20, skew={"b": "3 seconds"})
    assert (times(made, "a", 10) - times(made, "b", 10) == 3 * SECOND).all()


def test_a_link_is_silent_in_its_lulls() -> None:
    #  a  0────5      7────12 s
    made = generator(rate=100, links=["a", "b"], seconds=12, lulls={"a": [("5 seconds", "2 seconds")]})
    silent, steady = times(made, "a", made.links[0].rows or 0), times(made, "b", made.links[1].rows or 0)
    assert not ((silent >= 5 * SECOND) & (silent < 7 * SECOND)).any()
    assert len(silent) == 1_000
    assert len(steady) == 1_200
    assert max(silent[-1], steady[-1]) < 12 * SECOND


def test_a_periodic_lull_ends_every_period() -> None:
    made = generator(rate=100, links=["a"], seconds=10, lulls={"a": ("2 seconds", "500 ms")})
    stamps = times(made, "a", made.links[0].rows or 0)
    assert len(stamps) == 750
    assert (stamps % (2 * SECOND) < 1.5 * SECOND).all()


def test_links_go_in_step_under_any_limit() -> None:
    made = generator(rate={"a": 100, "b": 1_000}, links=["a", "b"], rows=11_000)
    feed = made.open(made.schema(), MemoryJournal())
    position, ended = feed.start(), False
    while not ended:
        step = feed.advance(position, Limit(500, 2**40))
        took = sum(step.position["at"].values()) - sum(position["at"].values())
        assert 1 <= took <= 500
        position, ended = step.position, step.ended
        assert abs(position["at"]["a"] * 10 - position["at"]["b"]) <= 10
    assert position["at"] == {"a": 1_000, "b": 10_000}


def test_any_limit_gives_the_same_tuples(drain: Callable[..., Any], any_limit: Callable[[], Limit]) -> None:
    made = generator(rate=1_000, links=2, rows=5_000, disorder="1 second")
    whole, cut = drain(made), drain(made, limit=any_limit)
    assert cut.by_shard == whole.by_shard
    assert cut.batches > 5
    assert len(whole.tuples) == 5_000
    assert {row["link"] for row in whole.by_shard["link1"]} == {"link1"}


def test_a_lone_silent_link_is_waited_out(drain: Callable[..., Any]) -> None:
    made = generator(rate=100, links=["a"], rows=200, lulls={"a": [("1 second", "1 hour")]})
    assert len(drain(made, limit=Limit(30, 2**40)).tuples) == 200


def test_an_endless_generator_does_not_end() -> None:
    made = generator(rate=100)
    feed = made.open(made.schema(), MemoryJournal())
    step = feed.advance(feed.start(), Limit(10_000, 2**40))
    assert not made.bounded
    assert not step.ended
    assert step.position["at"] == {"0": 10_000}


def test_real_time_delivers_what_is_due_and_replays_the_same() -> None:
    made = generator(rate=1_000, realtime=True)
    feed = made.open(made.schema(), MemoryJournal())
    before = time.time_ns() // 1000
    first = feed.advance(feed.start(), EVERYTHING).position
    time.sleep(0.05)
    second = feed.advance(first, EVERYTHING).position
    due = (time.time_ns() // 1000 - second["clock0"]) // 1_000 + 1
    assert before <= first["clock0"] == second["clock0"]
    assert 50 <= second["at"]["0"] <= due
    splits = feed.splits(feed.start(), second)
    again = made.open(made.schema(), MemoryJournal()).splits(feed.start(), second)
    assert splits == again
    stamp = next(made.read(splits[0], made.schema(), ["ts"])).tuples.column(0).cast(pa.int64())[0].as_py()
    assert stamp == first["clock0"]


def test_written_packets_are_those_generated(tmp_path: Path, drain: Callable[..., Any]) -> None:
    made = generator(rate=100, links=["a", "b"], rows=1_000)
    calls: list[tuple[int, int]] = []
    paths = write_packets(made, tmp_path, files=3, row_group_rows=100, progress=lambda *at: calls.append(at))
    assert [str(path.relative_to(tmp_path)) for path in paths[:4]] == [
        "a/part-00000.parquet",
        "a/part-00001.parquet",
        "a/part-00002.parquet",
        "b/part-00000.parquet",
    ]
    kept = pa.concat_tables([pq.read_table(path, partitioning=None) for path in paths])
    assert kept.to_pylist() == [row for rows in drain(made).by_shard.values() for row in rows]
    assert pq.ParquetFile(paths[0]).num_row_groups == 2
    assert calls[-1] == (1_000, 1_000)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rate": 0}, "rate of at least one"),
        ({"links": ["a"], "rate": {"b": 5}}, r"rate= names unknown links \['b'\]"),
        ({"links": ["a", "a"]}, "different names"),
        ({"links": 0}, "a number from 1"),
        ({"rows": 5, "seconds": 5}, "both rows= and seconds="),
        ({"rows": -1}, "cannot be negative"),
        ({"groups": 0}, "groups must be between"),
        ({"disorder": 5}, "has no unit"),
        ({"lulls": {"0": ("1 second", "2 seconds")}}, "shorter than its period"),
        ({"lulls": {"0": [("1 second", "2 seconds"), ("2 seconds", "1 second")]}}, "overlap"),
    ],
)
def test_a_generator_that_makes_no_sense_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(QueryError, match=text):
        generator(**options)
