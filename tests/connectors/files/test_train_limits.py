"""No train is longer than asked for, whatever the files are cut into; and any length gives the same tuples."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk
from penstock.connectors.connector import Limit
from penstock.connectors.files.declaration import files
from penstock.connectors.journal import MemoryJournal

Drain = Callable[..., Any]
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])
ROWS = 1_000


def table(rows: int = ROWS) -> pa.Table:
    return pa.table({"ts": list(range(rows)), "k": [f"k{at % 7}" for at in range(rows)]}, schema=SCHEMA)


def text_lines(name: str, rows: int = ROWS) -> str:
    if "csv" in name:
        # Blank lines are no rows, and some lines are no tuples.
        return "ts,k\n" + "".join(f"{at if at % 50 else 'x'},k{at % 7}\n" + "\n" * (at % 9 == 0) for at in range(rows))
    return "".join(json.dumps({"ts": at, "k": f"k{at % 7}"}) + "\n" + " \n" * (at % 9 == 0) for at in range(rows))


def write(path: Path, rows: int = ROWS) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table(rows), path, row_group_size=300)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, SCHEMA) as writer:
            writer.write_table(table(rows), max_chunksize=300)
    elif path.suffix == ".arrows":
        with pa.ipc.new_stream(path, SCHEMA) as stream:
            stream.write_table(table(rows), max_chunksize=300)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(text_lines(path.name, rows).encode()))
    else:
        path.write_text(text_lines(path.name, rows))
    return path


NAMES = ["a.parquet", "a.arrow", "a.arrows", "a.csv", "a.jsonl", "a.csv.gz", "a.jsonl.gz"]


def trains(net: pk.Network, **options: Any) -> list[dict[str, int]]:
    """What each batch has read of each input."""
    counts: list[dict[str, int]] = []

    def note(record: Any) -> None:
        counts.append({name: count.read for name, count in record.inputs.items()})

    net.run(engine="local", on_batch=note, **options)
    before = [dict.fromkeys(counts[0], 0), *counts]
    return [{name: now[name] - then.get(name, 0) for name in now} for then, now in zip(before, counts, strict=False)]


@pytest.mark.parametrize("rows", [17, 64, 299])
@pytest.mark.parametrize("name", [*NAMES, "multiline.csv"])
def test_no_train_is_longer_than_asked_for(data: Path, drain: Drain, name: str, rows: int) -> None:
    multiline = name.startswith("multi")
    connector = files(str(write(data / name)), schema=SCHEMA, multiline=multiline)
    whole = drain(connector)
    journal = MemoryJournal()
    feed = connector.open(SCHEMA, journal)
    position, tuples, refused, read = feed.start(), [], [], []
    while True:
        step = feed.advance(position, Limit(rows, 2**60))
        # A restart in the middle of a part reads the same.
        end = json.loads(json.dumps(step.position))
        again = files(str(data / name), schema=SCHEMA, multiline=multiline).open(SCHEMA, journal)
        assert again.splits(position, end) == feed.splits(position, end)
        chunks = [c for split in feed.splits(position, end) for c in connector.read(split, SCHEMA, SCHEMA.names)]
        tuples += [row for chunk in chunks for row in chunk.tuples.to_pylist()]
        rejects = [row for c in chunks if c.rejects is not None for row in c.rejects.to_pylist()]
        refused += rejects
        read.append(sum(chunk.tuples.num_rows for chunk in chunks) + len(rejects))
        assert step.rows == read[-1]
        position = end
        if step.ended:
            break
    assert tuples == whole.tuples
    assert refused == whole.rejects
    assert sum(read) == ROWS
    assert max(read) <= rows
    #  a train may end with a part if it is half as long as it may be
    assert min(read[:-1], default=rows) * 2 >= rows


@pytest.mark.parametrize("name", ["a.parquet", "a.csv.gz"])
def test_a_run_takes_no_more_tuples_in_a_batch_than_train_rows(data: Path, name: str) -> None:
    net = pk.Network("trains")
    net.source("s", pk.files(str(write(data / name))), schema=SCHEMA).output("all")
    counts = trains(net, train_rows=128)
    read = [count["s"] for count in counts]
    assert sum(read) == 1_000
    assert max(read) <= 128
    assert min(read[:-1]) >= 64


def test_inputs_together_take_no_more_than_train_rows(data: Path) -> None:
    net = pk.Network("trains")
    streams = [net.source(n[0], pk.files(str(write(data / n))), schema=SCHEMA) for n in ("a.csv", "b.parquet")]
    streams.append(net.source("mem", pk.memory(table(100)), schema=SCHEMA))
    pk.union(*streams).output("all")
    counts = [sum(count.values()) for count in trains(net, train_rows=90)]
    assert max(counts) <= 90
    assert sum(counts) == 2_100
    assert len(counts) < 2_100 / 90 * 1.5


def test_memory_and_generator_hold_train_rows(data: Path) -> None:
    net = pk.Network("trains")
    net.source("memory", pk.memory(table(1_000)), schema=SCHEMA).output("m")
    assert [count["memory"] for count in trains(net, train_rows=300)] == [300, 300, 300, 100]
    net = pk.Network("trains")
    #  four links at three million tuples a second: twelve are due in the same microsecond
    packets = pk.generator(rate=3_000_000, links=4, rows=100)
    net.source("packets", packets).output("p")
    counts = [count["packets"] for count in trains(net, train_rows=10)]
    assert max(counts) <= 10
    assert sum(counts) == 100


def test_a_script_keeps_its_own_trains() -> None:
    net = pk.Network("trains")
    net.source("s", pk.memory(table(100), train=30), schema=SCHEMA).output("all")
    assert [count["s"] for count in trains(net, train_rows=10)] == [30, 30, 30, 10]


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.arrows", "a.csv", "a.jsonl"])
def test_no_train_is_larger_than_train_bytes_when_texts_are_long(data: Path, name: str) -> None:
    #  400 bytes to a text, which a Parquet file keeps once and a batch a thousand times
    rows = [{"ts": at, "k": "x" * 400} for at in range(1_000)]
    long = pa.Table.from_pylist(rows, schema=SCHEMA)
    path = data / name
    if name == "a.parquet":
        pq.write_table(long, path)
    elif name == "a.arrow":
        with pa.ipc.new_file(path, SCHEMA) as writer:
            writer.write_table(long)
    elif name == "a.arrows":
        with pa.ipc.new_stream(path, SCHEMA) as stream:
            stream.write_table(long)
    else:
        path.write_text(
            "ts,k\n" + "".join(f"{row['ts']},{row['k']}\n" for row in rows)
            if name == "a.csv"
            else "".join(json.dumps(row) + "\n" for row in rows)
        )
    net = pk.Network("bytes")
    net.source("s", pk.files(str(path)), schema=SCHEMA).output("all")
    counts = [count["s"] for count in trains(net, train_bytes=41_200)]
    assert 80 <= max(counts) <= 110
    assert sum(counts) == 1_000
    net = pk.Network("bytes")
    net.source("s", pk.files(str(path)), schema=SCHEMA).map(ts="ts").output("times")
    counts = [count["s"] for count in trains(net, train_bytes=4_000)]
    assert max(counts) <= 550 if name.startswith("a.p") or "arrow" in name else 1_000


@settings(max_examples=tries(40))
@given(
    st.sampled_from(NAMES), st.integers(1, 60), st.integers(200, 20_000), st.integers(0, 300), st.integers(50, 4_000)
)
def test_any_length_of_a_train_gives_the_same_tuples(
    name: str, train_rows: int, train_bytes: int, rows: int, split_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, name), rows)
        cut = _tuples(files(str(path), schema=SCHEMA, split_rows=100, split_bytes=split_bytes), train_rows, train_bytes)
        whole = _tuples(files(str(path), schema=SCHEMA), 2**60, 2**60)
    assert max(cut[2], default=0) <= train_rows
    assert cut[:2] == whole[:2]


def _tuples(connector: Any, train_rows: int, train_bytes: int) -> tuple[list[Any], list[Any], list[int]]:
    feed = connector.open(SCHEMA, MemoryJournal())
    position, tuples, rejects, lengths = feed.start(), list[Any](), list[Any](), list[int]()
    while True:
        step = feed.advance(position, Limit(train_rows, train_bytes, ("ts",)))
        before = len(tuples) + len(rejects)
        for split in feed.splits(position, step.position):
            for chunk in connector.read(split, SCHEMA, SCHEMA.names):
                tuples += chunk.tuples.to_pylist()
                rejects += [] if chunk.rejects is None else chunk.rejects.to_pylist()
        lengths.append(len(tuples) + len(rejects) - before)
        position = step.position
        if step.ended:
            return tuples, rejects, lengths


@settings(max_examples=tries(3))
@given(st.sampled_from(["a.parquet", "a.csv"]), st.integers(20, 80), st.integers(1_000, 20_000))
def test_any_length_of_a_train_gives_the_same_results(name: str, train_rows: int, train_bytes: int) -> None:
    results = []
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, name), 200)
        for options in ({}, {"train_rows": train_rows, "train_bytes": train_bytes}):
            net = pk.Network("any")
            source = net.source("s", pk.files(str(path), split_rows=100, split_bytes=500), schema=SCHEMA)
            source.output("all")
            source.aggregate({"n": "count(*)"}, on="ts", size=10, by=["k"]).output("counts")
            counts: list[int] = []
            result = net.run(
                engine="local", on_batch=lambda record, to=counts: to.append(record.inputs["s"].read), **options
            )
            if options:
                assert max(now - then for then, now in zip([0, *counts], counts, strict=False)) <= train_rows
            told = (result["all"].to_pylist(), sorted(result["counts"].to_pylist(), key=str))
            results.append((*told, result.errors("s").to_pylist(), result.late("s").num_rows))
    assert results[0] == results[1]
