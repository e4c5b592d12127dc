"""The data of `penstock bench shapes`: events with a column for every kind of key, and what is made of them.

However many rows there are, they come in twenty files or more of at most a million rows, and cover 200 seconds of event
time or more, each up to 2 seconds late. So a small run has as many batches as a large one, and windows that close. What
`len` says follows from the time, so that two tuples of the same time agree in it: the first and the last of a group are
the same whoever breaks the tie.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock_bench.conversations import mixed
from penstock_bench.q7 import write_links
from penstock_bench.shapes_cells import LINKS, Cell
from penstock_bench.throughput import connect, text
from penstock_bench.traffic import DELAY_US, EPOCH_US, address, write

BATCHES: Final = 20
"""How many batches a steady run has at least."""
BATCH_ROWS: Final = 1_000_000
SPAN_S: Final = 200
RATE: Final = 100_000
"""Rows to a second of event time, at most."""
WARM_UP_ROWS: Final = 100_000
WARM_UP_FILES: Final = 4
FEW_ROWS: Final = 100_000
LINK_NAMES: Final = 1_000
PORTS: Final = 977
SITES: Final = 1_000
SPARSE: Final = 4
"""So many times the groups has the sparse key."""
ZIPF: Final = 1.1
"""The k-th most frequent string occurs 1 / k ** ZIPF times as often as the first."""
COPIES: Final = 10
"""One row of so many is a copy of one before it."""
HOSTS: Final = "hosts"

SCHEMA: Final = pa.schema(
    [
        pa.field("ts", pa.timestamp("us", tz="UTC")),
        pa.field("number", pa.int64()),
        pa.field("srcIP", pa.int64()),
        pa.field("destIP", pa.int64()),
        pa.field("id", pa.int64()),
        pa.field("link", pa.string()),
        pa.field("host", pa.string()),
        pa.field("popular", pa.string()),
        pa.field("port", pa.int32()),
        pa.field("len", pa.int32()),
    ]
)
TEXT_SCHEMA: Final = pa.schema([SCHEMA.field(name) for name in ("ts", "link", "len")])
DUPLICATES_SCHEMA: Final = pa.schema([SCHEMA.field(name) for name in ("ts", "number", "len")])


def schema_of(cell: Cell) -> pa.Schema:
    """What the rows of a cell have."""
    return {"text": TEXT_SCHEMA, "duplicates": DUPLICATES_SCHEMA}.get(cell.data, SCHEMA)


@dataclass(frozen=True)
class Events:
    """Rows with a column for every kind of key."""

    rows: int
    groups: int
    file_rows: int
    rate: int = RATE
    """Rows in every `seconds` of event time."""
    seconds: int = 1
    seed: int = 14

    @property
    def files(self) -> int:
        return math.ceil(self.rows / self.file_rows)

    def packets(self, index: int) -> pa.Table:
        """The events of one file, in arrival order."""
        number, random = self._stretch(index)
        count = len(number)
        ts = self._arrival(number) - random.integers(0, DELAY_US + 1, count)
        pair = random.integers(0, self.groups, count)
        source, destination = np.divmod(pair, math.isqrt(self.groups - 1) + 1)
        hosts = host_names(self.groups)
        columns = {
            "ts": pa.array(ts),
            "number": pa.array(number),
            "srcIP": pa.array(address(source)),
            "destIP": pa.array(address(destination)),
            "id": pa.array(mixed(random.integers(0, SPARSE * self.groups, count, dtype=np.uint64)).view(np.int64)),
            "link": link_names().take(pa.array(random.integers(0, LINK_NAMES, count))),
            "host": hosts.take(pa.array(pair)),
            "popular": hosts.take(pa.array(_zipf(random, self.groups, count))),
            "port": pa.array(random.integers(0, PORTS, count, dtype=np.int32)),
            "len": pa.array(_lengths(ts)),
        }
        return pa.Table.from_arrays([columns[field.name].cast(field.type) for field in SCHEMA], schema=SCHEMA)

    def _stretch(self, index: int) -> tuple[np.ndarray, np.random.Generator]:
        first = index * self.file_rows
        count = min(self.file_rows, self.rows - first)
        return np.arange(first, first + count, dtype=np.int64), np.random.default_rng([self.seed, index])

    def _arrival(self, number: np.ndarray) -> np.ndarray:
        return EPOCH_US + number * (1_000_000 * self.seconds) // self.rate


@dataclass(frozen=True)
class Duplicates(Events):
    """Events of which some come twice, the second time less than a second after the first."""

    def packets(self, index: int) -> pa.Table:
        number, random = self._stretch(index)
        # Half of the delay is for the tuple, half for its copy: neither is later than all tuples may be.
        ts = self._arrival(number) - random.integers(0, DELAY_US // 2 + 1, len(number))
        at = np.arange(len(number))
        within = max(1, self.rate * DELAY_US // 2_000_000 // self.seconds // COPIES)
        before = at - 1 - COPIES * random.integers(0, within, len(number))
        taken = np.where((at % COPIES == COPIES - 1) & (before >= 0), before, at)
        columns = (ts[taken], number[taken], _lengths(ts[taken]))
        arrays = [pa.array(each).cast(field.type) for each, field in zip(columns, DUPLICATES_SCHEMA, strict=True)]
        return pa.Table.from_arrays(arrays, schema=DUPLICATES_SCHEMA)


@cache
def link_names() -> pa.Array:
    return pa.array([f"link-{number:04d}" for number in range(LINK_NAMES)])


@cache
def host_names(groups: int) -> pa.Array:
    return pa.array([f"host-{number:06d}.example" for number in range(groups)])


@cache
def _often(groups: int) -> np.ndarray:
    """How often one of the first k strings occurs, for every k."""
    return np.cumsum(np.arange(1, groups + 1, dtype=np.float64) ** -ZIPF)


def _zipf(random: np.random.Generator, groups: int, count: int) -> np.ndarray:
    often = _often(groups)
    chosen: np.ndarray = np.searchsorted(often, random.random(count) * often[-1])
    return chosen.clip(max=groups - 1)


def _lengths(ts: np.ndarray) -> np.ndarray:
    return (40 + mixed(ts.astype(np.uint64)) % np.uint64(1461)).astype(np.int32)


def spread(rows: int, groups: int, kind: type[Events] = Events, *, files: int = BATCHES, seed: int = 14) -> Events:
    """Rows over 200 seconds, or as many more as there are rows for, in as many files or more."""
    file_rows = min(BATCH_ROWS, -(-rows // files))
    if rows >= RATE * SPAN_S:
        return kind(rows, groups, file_rows, seed=seed)
    return kind(rows, groups, file_rows, rate=rows, seconds=SPAN_S, seed=seed)


def rows_of(cell: Cell, rows: int) -> int:
    """How many rows a cell reads when the benchmark has so many."""
    return FEW_ROWS if cell.fresh else max(rows // cell.share, 1)


def prepare(cells: Iterable[Cell], rows: int, groups: int, data: Path, written: Callable[[int], None]) -> None:
    """Write the data of some cells: of each kind what is timed, and a little to warm up."""
    wanted = {cell.data: cell for cell in cells}
    for name, cell in wanted.items():
        for part, count, files, seed in (
            ("timed", rows_of(cell, rows), BATCHES, 14),
            ("warm-up", WARM_UP_ROWS, WARM_UP_FILES, 5),
        ):
            heard = written if part == "timed" else _nobody
            _prepare(name, data / name / part, count, groups, files, seed, heard)
        if name == "events":
            write_hosts(groups, data / name / HOSTS)


def _prepare(
    name: str, folder: Path, rows: int, groups: int, files: int, seed: int, written: Callable[[int], None]
) -> None:
    if name == "links":
        for number, link in enumerate(LINKS):
            each = spread(max(rows // len(LINKS), 1), groups, files=files, seed=seed + number)
            write(each, folder / link, written)
    elif name == "conversations":
        rate = max(1, min(5_000, rows // 2 // SPAN_S))
        write_links(folder, rows, max(1, 80 * rate), written, rate=rate, files_a_link=files)
    elif name == "text":
        parquet = folder / "parquet"
        write(spread(rows, groups, files=files, seed=seed), parquet, written)
        for suffix in ("csv", "json"):
            write_text(parquet, folder / suffix, suffix)
    elif name == "duplicates":
        write(spread(rows, groups, Duplicates, files=files, seed=seed), folder, written)
    else:
        write(spread(rows, groups, files=files, seed=seed), folder, written)


def write_text(parquet: Path, folder: Path, suffix: str) -> None:
    """The time, the link and the length of events, as CSV with a header or as JSON lines, file by file."""
    manifest, made = folder / "_text.json", (parquet / "_traffic.json").read_text()
    if manifest.exists() and manifest.read_text() == made:
        return
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    options = "FORMAT csv, HEADER" if suffix == "csv" else "FORMAT json"
    with connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET preserve_insertion_order = true")
        for index, file in enumerate(sorted(parquet.glob("*.parquet"))):
            target = folder / f"{file.stem}.{suffix}"
            connection.execute(
                f"COPY (SELECT strftime(ts, '%Y-%m-%dT%H:%M:%S.%fZ') AS ts, link, len FROM read_parquet({text(file)}))"
                f" TO {text(target)} ({options})"
            )
            # Spark takes files by age.
            os.utime(target, (EPOCH_US // 1_000_000 + index,) * 2)
    manifest.write_text(made)


def write_hosts(groups: int, folder: Path) -> None:
    """The table in which hosts are looked up: each has a site."""
    folder.mkdir(parents=True, exist_ok=True)
    sites = pa.array([f"site-{number % SITES:03d}" for number in range(groups)])
    pq.write_table(pa.table({"host": host_names(groups), "site": sites}), folder / "hosts.parquet")


def batch_rows(folder: Path) -> int:
    """How many rows a batch has in a steady run over a folder of data: as many as one file of every input."""
    manifests = sorted(folder.rglob("_traffic.json"))
    return sum(int(json.loads(manifest.read_text())["file_rows"]) for manifest in manifests)


def _nobody(rows: int) -> None:
    """Nobody hears of what is written to warm up."""
