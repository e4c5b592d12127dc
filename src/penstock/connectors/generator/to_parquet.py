"""Generated packets as Parquet files, for benchmarks that should measure the engine and not the generator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from penstock.connectors.connector import Limit
from penstock.connectors.generator.packets import Generator
from penstock.connectors.journal import MemoryJournal
from penstock.errors import QueryError

_EVERYTHING = Limit(rows=2**62, bytes=2**62)


def write_packets(
    generator: Generator,
    folder: str | Path,
    *,
    files: int = 1,
    row_group_rows: int = 1 << 19,
    compression: str = "snappy",
    progress: Callable[[int, int], Any] | None = None,
) -> list[Path]:
    """Write a bounded generator's tuples to `files` Parquet files per link, in arrival order.

    A generator with several links gets a folder per link, ready for `files(folder, lanes="folder")`. `progress` is
    called with the rows written so far and the rows in all.
    """
    if not generator.bounded:
        raise QueryError("an endless generator cannot be written to files", hint="give it rows= or seconds=")
    if files < 1 or row_group_rows < 1:
        raise QueryError(
            "there must be at least one file and one row to a row group", found=f"{files=}, {row_group_rows=}"
        )
    schema = generator.schema()
    feed = generator.open(schema, MemoryJournal())
    start = feed.start()
    last = feed.advance(start, _EVERYTHING).position
    total, written, paths = sum(last["at"].values()), 0, []
    for link in generator.links:
        place = Path(folder, link.name) if generator.named else Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        rows = last["at"][link.name]
        for number in range(files):
            low, high = rows * number // files, rows * (number + 1) // files
            paths.append(place / f"part-{number:05d}.parquet")
            with pq.ParquetWriter(paths[-1], schema, compression=compression) as writer:
                for at in range(low, high, row_group_rows):
                    stop = min(high, at + row_group_rows)
                    writer.write_table(generator.table(link.name, at, stop, last["clock0"]), row_group_rows)
                    written += stop - at
                    if progress is not None:
                        progress(written, total)
    return paths
