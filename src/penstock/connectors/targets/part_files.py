"""Folders of part files: Parquet, CSV and JSON lines.

A part is staged as `_staging/part-<batch>-<part>-<token>.<ext>.staged` and renamed on commit to
`part-<batch>-<part>-<token>.<ext>`, so files in order of names are in order of batches. The underscore in front and the
suffix hide what is staged from Spark, DuckDB, Arrow and our own file inputs. Each file appears whole, but the files of
one batch appear one after the other: who needs a batch to appear at once takes a Delta table.

The token is drawn once for each checkpoint, so runs never overwrite each other's files, and a restart finds its own.
`_committed-<token>-<batch>` says in the folder itself how far a run has come: files may be taken away, but if that is
gone, the folder is not the one that the run has written to.
With `mode="new"`, the first start of a checkpoint refuses a folder that already holds parts; with `mode="append"` it
adds to them.
"""

from __future__ import annotations

import atexit
import functools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from penstock.connectors.growing_parquet import GrowingParquet
from penstock.connectors.parquet_encodings import encodings
from penstock.connectors.targets.target import (
    SILENT,
    Markers,
    Mode,
    OpenPart,
    OutputProgress,
    Receipt,
    StagedFile,
    Target,
    check_fit,
    check_mode,
    check_writable,
    enrol,
    is_enrolled,
    writer,
)
from penstock.errors import PenstockError, QueryError
from penstock.storage.folder import Folder

if TYPE_CHECKING:
    import duckdb

_STAGING: Final = "_staging"
_STAGED: Final = ".staged"
_SUFFIXES: Final = {None: "", "gzip": ".gz", "zstd": ".zst"}
_LINES: Final = 128 * 1024
"""Lines encoded at a time: large enough to be vectorised, small enough for 2 GB of text in one Arrow array."""


class PartFormat(Protocol):
    """How a part becomes the bytes of a file."""

    @property
    @abstractmethod
    def suffix(self) -> str:
        """How names of part files end."""

    @abstractmethod
    def check(self, schema: pa.Schema) -> None:
        """Refuse types that the format cannot hold."""

    @abstractmethod
    def existing(self, content: pa.Buffer) -> pa.Schema | None:
        """The schema of a file that is already there, if the format tells."""

    @abstractmethod
    def encode(self, table: pa.Table) -> Sequence[pa.Buffer]:
        """The content of the file."""

    def growing(self) -> GrowingParquet | None:
        """A file that takes its rows piece by piece, if the format has such files."""
        return None

    @abstractmethod
    def describe(self) -> str:
        """The format's name."""


@dataclass(frozen=True)
class PartFolder(Target):
    """A folder of part files as the target of an output."""

    folder: Folder
    parts: PartFormat
    mode: Mode = "new"

    def check(self, name: str, schema: pa.Schema, scratch: Folder) -> None:
        try:
            self.parts.check(schema)
            check_writable(self.folder.as_lasting_as(scratch).child(_STAGING))
            held = [file for file in self.folder.names() if self._is_part(file)]
            if held and not is_enrolled(scratch) and self.mode == "new":
                raise QueryError(
                    f"{self.folder.path} already holds {len(held)} part files, from {held[0]} to {held[-1]}",
                    expected="an empty folder, for a run that starts afresh",
                    hint="name another folder, delete the files, or say mode='append' to add to them",
                )
            if held and (existing := self.parts.existing(self.folder.read(held[-1]))) is not None:
                check_fit(name, self.folder.path, schema, existing)
        except PenstockError as error:
            raise error.located(box=name) from error.__cause__
        enrol(name, schema, scratch, self.describe())

    def stage(self, batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
        if table.num_rows == 0:
            return None
        return self.put(batch, part, table.num_rows, self.parts.encode(table), scratch)

    def opened(self, batch: int, part: int, scratch: Folder) -> OpenPart | None:
        growing = self.parts.growing()
        return None if growing is None else _OpenFile(self, batch, part, scratch, growing)

    def put(self, batch: int, part: int, rows: int, content: Sequence[pa.Buffer], scratch: Folder) -> Receipt:
        """Put the file of a part where readers do not see it yet."""
        name = f"part-{batch:08d}-{part:04d}-{writer(scratch).token}{self.parts.suffix}"
        self.folder.as_lasting_as(scratch).child(_STAGING).write(name + _STAGED, *content)
        return Receipt(batch, part, (StagedFile(name, rows, sum(piece.size for piece in content)),))

    def commit(
        self, batch: int, receipts: Sequence[Receipt], scratch: Folder, progress: OutputProgress = SILENT
    ) -> None:
        if not receipts:
            return
        folder, markers = self.folder.as_lasting_as(scratch), self._markers(scratch)
        staging = folder.child(_STAGING)
        if batch > markers.last():
            for name in (file.name for receipt in receipts for file in receipt.files):
                staging.move(name + _STAGED, folder, name)
            markers.put(batch)
        else:
            markers.secure()
        # What is left of this run, up to this batch, was staged by a replay: a copy of what is visible already.
        mine = f"-{writer(scratch).token}{self.parts.suffix}{_STAGED}"
        for name in staging.names():
            if name.endswith(mine) and int(name.split("-")[1]) <= batch:
                staging.delete(name)

    @property
    def outside(self) -> bool:
        return True

    def last_committed(self, scratch: Folder) -> int:
        return self._markers(scratch).last()

    def _markers(self, scratch: Folder) -> Markers:
        return Markers(self.folder.as_lasting_as(scratch), f"_committed-{writer(scratch).token}-")

    def describe(self) -> str:
        return f"{self.parts.describe()} files in {self.folder.path}"

    def _is_part(self, name: str) -> bool:
        return name.startswith("part-") and name.endswith(self.parts.suffix)


@dataclass
class _OpenFile(OpenPart):
    """A part file that takes its tuples piece by piece."""

    folder: PartFolder
    batch: int
    part: int
    scratch: Folder
    file: GrowingParquet

    def add(self, tuples: pa.Table) -> None:
        self.file.add(tuples)

    def done(self) -> Receipt | None:
        content = self.file.done()
        return self.folder.put(self.batch, self.part, self.file.rows, (content,), self.scratch)


@dataclass(frozen=True)
class ParquetParts(PartFormat):
    compression: str | None = "zstd"

    @property
    def suffix(self) -> str:
        return ".parquet"

    def check(self, schema: pa.Schema) -> None:
        try:
            self.encode(schema.empty_table())
        except (pa.ArrowException, OSError, ValueError) as failure:
            raise QueryError("the tuples cannot be written as Parquet", found=str(failure)) from failure

    def existing(self, content: pa.Buffer) -> pa.Schema | None:
        return pq.read_schema(pa.BufferReader(content))

    def encode(self, table: pa.Table) -> Sequence[pa.Buffer]:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, **encodings(table, self.compression))
        return (sink.getvalue(),)

    def growing(self) -> GrowingParquet | None:
        return GrowingParquet(self.compression)

    def describe(self) -> str:
        return "Parquet"


@dataclass(frozen=True)
class CsvParts(PartFormat):
    """NULL is an empty field and an empty string is `""`; times with a zone are written in UTC."""

    compression: str | None = None
    header: bool = True

    @property
    def suffix(self) -> str:
        return ".csv" + _SUFFIXES[self.compression]

    def check(self, schema: pa.Schema) -> None:
        refuse_columns(schema, "CSV", lambda kind: pa.types.is_nested(kind) or _is_bytes(kind))

    def existing(self, content: pa.Buffer) -> pa.Schema | None:
        return None  # its types are a guess, and a header may be absent

    def encode(self, table: pa.Table) -> Sequence[pa.Buffer]:
        columns = [_in_utc(column) if pa.types.is_timestamp(column.type) else column for column in table.columns]
        sink = pa.BufferOutputStream()
        options = pacsv.WriteOptions(include_header=self.header)
        pacsv.write_csv(pa.table(columns, names=table.column_names), sink, options)
        return compressed((sink.getvalue(),), self.compression)

    def describe(self) -> str:
        return "CSV"


@dataclass(frozen=True)
class JsonParts(PartFormat):
    """One JSON object a line. Times are ISO 8601 (in UTC, with a Z, if they have a zone). NaN and the infinities, which
    JSON does not have, become null."""

    compression: str | None = None

    @property
    def suffix(self) -> str:
        return ".jsonl" + _SUFFIXES[self.compression]

    def check(self, schema: pa.Schema) -> None:
        refuse_columns(schema, "JSON", _is_bytes)

    def existing(self, content: pa.Buffer) -> pa.Schema | None:
        return None  # JSON lines have no schema

    def encode(self, table: pa.Table) -> Sequence[pa.Buffer]:
        # Positional names: DuckDB takes "a" and "A" for the same column.
        plain = pa.table([_as_json(column) for column in table.columns], names=_positions(table))
        pairs = ", ".join(
            f"{_quoted(name)}, {at}" for name, at in zip(table.column_names, plain.column_names, strict=True)
        )
        lines = _database().cursor().from_arrow(plain).project(f"json_object({pairs})::VARCHAR || chr(10) AS line")
        return compressed([_text(batch.column(0)) for batch in lines.to_arrow_reader(_LINES)], self.compression)

    def describe(self) -> str:
        return "JSON lines"


def compressed(pieces: Sequence[pa.Buffer], compression: str | None) -> Sequence[pa.Buffer]:
    """The pieces, as one compressed stream if they are to be."""
    if compression is None:
        return pieces
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, compression) as stream:
        for piece in pieces:
            stream.write(piece)
    return (sink.getvalue(),)


def refuse_columns(schema: pa.Schema, name: str, refused: Any) -> None:
    """Refuse columns whose types a text format has no form for."""
    found = [f"'{column.name}' is {column.type}" for column in schema if refused(column.type)]
    if found:
        raise QueryError(
            f"{name} cannot hold these columns",
            found=", ".join(found),
            hint="turn them into text in a map box (for bytes: hex(column)), or write Parquet",
        )


def _is_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_bytes(kind.value_type)
    if pa.types.is_nested(kind):
        return any(_is_bytes(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _in_utc(column: Any) -> Any:
    return column.cast(pa.timestamp(column.type.unit, "UTC")) if column.type.tz else column


def _as_json(column: Any) -> Any:
    """The column in types whose JSON form is the one we promise."""
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_as_json(chunk) for chunk in column.chunks]) if column.num_chunks else column
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _as_json(column.dictionary_decode())
    if pa.types.is_timestamp(kind):
        return pc.replace_substring(_in_utc(column).cast(pa.string()), " ", "T")
    if pa.types.is_date64(kind):
        return column.cast(pa.date32())
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        rebuilt = pa.ListArray if pa.types.is_list(kind) else pa.LargeListArray
        # flatten() drops what lies under NULL lists, so the lengths give the offsets, also of a sliced column.
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        ends = pc.cumulative_sum(lengths, start=0)
        offsets = pa.concat_arrays([pa.array([0], ends.type), ends])
        return rebuilt.from_arrays(offsets, _as_json(column.flatten()), mask=column.is_null())
    if pa.types.is_struct(kind):
        fields = [_as_json(child) for child in column.flatten()]
        return pa.StructArray.from_arrays(fields, names=[child.name for child in kind], mask=column.is_null())
    return column


def _text(lines: pa.Array) -> pa.Buffer:
    """The characters of a string array, which lie one after the other: with line ends inside, they are the file."""
    _, offsets, characters = lines.buffers()
    ends = memoryview(offsets).cast("i")
    start, stop = ends[lines.offset], ends[lines.offset + len(lines)]
    return characters.slice(start, stop - start)


def _positions(table: pa.Table) -> list[str]:
    return [f"c{at}" for at in range(table.num_columns)]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    import duckdb  # loaded only by processes that compute: those that plan start sooner without it

    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "enable_external_access": False,
        "lock_configuration": True,
    }
    # DuckDB complains on standard error of a connection that is still there when the interpreter ends.
    atexit.register(_database.cache_clear)
    return duckdb.connect(":memory:", config=config)


def _check_compression(compression: str | None, known: Sequence[str | None]) -> None:
    if compression not in known:
        raise QueryError(f"unknown compression {compression!r}", expected=", ".join(map(repr, known)))


def parquet(path: str, *, compression: str | None = "zstd", mode: Mode = "new") -> PartFolder:
    """A folder of Parquet files."""
    check_mode(mode)
    _check_compression(compression, ("zstd", "snappy", "gzip", "lz4", "brotli", None))
    return PartFolder(Folder(str(path)), ParquetParts(compression), mode)


def csv(path: str, *, compression: str | None = None, header: bool = True, mode: Mode = "new") -> PartFolder:
    """A folder of CSV files, each with a header unless told otherwise."""
    check_mode(mode)
    _check_compression(compression, tuple(_SUFFIXES))
    return PartFolder(Folder(str(path)), CsvParts(compression, header), mode)


def jsonl(path: str, *, compression: str | None = None, mode: Mode = "new") -> PartFolder:
    """A folder of files with one JSON object a line."""
    check_mode(mode)
    _check_compression(compression, tuple(_SUFFIXES))
    return PartFolder(Folder(str(path)), JsonParts(compression), mode)
