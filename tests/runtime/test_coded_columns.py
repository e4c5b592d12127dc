"""Texts that stay codes of a dictionary up to the box that groups by them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.boxes.aggregate.dense_groups import MOST_IN_SAMPLE
from penstock.boxes.aggregate.entry import SubAggregateOp
from penstock.connectors.files.formats.parquet import Parquet
from penstock.plan.compile import compile_network
from penstock.runtime import intake
from penstock.runtime.coded_columns import coded_columns

LARGE = MOST_IN_SAMPLE + 1000
"""Entries of a dictionary that are too many to be numbered once for all."""
SCHEMA = {"ts": "int64", "k": "string", "j": "string", "v": "int64"}


def plan_of(built: Callable[[pk.Stream], Any], **how: Any) -> frozenset[str]:
    net = pk.Network("n")
    built(net.source("s", pk.memory([], schema=SCHEMA), on="ts", **({"progress": pk.delayed(5)} | how)))
    plan = compile_network(net.network)
    return coded_columns(plan, plan.network.sources[0])


def counts(stream: pk.Stream, name: str = "counts", **outputs: str) -> None:
    stream.aggregate({"n": "count(*)", **outputs}, on="ts", size=10, by=["k", "j"], name=name).output(name)


def tuple_windows(stream: pk.Stream) -> None:
    stream.aggregate({"n": "max(v)"}, on=pk.TUPLE_NUMBER, size=3, by=["k", "j"], name="tuples").output("tuples")


def test_keys_of_groups_are_codes() -> None:
    assert plan_of(counts) == {"k", "j"}


def test_also_what_sketches_are_made_of() -> None:
    assert plan_of(lambda stream: sketched(stream, a="approx_count_distinct(j)")) == {"k", "j"}
    assert plan_of(lambda stream: sketched(stream, a="approx_count_distinct(j)", m="max(j)")) == {"k"}
    assert plan_of(lambda stream: sketched(stream, a="approx_count_distinct(j) FILTER (WHERE v > 0)")) == {"k"}
    assert plan_of(lambda stream: sketched(stream, a="approx_count_distinct(upper(j))")) == {"k"}
    assert plan_of(lambda stream: sketched(stream, a="approx_count_distinct(j)", m="median(v)")) == frozenset()


def sketched(stream: pk.Stream, **outputs: str) -> None:
    stream.aggregate({"n": "count(*)", **outputs}, on="ts", size=10, by="k").output("o")


def test_also_behind_a_union() -> None:
    assert plan_of(lambda stream: counts(pk.union(stream, stream))) == {"k", "j"}


def test_also_windows_of_tuples() -> None:
    assert plan_of(tuple_windows) == {"k", "j"}


def test_also_behind_marks_of_groups() -> None:
    assert plan_of(counts, progress=pk.delayed(5, by=["k"])) == {"k"}
    assert plan_of(counts, progress=pk.delayed(5, by=["k", "j"])) == {"k", "j"}
    assert plan_of(lambda stream: counts(stream.where("v > 0")), progress=pk.delayed(5, by="k")) == frozenset()


def test_also_where_two_boxes_group_by_them() -> None:
    def both(stream: pk.Stream) -> None:
        counts(stream)
        stream.aggregate({"n": "count(*)"}, on="ts", size=10, by="k").output("other")

    assert plan_of(both) == {"k"}


@pytest.mark.parametrize(
    "built",
    [
        lambda stream: counts(stream, m="max(k)", l="count(DISTINCT j)"),
        lambda stream: (counts(stream), stream.output("rows")),
        lambda stream: counts(stream.where("k = 'x' OR j = 'y'")),
        lambda stream: stream.aggregate({"n": "max(k || j)"}, on=pk.TUPLE_NUMBER, size=3, by=["k", "j"]).output("o"),
        lambda stream: stream.aggregate(
            {"n": "max(v)"}, on="ts", size=3, by=["k", "j"], assuming=pk.order("ts", by=["k"])
        ).output("o"),
        lambda stream: stream.dedupe(by=["k", "j"], on="ts").output("o"),
    ],
    ids=["values", "an output", "a filter", "windows of tuples", "tuples that are late for it", "dedupe"],
)
def test_texts_that_somebody_reads_are_texts(built: Callable[[pk.Stream], Any]) -> None:
    assert plan_of(built) == frozenset()


def test_an_input_with_punctuation_among_its_tuples_has_texts() -> None:
    assert plan_of(counts, progress=pk.punctuated(where="k = 'mark'")) == frozenset()


def write(folder: Path) -> None:
    """Keys in a dictionary, with NULLs; too many for one; none at all; and a large one."""
    few = [None if n % 7 == 0 else f"key {n % 5}" for n in range(4000)]
    many = [f"key {n % 5}" if n % 2 else f"a long text that comes once {n}" for n in range(4000)]
    folder.mkdir()
    for number, (keys, dictionary) in enumerate([(few, True), (many, True), (few, False), (few, True)]):
        ts = [1000 * number + n // 4 for n in range(4000)]
        table = pa.table({"ts": ts, "k": keys, "j": ["same"] * 4000, "v": [n % 3 for n in range(4000)]})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=1000, use_dictionary=dictionary)
    large = [None if n % 11 == 0 else f"k{n % LARGE}" for n in range(4 * LARGE)]
    columns = {"ts": [4000 + n % 2000 for n in range(len(large))], "k": large, "j": ["same"] * len(large)}
    table = pa.table({**columns, "v": [n % 3 for n in range(len(large))]})
    pq.write_table(table, folder / "4.parquet", row_group_size=2 * LARGE)


def test_columns_in_a_small_dictionary_come_as_codes(tmp_path: Path) -> None:
    write(tmp_path / "data")
    net = pk.Network("n")
    schema = pa.schema([(name, pa.string() if kind == "string" else pa.int64()) for name, kind in SCHEMA.items()])
    net.source("s", pk.files(str(tmp_path / "data")), schema=SCHEMA, on="ts").output("o")
    connector: Any = net.network.sources[0].connector
    kinds = []
    for number, groups in enumerate([4, 4, 4, 4, 2]):
        path = str(tmp_path / "data" / f"{number}.parquet")
        part = connector.part(path, Path(path).stat().st_size, 0, groups)
        chunks = list(Parquet(frozenset({"k"})).read(part, schema, ["ts", "k", "j"]))
        kinds.append({str(chunk.tuples.schema.field("k").type) for chunk in chunks})
        assert {str(chunk.tuples.schema.field("j").type) for chunk in chunks} == {"string"}
    coded = "dictionary<values=string, indices=int32, ordered=0>"
    assert kinds == [{coded}, {"string"}, {"string"}, {coded}, {coded}]


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.parametrize("train_rows", [None, 2500])
def test_answers_are_the_same(
    engine: str, train_rows: int | None, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if engine == "spark":
        request.getfixturevalue("spark_ready")
    write(tmp_path / "data")
    net = pk.Network("n")
    source = net.source("s", pk.files(str(tmp_path / "data")), schema=SCHEMA, on="ts", progress=pk.delayed(2000))
    outputs = {"n": "count(*)", "total": "sum(v)", "first": "min_by(v, ts)"}
    source.aggregate(outputs, on="ts", size=100, by=["k", "j"]).output("o")
    found = net.run(engine, buckets=2, **({} if train_rows is None else {"train_rows": train_rows}))["o"]
    with duckdb.connect() as oracle:
        expected = oracle.sql(
            "SELECT ts // 100 * 100 AS ts, k, j, count(*) AS n, sum(v)::BIGINT AS total, arg_min(v, (ts, v)) AS first "
            f"FROM '{tmp_path}/data/*.parquet' GROUP BY ALL"
        ).to_arrow_table()
    names = ["ts", "k", "j", *outputs]
    assert found.num_rows == expected.num_rows > 0
    key = [(name, "ascending") for name in ("ts", "k", "j")]
    assert found.select(names).sort_by(key).to_pylist() == expected.select(names).sort_by(key).to_pylist()


@pytest.mark.parametrize("way", ["express", "exchange"])
@pytest.mark.parametrize("shown", [True, False], ids=["late tuples are read", "late tuples are dropped"])
def test_marks_of_groups_and_windows_of_tuples_answer_as_for_texts(
    way: str, shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    for number, dictionary in enumerate([True, False, True]):
        # The last of every five runs behind the others, and some are late in their group.
        ts = [100 * number + n // 4 - 30 * (n % 5 == 4) - 60 * (n % 53 == 20) for n in range(400)]
        keys = [None if n % 5 == 0 else f"key {n % 5} {number * (n % 2)}" for n in range(400)]
        table = pa.table({"ts": ts, "k": keys, "j": ["same"] * 400, "v": [n % 3 for n in range(400)]})
        pq.write_table(table, tmp_path / "data" / f"{number}.parquet", row_group_size=100, use_dictionary=dictionary)

    def answers() -> dict[str, list[Any]]:
        net = pk.Network("n")
        progress = pk.delayed(3, by=["k"])
        source = net.source("s", pk.files(str(tmp_path / "data")), schema=SCHEMA, on="ts", progress=progress)
        counts(source, total="sum(v)")
        source.aggregate({"n": "count(*)"}, on="ts", size=50, by="j", name="other").output("other")
        tuple_windows(
            net.source("t", pk.files(str(tmp_path / "data")), schema=SCHEMA, on="ts", progress=pk.delayed(9999))
        )
        if shown:
            source.late().output("late")
        result = net.run("local", way=way, buckets=2, tasks=2, train_rows=500)
        names = ["counts", "other", "tuples", *(["late"] if shown else [])]
        return {name: result[name].to_pylist() for name in names}

    coded = answers()
    asked: list[Any] = []
    monkeypatch.setattr(intake, "coded_columns", lambda plan, source: asked.append(source) or frozenset())
    assert coded == answers()
    assert asked
    assert all(coded.values())


def test_trains_with_large_dictionaries_are_counted_one_by_one() -> None:
    net = pk.Network("n")
    counts(net.source("s", pk.memory([], schema=SCHEMA), on="ts", progress=pk.delayed(5)))
    operator = SubAggregateOp(net.network.boxes[1])  # type: ignore[arg-type]
    rows = 4 * LARGE
    keys = pa.array([None if n % 13 == 0 else f"k{n % LARGE}" for n in range(rows)]).dictionary_encode()
    columns = [pa.array([n % 20 for n in range(rows)], pa.int64()), keys, pa.array(["j"] * rows).dictionary_encode()]
    table = pa.table(columns, names=["ts", "k", "j"])
    for train in (table, table):
        operator.process(0, train)
    assert not operator._rows
    found = dict(operator.flush())["partial"]
    assert sum(found["p0"].to_pylist()) == 2 * rows
    expected = {(pane, key) for pane, key in zip((n % 20 // 10 for n in range(rows)), keys.to_pylist(), strict=True)}
    assert {(row["#pane"], row["k"]) for row in found.to_pylist()} == expected
    assert found.num_rows == len(expected)
