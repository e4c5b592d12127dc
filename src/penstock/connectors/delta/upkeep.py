"""Keeping a Delta table short: small files are merged, and files that nobody can ask for any more are deleted.

A run with ten batches a second adds a million files a day. Every so many transactions the driver rewrites the small
files of its own writer, partition by partition and in the order of their batches, as one file; the transaction says
that no data changes, so readers that follow the table see nothing new. The new file is on the disk before the log
names it. Files that were replaced stay for as long as the table promises (a week, unless it says otherwise).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from penstock.storage.folder import Folder

COMPACT_EVERY: Final = 256
"""Transactions between two merges of small files."""
SMALL: Final = 16 << 20
"""Larger files are left as they are."""

Write = Callable[[pa.Table], tuple[str, int, str]]
"""Puts rows into a file of the table's folder: its name, its size, and what the log says about it."""


def merge_small_files(table: deltalake.DeltaTable, folder: Folder, token: str, write: Write) -> int:
    """Merge the small files of a writer; how many there were. Nothing if others change the table meanwhile."""
    if table.protocol().reader_features:
        return 0  # a feature such as deletion vectors: what a file holds is then not all that counts
    actions: list[AddAction | RemoveAction] = []
    now = time.time_ns() // 1_000_000
    for partition, files in _small_files(table, token).items():
        if len(files) > 1:
            merged = pa.concat_tables([pq.read_table(pa.BufferReader(folder.read(name))) for name in sorted(files)])
            name, size, stats = write(merged)
            actions.append(AddAction(name, size, dict(partition), now, False, stats))
            actions += [RemoveAction(name, False, now, size, dict(partition)) for name, size in sorted(files.items())]
    if actions:
        with contextlib.suppress(DeltaError):
            # Delta does not notice two who remove the same file, so whoever comes first has it.
            alone = deltalake.CommitProperties(max_commit_retries=0)
            columns = list(table.metadata().partition_columns)
            table.create_write_transaction(actions, "append", table.schema(), columns, commit_properties=alone)
            table.vacuum(dry_run=False)
            table.update_incremental()
    return sum(isinstance(action, RemoveAction) for action in actions)


def sync_log(folder: Folder, first: int, last: int) -> None:
    """Bring the commits of some versions to the disk, where that is ours to do."""
    local = folder.local()
    if local is not None:
        for version in range(first, last + 1):
            Folder(f"{local}/_delta_log").sync(f"{version:020d}.json")


def cut_log(folder: Folder, table: deltalake.DeltaTable, newest: int, *, lasting: bool) -> None:
    """Let the log begin with a checkpoint of the table as it is; only its newest commits stay before that."""
    table.create_checkpoint()
    log, version = folder.child("_delta_log"), table.version()
    names = log.names()
    if lasting and folder.local() is not None:
        # All that the log knew is in these, once the others are gone.
        for name in names:
            if name.startswith(f"{version:020d}.checkpoint") or name == "_last_checkpoint":
                log.sync(name)
    for name in names:
        number = name.partition(".")[0]
        old = number.isdigit() and len(number) == _DIGITS
        if old and int(number) < (version if "checkpoint" in name else version - newest):
            log.delete(name)


_DIGITS: Final = 20
"""Of the version in the name of a commit."""
_Partition = tuple[tuple[str, str | None], ...]


def _small_files(table: deltalake.DeltaTable, token: str) -> Mapping[_Partition, dict[str, int]]:
    """The small files of a writer, with their sizes, by partition."""
    known = pa.table(table.get_add_actions(flatten=True))
    mine = pc.and_(pc.less(known["size_bytes"], SMALL), pc.match_substring(known["path"], f"-{token}-"))
    known = known.filter(mine)
    columns = list(table.metadata().partition_columns)
    texts: Sequence[Sequence[str | None]] = [_texts(known[f"partition.{column}"]) for column in columns]
    found: dict[_Partition, dict[str, int]] = {}
    for at, (name, size) in enumerate(zip(known["path"].to_pylist(), known["size_bytes"].to_pylist(), strict=True)):
        partition = tuple((column, values[at]) for column, values in zip(columns, texts, strict=True))
        found.setdefault(partition, {})[name] = size
    return found


def _texts(column: Any) -> list[str | None]:
    return list(partition_text(column).to_pylist())


def partition_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of a partition column as the log writes them."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))  # Delta writes instants in UTC, without a Z
    return column.cast(pa.string())
