"""Values that count once, held as sets of codes: the same answers as DuckDB's, whichever way they take."""

from __future__ import annotations

import datetime as dt
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operators.scripted import box_of

import penstock as pk
from penstock.boxes.aggregate import kept_sets, value_sets
from penstock.operators import vocabulary
from penstock.operators.key_words import Words

LONG = "a text of more than sixty-three bytes, which no vocabulary takes: " + "x" * 40
TEXTS = st.sampled_from([None, "", "a", "b", "ab", "a\0", "größer", "日本語の長い名前です", "z" * 8, "z" * 63])
NUMBERS = st.sampled_from([None, -(2**63), -1, 0, 1, 2**63 - 1])
FLOATS = st.sampled_from([None, 0.0, -0.0, float("nan"), float("inf"), 1.5])
TIMES = st.sampled_from([None, dt.datetime(1969, 12, 31, 23), dt.datetime(2024, 2, 29), dt.datetime(2024, 3, 1)])
SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "k": pa.string(),
        "j": pa.int32(),
        "text": pa.string(),
        "number": pa.int64(),
        "real": pa.float64(),
        "moment": pa.timestamp("us"),
        "flag": pa.bool_(),
    }
)
DISORDER = 12
OUTPUTS = {
    "texts": "count(DISTINCT text)",
    "numbers": "count(DISTINCT number)",
    "reals": "count(DISTINCT real)",
    "times": "count(DISTINCT moment)",
    "flags": "count(DISTINCT flag)",
    "n": "count(*)",
    "total": "sum(j)",
    "apart": "count(DISTINCT text) FILTER (WHERE j > 0)",
    "sum_once": "sum(DISTINCT j)",
    "about": "approx_count_distinct(text)",
}
EXACT = {**OUTPUTS, "about": "count(DISTINCT text)"}
"""Of so few values a sketch is exact."""


@st.composite
def streams(draw: Any) -> list[tuple[Any, ...]]:
    """Rows around a time that goes on."""
    kinds = st.tuples(
        st.integers(0, DISORDER),
        st.sampled_from(["x", "y", None]),
        st.integers(0, 1),
        TEXTS if draw(st.booleans()) else st.one_of(TEXTS, st.just(LONG)),
        NUMBERS,
        FLOATS,
        TIMES,
        st.sampled_from([None, True, False]),
    )
    rows = draw(st.lists(kinds, min_size=1, max_size=40))
    step = draw(st.integers(0, 3))
    return [(step * place - late, *rest) for place, (late, *rest) in enumerate(rows)]


def asked(rows: list[tuple[Any, ...]], size: int, advance: int, by: list[str], outputs: dict[str, str]) -> pa.Table:
    """What DuckDB answers."""
    tuples = pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)
    every = ", ".join(f"{text} AS {name}" for name, text in outputs.items())
    keys = "".join(f"{key}, " for key in by)
    lowest, highest = min(row[0] for row in rows) // advance - size, max(row[0] for row in rows) // advance + 1
    connection = duckdb.connect()
    connection.register("tuples", tuples)
    connection.register("starts", pa.table({"start": np.arange(lowest, highest) * advance}))
    return connection.sql(
        f"SELECT start AS ts, {keys}{every} FROM tuples JOIN starts ON ts >= start AND ts < start + {size} "
        f"GROUP BY {keys}start"
    ).to_arrow_table()


def lines(answers: pa.Table) -> list[str]:
    return sorted(repr(list(row.values())) for row in answers.to_pylist())


@given(
    rows=streams(),
    windows=st.sampled_from([(10, 10), (10, 4), (7, 10), (20, 5)]),
    by=st.sampled_from([[], ["k"], ["j"], ["k", "j"]]),
    train=st.integers(1, 40),
    buckets=st.integers(1, 3),
    few=st.sampled_from([1, 4, 1000]),
    most=st.sampled_from([0, 3, 1000]),
    merge=st.sampled_from([2, 3, 8]),
    delay=st.sampled_from([DISORDER, 40]),
    chosen=st.sets(st.sampled_from(list(OUTPUTS)), min_size=1),
)
def test_it_counts_as_duckdb_does(
    rows: list[tuple[Any, ...]],
    windows: tuple[int, int],
    by: list[str],
    train: int,
    buckets: int,
    few: int,
    most: int,
    merge: int,
    delay: int,
    chosen: set[str],
) -> None:
    """Trains that are too short for sets send values as they are, so both ways meet in one window."""
    size, advance = windows
    outputs = {name: text for name, text in OUTPUTS.items() if name in chosen}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(value_sets, "FEW_ROWS", few)
        patch.setattr(value_sets, "LEAST_MET", 0)
        patch.setattr(vocabulary, "MOST_VALUES", most)
        patch.setattr(kept_sets, "MERGE_CHUNKS", merge)
        patch.setattr(kept_sets, "SPREAD_VALUES", 8)
        net = pk.Network("sets")
        source = net.source("in", pk.memory(rows, schema=SCHEMA, train=train), on="ts", progress=pk.delayed(delay))
        source.aggregate(outputs, on="ts", size=size, advance=advance, by=by).output("out")
        found = net.run("local", buckets=buckets)["out"]
    expected = asked(rows, size, advance, by, {name: EXACT[name] for name in outputs}).select(found.column_names)
    assert lines(found) == lines(expected.cast(found.schema))


@pytest.mark.parametrize("windows", [(10, 10), (20, 5), (7, 10)], ids=["tumbling", "sliding", "with gaps"])
@pytest.mark.parametrize("train", [17, 100, 400])
def test_a_train_brings_values_of_windows_that_close_and_of_those_that_stay(
    windows: tuple[int, int], train: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_sets, "FEW_ROWS", 1)
    monkeypatch.setattr(value_sets, "LEAST_MET", 0)
    (size, advance), at = windows, range(400)
    rows = [(n - n * 7 % DISORDER, "xy"[n % 2], n % 2, f"v{n * n % 61}", None, None, None, None) for n in at]
    outputs = {"texts": "count(DISTINCT text)", "n": "count(*)"}
    net = pk.Network("both")
    source = net.source("in", pk.memory(rows, schema=SCHEMA, train=train), on="ts", progress=pk.delayed(DISORDER))
    source.aggregate(outputs, on="ts", size=size, advance=advance, by=["k"]).output("out")
    found = net.run("local", buckets=2)["out"]
    expected = asked(rows, size, advance, ["k"], outputs).select(found.column_names)
    assert lines(found) == lines(expected.cast(found.schema))


@pytest.mark.parametrize("bits", [0, 2], ids=["one hash for all", "four hashes"])
def test_hashes_that_are_alike_make_no_wrong_count(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def alike(words: list[Words]) -> Words:
        return (words[0] & np.uint64((1 << bits) - 1)) << np.uint64(62)

    monkeypatch.setattr(vocabulary, "hashes", alike)
    monkeypatch.setattr(vocabulary, "_vocabularies", {})
    monkeypatch.setattr(value_sets, "FEW_ROWS", 1)
    monkeypatch.setattr(value_sets, "LEAST_MET", 0)
    for values in (3, 40, 400):
        net = pk.Network("alike")
        at = np.arange(2000)
        rows = pa.table({"ts": at, "v": at % values, "k": at % 2})
        source = net.source("in", pk.memory(rows, train=300), on="ts", progress=pk.ordered())
        source.aggregate({"d": "count(DISTINCT v)"}, on="ts", size=1000, by=["k"]).output("out")
        found = net.run("local", buckets=2)["out"]
        own = {len({v for v in range(values) if v % 2 == k}) if values % 2 == 0 else values for k in (0, 1)}
        assert set(found["d"].to_pylist()) == own
        assert found.num_rows == 4


class TestWhatIsKept:
    """What a bucket keeps depends on the tuples, not on what the process has met before."""

    def kept(self, rows: pa.Table, met: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
        from penstock.boxes.aggregate.entry import SubAggregateOp
        from penstock.boxes.aggregate.holder import AggregateOp
        from penstock.testing.memory_slots import MemorySlots

        monkeypatch.setattr(vocabulary, "_vocabularies", {})
        monkeypatch.setattr(value_sets, "FEW_ROWS", 1)
        monkeypatch.setattr(value_sets, "LEAST_MET", 0)
        vocabulary.vocabulary(pa.string()).numbers(pa.array(met, pa.string()))
        net = pk.Network("kept")
        source = net.source("in", pk.memory(rows), on="ts", progress=pk.ordered())
        box = box_of(source.aggregate({"d": "count(DISTINCT v)"}, on="ts", size=100, by=["k"]))
        slots = MemorySlots()
        for start in range(0, rows.num_rows, 100):
            entry, holder = SubAggregateOp(box), AggregateOp(box, slots)
            entry.process(0, rows.slice(start, 100))
            for part, tuples in entry.flush():
                holder.receive(part, tuples)
            holder._keep(holder._take())
        return {
            (slot, part): [chunk.to_pylist() for chunk in chunks]
            for slot, parts in slots.held.items()
            for part, chunks in parts.items()
        }

    def test_it_is_the_same_whatever_was_met_before(self, monkeypatch: pytest.MonkeyPatch) -> None:
        at = np.arange(1000)
        texts = [f"v{number * 7919 % 97}" + "long" * (number % 13) for number in at]
        rows = pa.table({"ts": at % 200, "k": at % 3, "v": texts})
        fresh = self.kept(rows, [], monkeypatch)
        assert {part for _, part in fresh} >= {"h0 sets", "h0 values"}
        assert self.kept(rows, [*reversed(texts), "x" * 60, ""], monkeypatch) == fresh


def test_nearly_unique_values_are_sent_as_they_are() -> None:
    assert value_sets.SAMPLE * value_sets.SAMPLE // (2 * value_sets.LEAST_MET) < vocabulary.MOST_VALUES
    gathered = value_sets.SetsOfTrain(pa.int64())
    table = value_sets.Cells(0, (1, 1), (pa.array([7]),))
    for start in range(0, 4 * value_sets.FEW_ROWS, value_sets.FEW_ROWS):
        values = np.arange(start, start + value_sets.FEW_ROWS)
        gathered.add(value_sets.Placed(np.zeros(len(values), np.int64), table), pa.array(values))
    assert list(gathered.sets(["pane", "k"])) == []
    assert sum(plain.num_rows for plain in gathered.plain(["pane", "k", "v"])) == 4 * value_sets.FEW_ROWS
