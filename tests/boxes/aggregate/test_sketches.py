"""approx_count_distinct over windows: registers do not depend on order, cuts, buckets or the way of a value."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk
from penstock.boxes.aggregate import dense_groups
from penstock.boxes.aggregate.sketches import dense_registers
from penstock.boxes.aggregate.sketches.dense_registers import DenseRegisters
from penstock.operators.sketches import rows as sketch_rows
from penstock.operators.sketches.hashes import hashes
from penstock.operators.sketches.registers import entries_of, estimates, sketches_of

OUTPUTS = {
    "few": "approx_count_distinct(v, 0.39)",
    "plain": "approx_count_distinct(v)",
    "fine": "approx_count_distinct(v, 0.02)",
    "half": "approx_count_distinct(v) FILTER (WHERE n % 2 = 0)",
}
PRECISIONS = {"few": 4, "plain": 9, "fine": 12, "half": 9}
SCHEMA = {"ts": "int64", "k": "string", "n": "int64", "v": "string"}
Row = tuple[int, str | None, int, str | None]


def estimate(values: list[Any], precision: int, kind: pa.DataType | None = None) -> int:
    """What a single sketch of all values says."""
    column = pa.array(values, kind or pa.string())
    entries = entries_of(np.zeros(len(values), np.int64), hashes(column), precision)
    return int(estimates(pa.chunked_array([sketches_of(entries, 1, precision)]), precision)[0])


def expected(rows: list[Row], size: int, advance: int, by: tuple[str, ...]) -> dict[tuple[Any, ...], dict[str, int]]:
    """What each window and group says, by one sketch of its values."""
    windows: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        start = row[0] // advance * advance
        while start + size > row[0]:
            windows[(start, *([row[1]] if by else []))].append(row)
            start -= advance
    return {
        key: {
            name: estimate([r[3] for r in own if r[3] is not None and (name != "half" or r[2] % 2 == 0)], bits)
            for name, bits in PRECISIONS.items()
        }
        for key, own in windows.items()
    }


ROWS = st.tuples(
    st.integers(-20, 60),
    st.sampled_from(["x", "y", None]),
    st.integers(0, 3),
    st.one_of(st.none(), st.integers(0, 400).map("value-{}".format)),
)


@settings(max_examples=tries(40))
@given(
    rows=st.lists(ROWS, min_size=1, max_size=200),
    size=st.sampled_from([10, 30]),
    sliding=st.booleans(),
    by=st.sampled_from([(), ("k",)]),
    train=st.integers(1, 90),
    buckets=st.integers(1, 3),
    tasks=st.integers(1, 3),
    more=st.sampled_from([{}, {"m": "max(v)"}, {"m": "median(n)"}]),
)
def test_estimates_depend_on_nothing_but_the_values(
    rows: list[Row],
    size: int,
    sliding: bool,
    by: tuple[str, ...],
    train: int,
    buckets: int,
    tasks: int,
    more: dict[str, str],
) -> None:
    advance = 10 if sliding else size
    net = pk.Network("sketch")
    source = net.source("in", pk.memory(rows, schema=SCHEMA, train=train), on="ts", progress=pk.delayed(100))
    source.aggregate({**OUTPUTS, **more}, size=size, advance=advance, by=by).output("out")
    found = net.run("local", buckets=buckets, tasks=tasks)["out"].to_pylist()
    keys = ("ts", *by)
    told = {tuple(row[k] for k in keys): {name: row[name] for name in OUTPUTS} for row in found}
    assert len(told) == len(found)
    assert told == expected(rows, size, advance, by)


@pytest.mark.parametrize("groups", [3, 5_000], ids=["counted directly", "hashed"])
@pytest.mark.parametrize("values", [2, 40_000], ids=["few", "many"])
def test_every_way_of_a_train_makes_the_same_registers(
    groups: int, values: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Directly, by hashing, from codes of a file, in trains of any length: with other aggregates, and without."""
    plain = {name: text for name, text in OUTPUTS.items() if name != "half"}  # FILTER has a way of its own
    rng = np.random.default_rng(groups + values)
    size = 120_000
    rows = pa.table(
        {
            "ts": np.arange(size),
            "k": pa.array([f"k{n}" for n in rng.integers(0, groups, size)]),
            "n": rng.integers(0, 9, size),
            "v": pa.array([f"value-{n}" if n else None for n in rng.integers(0, values, size)]),
        }
    )
    pq.write_table(rows, tmp_path / "part.parquet", row_group_size=30_000)

    def found(connector: Any, **run: Any) -> pa.Table:
        net = pk.Network("ways")
        source = net.source("in", connector, schema=SCHEMA, on="ts", progress=pk.ordered())
        source.aggregate(plain, size=60_000, by="k").output("out")
        return net.run("local", **run)["out"].sort_by([("ts", "ascending"), ("k", "ascending")])

    seen: list[int] = []
    sketches = DenseRegisters.sketches
    monkeypatch.setattr(DenseRegisters, "sketches", lambda self, cells: seen.append(1) or sketches(self, cells))
    whole = found(pk.files(str(tmp_path)))
    assert bool(seen) == (groups == 3)
    assert found(pk.files(str(tmp_path)), train_rows=7_000, buckets=3) == whole
    assert found(pk.memory(rows, train=50_000), buckets=2) == whole
    monkeypatch.setattr(dense_groups, "CELLS_PER_TUPLE", 0)
    assert found(pk.files(str(tmp_path))) == whole
    exact: dict[tuple[int, str], set[str]] = defaultdict(set)
    for at, k, v in zip(*(rows[c].to_pylist() for c in ("ts", "k", "v")), strict=True):
        exact[at // 60_000 * 60_000, k].update([v] if v else [])
    for row in whole.to_pylist():
        number = len(exact[row["ts"], row["k"]])
        # In one of thousands of small groups some values share a register.
        assert row["plain"] == pytest.approx(number, rel=4 * 0.046, abs=3)
        assert row["fine"] == pytest.approx(number, rel=4 * 0.017, abs=2)
    assert pc.sum(whole["plain"]).as_py() == pytest.approx(sum(map(len, exact.values())), rel=0.05)


def test_a_group_without_values_counts_none() -> None:
    net = pk.Network("none")
    rows = [(1, "x", 1, None), (2, "y", 1, "a"), (3, "y", 2, "a")]
    net.source("in", pk.memory(rows, schema=SCHEMA)).aggregate(OUTPUTS, size=10, by="k").output("out")
    assert net.run("local")["out"].sort_by("k").to_pylist() == [
        {"ts": 0, "k": "x", "few": 0, "plain": 0, "fine": 0, "half": 0},
        {"ts": 0, "k": "y", "few": 1, "plain": 1, "fine": 1, "half": 1},
    ]


NAN = float("nan")


@pytest.mark.parametrize(
    ("kind", "values", "distinct"),
    [
        (pa.int8(), [1, -1, 1], 2),
        (pa.uint64(), [2**64 - 1, 0, 2**64 - 1], 2),
        (pa.bool_(), [True, False, True], 2),
        (pa.float32(), [0.0, -0.0, NAN, NAN, 1.5], 3),
        (pa.float64(), [0.0, -0.0, NAN, -NAN, 1.5], 3),
        (pa.decimal128(9, 2), [Decimal("1.00"), Decimal("1.01"), Decimal("1.00")], 2),
        (pa.decimal128(38, 0), [Decimal(10**37), Decimal(-(10**37)), Decimal(10**37)], 2),
        (pa.date32(), [dt.date(2024, 1, 1), dt.date(1969, 1, 1), dt.date(1969, 1, 1)], 2),
        (pa.date64(), [dt.date(2024, 1, 1), dt.date(1969, 1, 1), dt.date(1969, 1, 1)], 2),
        (pa.time32("s"), [dt.time(1), dt.time(2), dt.time(1)], 2),
        (pa.time64("us"), [dt.time(1), dt.time(2), dt.time(1)], 2),
        (pa.timestamp("ms", tz="UTC"), [1, 2, 1], 2),
        (pa.timestamp("ns"), [1, 2, 1], 2),
        (pa.timestamp("ns", tz="UTC"), [1000, 2000, 1000], 2),
        (pa.string(), ["", "é", "a" * 63, "a" * 64, "a" * 65, "a" * 5000, "é"], 6),
        (pa.large_string(), ["x", "y", "x"], 2),
        (pa.binary(), [b"", b"\0", b"\0\0", b"\0"], 3),
        (pa.binary(4), [b"abcd", b"abce", b"abcd"], 2),
        (pa.dictionary(pa.int32(), pa.string()), ["x", "y", "x"], 2),
    ],
    ids=str,
)
def test_values_of_a_type_are_the_same_however_they_come(kind: pa.DataType, values: list[Any], distinct: int) -> None:
    """Some as columns, others through SQL: all of one sketch, so a value that had two hashes would count twice."""
    size = len(values)
    coded = pa.types.is_dictionary(kind)
    own = pa.array(values).dictionary_encode() if coded else pa.array(values, kind)
    rows = pa.table({"ts": np.arange(2 * size) // 2, "k": ["a", "b"] * size, "v": pa.concat_arrays([own, own])})
    calls = {
        "bare": "approx_count_distinct(v)",
        "kept": "approx_count_distinct(v) FILTER (WHERE ts >= 0)",
        "made": "approx_count_distinct(coalesce(v, v))",
        "exact": "count(DISTINCT v)",
    }
    net = pk.Network("types")
    source = net.source("in", pk.memory(rows, train=3), on="ts", progress=pk.ordered())
    kinds: list[dict[str, Any]] = [
        {"size": 100},
        {"size": 100, "advance": 50},
        {"on": pk.TUPLE_NUMBER, "size": 2 * size},
        {"size": 100, "origin": "first"},
    ]
    for number, windows in enumerate(kinds):
        source.aggregate(calls, **windows).output(str(number))
    found = net.run("local")
    for number in range(len(kinds)):
        for row in found[str(number)].to_pylist():
            assert [row[name] for name in calls] == [distinct] * 4


@pytest.mark.parametrize("after", range(4))
def test_sketches_outlive_a_restart(after: int) -> None:
    rows = [(t, "xy"[t % 2], t, f"value-{t * 7 % 900}") for t in range(2_000)]

    def network() -> pk.Network:
        net = pk.Network("restart")
        source = net.source("in", pk.memory(rows, schema=SCHEMA, train=400), on="ts", progress=pk.ordered())
        source.aggregate(OUTPUTS, size=1_000, advance=500, by="k").output("periodic")
        source.aggregate(OUTPUTS, on=pk.TUPLE_NUMBER, size=450, by="k").output("numbered")
        return net

    class InterruptError(Exception):
        pass

    def interrupt(record: Any) -> None:
        if record.batch == after:
            raise InterruptError

    whole = network().run("local", buckets=2)
    with tempfile.TemporaryDirectory() as folder:
        with pytest.raises(InterruptError):
            network().run("local", checkpoint=folder, buckets=2, on_batch=interrupt)
        result = network().run("local", checkpoint=folder, buckets=2)
        for name in ("periodic", "numbered"):
            assert result[name] == whole[name]
            assert result[name].num_rows > 0


def test_values_that_agree_in_their_hashes_cost_accuracy_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (dense_registers, sketch_rows):
        monkeypatch.setattr(module, "hashes", lambda column: np.zeros(len(column), np.uint64))
    net = pk.Network("hostile")
    rows = [(t, "xy"[t % 2], 2 * t, f"value-{t}") for t in range(500)]
    source = net.source("in", pk.memory(rows, schema=SCHEMA, train=100), on="ts", progress=pk.ordered())
    source.aggregate({**OUTPUTS, "c": "count(v)"}, size=1_000, by="k").output("out")
    for row in net.run("local")["out"].to_pylist():
        assert row["c"] == 250
        assert {row[name] for name in OUTPUTS} == {1}
