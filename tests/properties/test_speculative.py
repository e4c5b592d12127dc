"""Early results: after every batch they are the aggregate of what has arrived, and at the end the final result."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections import Counter
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.journeys import by_every_way
from tests.properties.temporal import Database
from tests.thoroughness import tries

import penstock as pk
from penstock.runtime.board import Record
from penstock.runtime.settings import EXCHANGE, EXPRESS
from penstock.testing import play

SCHEMA = {"ts": "int64", "k": "string", "j": "int64", "v": "int64"}
OUTPUTS = {
    "n": "count(*)",
    "total": "sum(v)",
    "low": "min(v)",
    "mid": "median(v)",
    "kinds": "count(DISTINCT v)",
    # Exact: of so many registers no two of these values share one.
    "about": "approx_count_distinct(v, 0.0022)",
    "all_v": "list(v)",
}
ROWS = st.tuples(
    st.integers(-15, 40),
    st.sampled_from(["x", "y", "z", None]),
    st.integers(0, 1),
    st.one_of(st.none(), st.integers(0, 3)),
)


@dataclass(frozen=True)
class Case:
    size: int
    advance: int | None
    by: tuple[str, ...]
    batches: tuple[tuple[tuple[Any, ...], int | None], ...]
    """The rows of each batch, and what punctuation states at its end."""
    buckets: int

    def network(self, elements: Any = (), **script: Any) -> pk.Network:
        net = pk.Network("early")
        stream = net.source("in", pk.memory(elements, schema=SCHEMA, **script), progress=pk.punctuated())
        stream.output("taken")
        windows: dict[str, Any] = {"on": "ts", "size": self.size, "advance": self.advance, "by": self.by}
        stream.aggregate(OUTPUTS, emit="speculative", name="early", **windows).output("early")
        stream.aggregate(OUTPUTS, name="late", **windows).output("final")
        return net

    def script(self) -> list[dict[str, Any]]:
        return [{"in": self.elements(rows, mark)} for rows, mark in self.batches]

    def elements(self, rows: Any, mark: int | None) -> list[Any]:
        return [*rows, *([] if mark is None else [pk.punctuation(ts=mark)])]


@st.composite
def cases(draw: Any) -> Case:
    batches, mark = [], -20
    for _ in range(draw(st.integers(1, 6))):
        rows = tuple(draw(st.lists(ROWS, max_size=8)))
        # Some rows are late: those that are below what was stated before.
        stated = draw(st.one_of(st.none(), st.integers(0, 15)))
        mark += stated or 0
        batches.append((rows, None if stated is None else mark))
    by = draw(st.sampled_from([(), ("k",), ("k", "j")]))
    advance = draw(st.one_of(st.none(), st.integers(1, 12)))
    return Case(draw(st.integers(1, 12)), advance, by, tuple(batches), draw(st.integers(1, 3)))


def expected(case: Case, rows: list[dict[str, Any]]) -> Counter[Any]:
    """The events of all tuples, as DuckDB groups them."""
    advance = case.advance or case.size
    taken = pa.Table.from_pylist(
        rows, pa.schema({"ts": pa.int64(), "k": pa.string(), "j": pa.int64(), "v": pa.int64()})
    )
    keys = "".join(f", {k}" for k in case.by)
    calls = ", ".join(f"{sql} AS {name}" for name, sql in OUTPUTS.items()).replace("list(v)", "list(v ORDER BY ts, v)")
    calls = calls.replace(OUTPUTS["about"], OUTPUTS["kinds"])
    connection = duckdb.connect()
    connection.register("taken", taken)
    spread = f"""
        SELECT *, w * {advance} AS start FROM taken, range(-60, 60) AS windows(w)
        WHERE w * {advance} <= ts AND ts < w * {advance} + {case.size}
    """
    sql = f"SELECT start{keys}, {calls} FROM ({spread}) GROUP BY start{keys}"
    found = connection.sql(sql).to_arrow_table().to_pylist()
    return Counter(
        (plain(value for name, value in row.items() if name != "start"), row["start"], row["start"] + case.size)
        for row in found
    )


def plain(values: Any) -> tuple[Any, ...]:
    return tuple(tuple(v) if isinstance(v, list) else int(v) if _whole(v) else v for v in values)


def _whole(value: Any) -> bool:
    return not isinstance(value, str | None) and value == int(value)


def hashable(elements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [dict(zip(e, plain(e.values()), strict=True)) for e in elements]


@settings(max_examples=tries(25))
@given(case=cases())
def test_after_every_batch_events_are_the_aggregate_of_what_has_arrived(case: Case) -> None:
    played = play(case.network(), case.script(), buckets=case.buckets)
    database, taken, stable = Database(), list[dict[str, Any]](), -math.inf
    marks = played.marks("early", "sync")
    for batch, (arrived, elements) in enumerate(zip(played.batches("taken"), played.batches("early"), strict=True)):
        assert all(element["sync"] >= stable for element in elements), f"{elements} below {stable}"
        assert marks[batch] >= stable
        stable = marks[batch]
        database.apply(hashable(elements))
        taken += arrived
        assert database.events == expected(case, taken)
    final = [dict(zip(row, plain(row.values()), strict=True)) for row in played["final"].to_pylist()]
    last = Counter((tuple(list(row.values())[1:]), row["ts"], row["ts"] + case.size) for row in final)
    assert database.events == last
    work = played.records[-1].boxes["early"]
    assert (work.held_rows, work.open_windows) == (0, 0)
    assert work.released == len(taken)


@settings(max_examples=tries(10))
@given(case=cases())
def test_what_has_not_changed_is_not_said_again(case: Case) -> None:
    played = play(case.network(), case.script(), buckets=case.buckets)
    for elements in played.batches("early"):
        rows = hashable(elements)
        inserted = {tuple(e.items())[2:] for e in rows if e["kind"] == "insert"}
        assert len(inserted) == sum(e["kind"] == "insert" for e in rows)
        withdrawn = {
            tuple(v for n, v in e.items() if n not in ("kind", "ve", "vold")) for e in rows if e["kind"] == "adjust"
        }
        said = {
            tuple(v for n, v in e.items() if n not in ("kind", "ve", "vold")) for e in rows if e["kind"] == "insert"
        }
        assert not withdrawn & said


@settings(max_examples=tries(5))
@given(case=cases(), ways=st.lists(st.sampled_from([EXPRESS, EXCHANGE]), min_size=1, max_size=5))
def test_any_way_leaves_the_same_bytes(case: Case, ways: list[str]) -> None:
    elements = [pk.clock(1_000), *(e for rows, mark in case.batches for e in case.elements(rows, mark))]
    with by_every_way(lambda: case.network(elements, train=3), ways, buckets=case.buckets) as mixed:
        database = Database()
        database.apply(hashable(mixed.result["early"].to_pylist()))
        assert database.events == expected(case, mixed.result["taken"].to_pylist())


class InterruptError(Exception):
    pass


@settings(max_examples=tries(5))
@given(case=cases(), after=st.integers(0, 3))
def test_a_run_interrupted_after_any_batch_goes_on_to_the_same_answer(case: Case, after: int) -> None:
    elements = [e for rows, mark in case.batches for e in case.elements(rows, mark)]

    def interrupt(record: Record) -> None:
        if record.batch == after:
            raise InterruptError

    with tempfile.TemporaryDirectory() as folder:
        options: Any = {"buckets": case.buckets, "checkpoint": f"{folder}/checkpoint"}
        with contextlib.suppress(InterruptError):
            case.network(elements, train=3).run("local", on_batch=interrupt, **options)
        result = case.network(elements, train=3).run("local", **options)
        database = Database()
        database.apply(hashable(result["early"].to_pylist()))
        assert database.events == expected(case, result["taken"].to_pylist())
