"""Which small files of a connection point are merged, and how rows lie in its files.

A run with ten batches a second adds a million files a day. Files of neighbouring batches become one, `FAN` at least at
a time, and only with others of about their size: so each row is copied a few times in all. In every file rows lie by
the storage key and then by time, in small row groups, so that who filters on the key reads few of them. A file of many
rows is sorted in pieces, which are in order of arrival: so that who reads all of it reads a piece at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from penstock.connectors.points.stored_files import ARRIVAL_COLUMN, BATCH_COLUMN, StoredFile, by_batches

FAN: Final = 8
"""So many files become one, at least."""
MERGED_BYTES: Final = 32 << 20
"""Files of this size stay as they are, and are as large as merged ones get, about: they are merged in memory."""
GROUP_ROWS: Final = 1 << 14
"""Rows of a row group: what a reader that looks for one key reads at least."""
GROUP_ROWS_BY_TIME: Final = 1 << 17
"""Rows of a row group where there is no key to look for: most readers read all, or all since some time."""
PIECE_ROWS: Final = 64 * GROUP_ROWS
"""Rows of a piece: who looks for one key reads a row group of each, and who reads all sorts so many at once."""
_SMALLEST: Final = 64 << 10
"""Files up to this size count as of one size."""


def runs_to_merge(files: Sequence[StoredFile]) -> list[list[StoredFile]]:
    """Runs of files with neighbouring batches that are worth merging, all of about one size, the smallest first; what
    they become may be worth merging again."""
    for size in _sizes():
        found = [run for run in _runs(files, size) if len(run) >= FAN]
        if found:
            return found
    return []


def _sizes() -> list[int]:
    """Files below each of these are of one size, the smallest first."""
    found = [_SMALLEST]
    while found[-1] < MERGED_BYTES:
        found.append(found[-1] * FAN)
    return [*found[:-1], MERGED_BYTES]


def _runs(files: Sequence[StoredFile], size: int) -> list[list[StoredFile]]:
    """Neighbours that are smaller than a size, as many together as a merged file may hold; never a part of a batch."""
    found: list[list[StoredFile]] = [[]]
    total = 0
    for group in by_batches(files, lambda file: (file.first, file.last)):
        more = sum(file.size for file in group)
        if more >= size or total + more > MERGED_BYTES:
            found.append([])
            total = 0
        if more < size:
            found[-1] += group
            total += more
    return found


def clustered(rows: pa.Table, key: Sequence[str], time: str | None) -> pa.Table:
    """Rows in the order in which a file holds them: piece by piece by key and time, or in order of arrival without a
    key."""
    arrived = rows.sort_by([(name, "ascending") for name in _ARRIVAL])
    if not key:
        return arrived
    order = dict.fromkeys((*key, *((time,) if time is not None else ()), *_ARRIVAL))
    pieces = (arrived.slice(first, PIECE_ROWS) for first in range(0, max(1, rows.num_rows), PIECE_ROWS))
    return pa.concat_tables(piece.sort_by([(name, "ascending") for name in order]) for piece in pieces)


_ARRIVAL: Final = (BATCH_COLUMN, ARRIVAL_COLUMN)
