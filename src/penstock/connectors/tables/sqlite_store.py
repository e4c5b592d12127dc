"""A table or query of an SQLite file as a static table, through Python's own sqlite3.

SQLite gives types to values, not to columns. A column has the type that it was declared with, as far as SQLite itself
honours it (integers, floats, text, blobs); one without, such as an expression, has that of its values.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.connectors.tables.file_store import SETTLED_NS
from penstock.connectors.tables.store import MisfitError, Stamp, Store, missing, require_fit, unreadable

if TYPE_CHECKING:
    import sqlite3

_VIEW: Final = "penstock_table"
_CHUNK_ROWS: Final = 1 << 16
_BUSY_SECONDS: Final = 10.0
"""How long a writer may keep the file locked."""
_AFFINITIES: Final = (
    ("INT", pa.int64()),
    ("CHAR", pa.string()),
    ("CLOB", pa.string()),
    ("TEXT", pa.string()),
    ("BLOB", pa.binary()),
    ("REAL", pa.float64()),
    ("FLOA", pa.float64()),
    ("DOUB", pa.float64()),
    ("BOOL", pa.bool_()),
    ("DEC", pa.float64()),
    ("NUM", pa.float64()),
)
"""What a declared type must contain to mean a type, in SQLite's own order; others, such as DATE, bind no values."""
_OF_VALUES: Final = (
    ({"text"}, pa.string()),
    ({"integer"}, pa.int64()),
    ({"integer", "real"}, pa.float64()),
    ({"blob"}, pa.binary()),
)
"""Types of values, and what a column of them is: the first that fits, so one without values is text."""


@dataclass(frozen=True)
class StoredSqlite(Store):
    """The rows of one SELECT over an SQLite file."""

    path: str
    select: str
    name: str

    @property
    def refresh(self) -> int | None:
        return None

    def describe(self) -> str:
        return f"{self.name} of {self.path} (SQLite)"

    def schema(self) -> pa.Schema:
        with self._opened() as database:
            return self._schema(database)

    def stamp(self) -> Stamp:
        parts, newest = [], 0
        # What is committed but not yet moved into the file is in the log beside it.
        for path in (self.path, f"{self.path}-wal"):
            try:
                info = os.stat(path)
            except FileNotFoundError:
                if path == self.path:
                    raise missing(self.describe(), f"no file {path}") from None
                continue
            parts.append(f"{info.st_ino} {info.st_size} {info.st_mtime_ns}")
            newest = max(newest, info.st_mtime_ns)
        return Stamp("\n".join(parts), settled=time.time_ns() - newest > SETTLED_NS)

    def read(self, schema: pa.Schema) -> pa.Table:
        with self._opened() as database:
            require_fit(self._schema(database), schema)
            names = ", ".join(kernel.quote(name) for name in schema.names)
            cursor = database.execute(f"SELECT {names} FROM temp.{_VIEW}")
            chunks = iter(lambda: cursor.fetchmany(_CHUNK_ROWS), [])
            return pa.Table.from_batches([_batch(rows, schema) for rows in chunks], schema)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A reader of the file's state as of now, which may see the SELECT as a view and change nothing."""
        import sqlite3  # loaded only where a table is in SQLite's format

        if not os.path.exists(self.path):
            raise missing(self.describe(), f"no file {self.path}")
        try:
            where = f"file:{quote(self.path)}?mode=ro"
            with closing(sqlite3.connect(where, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)) as database:
                database.execute("BEGIN")
                database.execute(f"CREATE TEMP VIEW {_VIEW} AS {self.select}")
                yield database
        except sqlite3.Error as error:
            raise unreadable(self.describe(), str(error)) from error

    def _schema(self, database: sqlite3.Connection) -> pa.Schema:
        declared = database.execute(f"PRAGMA temp.table_info({_VIEW})").fetchall()
        return pa.schema([pa.field(name, self._type(database, name, kind)) for _, name, kind, *_ in declared])

    def _type(self, database: sqlite3.Connection, column: str, declared: str) -> pa.DataType:
        for word, kind in _AFFINITIES:
            if word in declared.upper():
                return kind
        name = kernel.quote(column)
        rows = database.execute(f"SELECT DISTINCT typeof({name}) FROM temp.{_VIEW} WHERE {name} IS NOT NULL").fetchall()
        present = set(itertools.chain.from_iterable(rows))
        for possible, kind in _OF_VALUES:
            if present <= possible:
                return kind
        raise unreadable(
            self.describe(),
            f"column '{column}' has values of the types {', '.join(sorted(present))}",
            hint=f"decide for one of them, for example query='SELECT CAST({column} AS TEXT) AS {column} FROM ...'",
        )


def _batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.record_batch([_array(c, f) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _array(values: Sequence[Any], field: pa.Field) -> pa.Array:
    try:
        if pa.types.is_boolean(field.type):
            return pa.array(values, pa.int64()).cast(pa.bool_())
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise MisfitError(f"column '{field.name}': {str(error).splitlines()[0]}") from error
