"""The packets that `q4` and `q9` count: a fixed rate of event time, each packet late by a bounded random delay.

Packet i, in arrival order, carries the time `EPOCH + i * seconds / rate - delay`, with a delay drawn evenly from 0 to 2
seconds. So no packet is more than 2 seconds behind the largest time that arrived before it: a promise every engine may
use. Every file has its own seed, so the same numbers come out whether one process writes the files or several.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

EPOCH_US: Final = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z: the start of a minute
DELAY_US: Final = 2_000_000
ROW_GROUP_ROWS: Final = 250_000
WRITERS: Final = 2

SCHEMA: Final = pa.schema(
    [
        pa.field("ts", pa.timestamp("us", tz="UTC")),
        pa.field("srcIP", pa.int64()),
        pa.field("srcPort", pa.int32()),
        pa.field("destIP", pa.int64()),
        pa.field("destPort", pa.int32()),
        pa.field("len", pa.int32()),
    ]
)

# Knuth's multiplier: spreads small numbers over 32 bits one to one, so that keys look like addresses.
_SPREAD: Final = 2_654_435_761
SERVICES: Final = np.array([22, 25, 53, 80, 123, 443, 993, 8080], dtype=np.int32)


class Recipe(Protocol):
    """What to write, as a frozen dataclass: equal declarations give equal files."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def rows(self) -> int: ...

    @property
    def files(self) -> int: ...

    def packets(self, index: int) -> pa.Table:
        """The packets of one file, in arrival order."""


@dataclass(frozen=True)
class Traffic:
    """Packets between random pairs of addresses."""

    rows: int
    groups: int
    rate: int = 100_000
    """Packets in every `seconds` of event time."""
    seconds: int = 1
    file_rows: int = 1_000_000
    seed: int = 4

    @property
    def files(self) -> int:
        return math.ceil(self.rows / self.file_rows)

    def packets(self, index: int) -> pa.Table:
        """The packets of one file, in arrival order."""
        first = index * self.file_rows
        count = min(self.file_rows, self.rows - first)
        random = np.random.default_rng([self.seed, index])
        arrival = EPOCH_US + np.arange(first, first + count, dtype=np.int64) * (1_000_000 * self.seconds) // self.rate
        pair = random.integers(0, self.groups, count)
        # Pairs lie in a square, so that neither address alone tells the group.
        source, destination = np.divmod(pair, math.isqrt(self.groups - 1) + 1)
        columns = [
            arrival - random.integers(0, DELAY_US + 1, count),
            address(source),
            random.integers(1024, 65536, count, dtype=np.int32),
            address(destination),
            SERVICES[random.integers(0, len(SERVICES), count)],
            random.integers(40, 1501, count, dtype=np.int32),
        ]
        arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        return pa.Table.from_arrays(arrays, schema=SCHEMA)


def address(number: np.ndarray) -> np.ndarray:
    """A 32-bit address for a small number, different for different numbers."""
    return (number.astype(np.int64) * _SPREAD + 0x0A000001) & 0xFFFFFFFF


def write(traffic: Recipe, folder: Path, written: Callable[[int], None] = lambda rows: None) -> None:
    """Fill a folder with the files of `traffic`; `written` hears the rows of each file as it is done.

    A folder that already holds exactly these files is kept as it is: its manifest is written last.
    """
    manifest = folder / "_traffic.json"  # files that start with an underscore are invisible to Spark
    if manifest.exists() and json.loads(manifest.read_text()) == asdict(traffic):
        written(traffic.rows)
        return
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    if traffic.files == 1:
        written(_write_file(traffic, folder, 0))
    else:
        # Spawned, not forked: the caller has threads (the progress bar) that a fork would copy half-way.
        with ProcessPoolExecutor(
            WRITERS, mp_context=get_context("spawn"), initializer=_leave_stopping_to_parent
        ) as pool:
            try:
                count = traffic.files
                for rows in pool.map(_write_file, [traffic] * count, [folder] * count, range(count)):
                    written(rows)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    manifest.write_text(json.dumps(asdict(traffic)))


def _leave_stopping_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _write_file(traffic: Recipe, folder: Path, index: int) -> int:
    packets = traffic.packets(index)
    file = folder / f"part-{index:05d}.parquet"  # names sort in arrival order
    pq.write_table(packets, file, row_group_size=ROW_GROUP_ROWS, compression="snappy")
    # Spark takes files by age, and two writers may finish out of order: then packets would truly be late.
    os.utime(file, (EPOCH_US // 1_000_000 + index,) * 2)
    return int(packets.num_rows)
