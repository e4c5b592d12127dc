"""Parquet files: cut by row groups, only the needed columns decoded.

A train may end inside a row group. The next one goes on with the reader that stands there, if this process has it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.connector import Chunk, fixed_width
from penstock.connectors.files.cursors import BatchCursor, keep, part_key, resume
from penstock.connectors.files.formats.columnar import chunk_of, counted_reach, grouped
from penstock.connectors.files.formats.format import (
    BrokenFileError,
    Cut,
    Format,
    Part,
    Reach,
    Tuning,
    first_line,
    open_part,
    opened,
)
from penstock.connectors.fitting import missing_or_uncastable, to_read
from penstock.connectors.rejects import rejected_whole

_BATCH_ROWS: Final = 1 << 19
"""Rows decoded at a time: with whole row groups of this size decoding is fastest, and memory stays bounded."""
_SLICED_ROWS: Final = 1 << 17
"""The same for row groups that are read in several trains: fewer rows are decoded for the next train to find."""
_SAMPLE_ROWS: Final = 1 << 10
_SAMPLE_BUFFER: Final = 1 << 16
_CODE_BYTES: Final = 8
"""What a value takes up in a file at most, if it is to come as a code: more where its dictionary is large, or where
the writer has given it up."""
_DICTIONARIES: Final = {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}


@dataclass(frozen=True)
class Parquet(Format):
    """The Parquet format."""

    coded: frozenset[str] = frozenset()
    """Columns of texts that come as codes of a dictionary, where the file has them so."""

    def cuts(self, part: Part, tuning: Tuning, schema: pa.Schema) -> list[Cut]:
        with opened(part) as file:
            parquet = _footer(file)
            footer = parquet.metadata
            rows = [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
            reason = missing_or_uncastable(parquet.schema_arrow, schema)
            if reason is not None and sum(rows):
                raise BrokenFileError(reason, sum(rows))
        return grouped(rows, part.size, tuning)

    def discover(self, part: Part) -> pa.Schema:
        with opened(part) as file:
            return _footer(file).schema_arrow

    def reach(self, part: Part, rows: int, schema: pa.Schema) -> Reach:
        with opened(part) as file:
            return counted_reach(part, rows, sum(_rows(_footer(file), part)))

    def texts(self, part: Part, schema: pa.Schema, asked: Collection[str] | None = None) -> Mapping[str, float]:
        wanted = [one.name for one in schema if fixed_width(one.type) is None and (asked is None or one.name in asked)]
        if not wanted:
            return {}
        with opened(part) as file:
            parquet = _footer(file)
            found = [name for name in wanted if name in parquet.schema_arrow.names]
            # Not read ahead: a look at the first values needs no whole column.
            lazy = pq.ParquetFile(file, metadata=parquet.metadata, pre_buffer=False, buffer_size=_SAMPLE_BUFFER)
            return _text_bytes(lazy, found)

    def _coded(self, parquet: pq.ParquetFile, part: Part, schema: pa.Schema, needed: Sequence[str]) -> list[str]:
        """The needed columns that come as codes."""
        found = [name for name in needed if name in self.coded]
        shown, footer = parquet.schema_arrow, parquet.metadata
        if not found or any(not shown.field(name).type.equals(schema.field(name).type) for name in needed):
            return []
        places = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
        groups = [footer.row_group(at) for at in range(part.at, min(part.end, footer.num_row_groups))]
        return [name for name in found if all(_few_bytes(group, places[name]) for group in groups)]

    def footer(self, part: Part) -> pq.FileMetaData:
        """What a file says of its row groups; for who reads only some of them."""
        with opened(part) as file:
            return _footer(file).metadata

    def read(
        self,
        part: Part,
        schema: pa.Schema,
        columns: Sequence[str],
        only: Collection[int] | None = None,
        footer: pq.FileMetaData | None = None,
    ) -> Iterator[Chunk]:
        """As of any format; `only` are the row groups of the file to be read, and `footer` is known already."""
        with opened(part) as file:
            parquet = _footer(file, footer)
            sizes = _rows(parquet, part)
            reason = missing_or_uncastable(parquet.schema_arrow, schema)
            if reason is not None:
                raise BrokenFileError(reason, sum(sizes))
            first = sum(parquet.metadata.row_group(at).num_rows for at in range(part.at))
            needed = to_read(parquet.schema_arrow, schema, columns) or [schema.names[0]]
            if (coded := self._coded(parquet, part, schema, needed)) and only is None:
                parquet = _footer(file, parquet.metadata, coded)
            place = 0
            for group, size in enumerate(sizes, part.at):
                low, high = part.first - place, size if part.last is None else min(size, part.last - place)
                if only is not None and group not in only:
                    pass
                elif low <= 0 and high == size:
                    yield from _whole_group(parquet, part, group, first, size, needed, schema, columns)
                elif low < size and high > 0:
                    yield from _slice(part, group, first, (max(0, low), high), needed, schema, columns)
                first, place = first + size, place + size


def _few_bytes(group: pq.RowGroupMetaData, at: int) -> bool:
    """Whether a column of a row group is in a dictionary, and that is small: codes are then all that is decoded."""
    column = group.column(at)
    few = column.total_uncompressed_size <= _CODE_BYTES * max(1, column.num_values)
    return bool(few and _DICTIONARIES & set(column.encodings))


def _whole_group(
    parquet: pq.ParquetFile,
    part: Part,
    group: int,
    first: int,
    size: int,
    needed: Sequence[str],
    schema: pa.Schema,
    columns: Sequence[str],
) -> Iterator[Chunk]:
    """One group at a time, so that a damaged one takes no other with it."""
    done = 0
    try:
        for batch in parquet.iter_batches(_BATCH_ROWS, [group], columns=needed, use_threads=False):
            yield chunk_of(batch, part.path, first + done, schema, columns)
            done += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        yield rejected_whole(part.path, _undecodable(group, error), size - done, schema, columns)


def _slice(
    part: Part,
    group: int,
    first: int,
    rows: tuple[int, int],
    needed: Sequence[str],
    schema: pa.Schema,
    columns: Sequence[str],
) -> Iterator[Chunk]:
    """Some rows of a group; `first` rows of the file are before the group."""
    low, high = rows
    key = part_key(part, group, tuple(needed))

    def begin() -> BatchCursor:
        file = open_part(part)
        batches = _footer(file).iter_batches(_SLICED_ROWS, [group], columns=list(needed), use_threads=False)
        return BatchCursor(batches).holding(file)

    cursor, done = resume(key, low, begin), low
    for at, batch in cursor.take(low, high):
        yield chunk_of(batch, part.path, first + at, schema, columns)
        done = at + batch.num_rows
    if done < high and cursor.failed is not None:
        yield rejected_whole(part.path, _undecodable(group, cursor.failed), high - done, schema, columns)
    keep(key, cursor)


def _undecodable(group: int, error: BaseException) -> str:
    return f"row group {group} cannot be decoded: {first_line(error)}"


def _rows(parquet: pq.ParquetFile, part: Part) -> list[int]:
    groups = range(part.at, min(part.end, parquet.num_row_groups))
    return [parquet.metadata.row_group(at).num_rows for at in groups]


def _text_bytes(parquet: pq.ParquetFile, names: Sequence[str]) -> dict[str, float]:
    """What a value of each column takes up, decoded: as the footer says; where values are in a dictionary, by a look
    at the first ones, for the footer knows only how little they take up in the file."""
    footer = parquet.metadata
    if not names or not footer.num_rows:
        return {}
    sizes, looked_up = dict.fromkeys(names, 0), set[str]()
    for group in range(footer.num_row_groups):
        for at in range(footer.num_columns):
            chunk = footer.row_group(group).column(at)
            name = chunk.path_in_schema.partition(".")[0]
            if name in sizes:
                sizes[name] += chunk.total_uncompressed_size
                looked_up |= {name} if _DICTIONARIES & set(chunk.encodings) else set()
    found = {name: size / footer.num_rows for name, size in sizes.items()}
    if looked_up:
        try:
            first = next(parquet.iter_batches(_SAMPLE_ROWS, [0], columns=sorted(looked_up), use_threads=False), None)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            return found
        if first is not None and first.num_rows:
            for name in looked_up:
                found[name] = max(found[name], first.column(name).nbytes / first.num_rows)
    return found


def _footer(file: Any, known: pq.FileMetaData | None = None, coded: Sequence[str] = ()) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file, metadata=known, pre_buffer=True, read_dictionary=list(coded) or None)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise BrokenFileError(f"is no Parquet file: {first_line(error)}") from error
