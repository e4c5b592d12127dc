"""The DuckDB kernel: SQL over Arrow tables, inside this process and with no view of anything else.

One connection for each thread that asks, configuration locked: SQL typed by a user sees the tables it is given and no
file, variable, extension or setting. Results keep the row order of their input and depend on nothing but the input.
Memory is bounded (`kernel_memory.py`), and nothing is spilled to a disk: a query that needs more is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions.kernel_memory import VARIABLE, BoundedGrowth, kernel_memory, size_text
from penstock.errors import InternalError, PenstockError, QueryError, WorldError

if TYPE_CHECKING:
    import duckdb

TUPLES: Final = "tuples"
"""The name under which expressions find the tuples of a train."""

_SETTINGS: Final[dict[str, str | bool | int | float | list[str]]] = {
    "threads": 1,
    "enable_external_access": False,
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "preserve_insertion_order": True,
    "produce_arrow_string_view": False,
    "arrow_large_buffer_size": False,
    # A file beside the process, of data that nobody expects there, would also make the limit a matter of the disk.
    "temp_directory": "",
    # One tuple with a zero in it must not stop a network: `1 // 0` is NULL, and `1.0 / 0` follows IEEE 754.
    "error_on_division_by_zero": False,
}
_KIND: Final = re.compile(r"^(?:[A-Z][A-Za-z]*(?: [A-Z][A-Za-z]*)* Error|Error): ")


@dataclass
class _Kernel:
    """A connection, for one query at a time, and the memory that it may take."""

    memory: int
    connection: duckdb.DuckDBPyConnection | None = None

    def connected(self) -> duckdb.DuckDBPyConnection:
        if self.connection is None:
            self.connection = _connect(self.memory)
        return self.connection


class _Kernels:
    """The kernels of a process: as many as there were threads that asked at a time. None sees another's tables."""

    def __init__(self) -> None:
        self._memory = kernel_memory()
        self._free: list[_Kernel] = []
        self.growth = BoundedGrowth(self._memory)

    @contextmanager
    def taken(self) -> Iterator[_Kernel]:
        """A kernel that nobody else has."""
        try:
            kernel = self._free.pop()
        except IndexError:
            kernel = _Kernel(self._memory)
        try:
            yield kernel
        finally:
            self._free.append(kernel)


# A forked worker must use neither its parent's connections nor its parent's locks, so they are kept by process id.
_kernels: dict[int, _Kernels] = {}


def _own_kernels() -> _Kernels:
    """The kernels of this process."""
    pid = os.getpid()
    return _kernels[pid] if pid in _kernels else _kernels.setdefault(pid, _Kernels())


def _connect(memory: int) -> duckdb.DuckDBPyConnection:
    import duckdb  # loaded only by processes that compute: those that plan start sooner without it

    connection = duckdb.connect(":memory:", config={**_SETTINGS, "memory_limit": f"{memory}B"})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET lock_configuration = true")
    return connection


KNOWN: Final = 1024
"""Of how many expressions a process remembers what it has asked: networks are built with the same ones again."""

Answers = dict[tuple[object, ...], pa.Table]
"""What queries have answered, by their text and tables."""
_answers: Answers | None = None


@contextmanager
def remembering(answers: Answers) -> Iterator[None]:
    """For who asks the same over and over: a query with a known answer is not run, as it depends on nothing else."""
    global _answers
    before, _answers = _answers, answers
    try:
        yield
    finally:
        _answers = before


def run(sql: str, /, **tables: pa.Table | pa.RecordBatch) -> pa.Table:
    """The result of one query over the named tables.

    >>> run("SELECT sum(x) AS total FROM t", t=pa.table({"x": [1, 2, 3]}))["total"].to_pylist()
    [Decimal('6')]
    """
    if _answers is None:
        return _run(sql, tables)
    key = (sql, *((name, _content(table)) for name, table in sorted(tables.items())))
    if key not in _answers:
        _answers[key] = _run(sql, tables)
    return _answers[key]


def _content(table: pa.Table | pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _run(sql: str, tables: Mapping[str, pa.Table | pa.RecordBatch]) -> pa.Table:
    import duckdb

    kernels = _own_kernels()
    with kernels.taken() as kernel:
        connection = kernel.connected()
        try:
            with kernels.growth:
                for name, table in tables.items():
                    connection.register(
                        name, pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
                    )
                relation = connection.sql(sql)
                if relation is None:
                    raise InternalError("the kernel runs queries only", found=sql)
                return _settled(_plain(relation.to_arrow_table()))
        except (duckdb.OutOfMemoryException, duckdb.FatalException, duckdb.InternalException, MemoryError) as error:
            # Whatever it was in the middle of: the next query gets a connection without it, and its memory is free.
            kernel.connection = None
            raise _refusal(error, kernel.memory) from error
        except duckdb.Error as error:
            raise _refusal(error, kernel.memory) from error
        finally:
            # The connection refers to what is registered: let go of it, or its memory stays.
            for name in tables:
                connection.unregister(name)


@lru_cache(maxsize=KNOWN)
def types(select_list: str, schema: pa.Schema) -> pa.Schema:
    """The schema of `SELECT <select_list> FROM tuples` over tuples of `schema`.

    >>> types("x / 2 AS half, s", pa.schema({"x": pa.int64(), "s": pa.string()}))
    half: double
    s: string
    """
    return run(f"SELECT {select_list} FROM {TUPLES}", **{TUPLES: schema.empty_table()}).schema


def quote(name: str) -> str:
    """A name as a quoted SQL identifier.

    >>> quote("src IP")
    '"src IP"'
    """
    return '"' + name.replace('"', '""') + '"'


def _refusal(error: Exception, memory: int) -> PenstockError:
    import duckdb

    reason = _reason(error)
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
        return WorldError(
            "a query over one train needs more memory than it may take",
            expected=f"at most {size_text(memory)}",
            found=reason.split(" Database is launched")[0] or None,
            hint="let expressions make smaller values, take smaller trains (train_bytes=), "
            f"or allow more by the environment variable {VARIABLE}",
        )
    if reason.startswith("Arrow Appender:"):
        return WorldError(
            "a column of a result is too large for one train",
            expected="at most 2 GiB of text, and 2^31 items of lists",
            hint="let expressions make smaller values, or take smaller trains (train_bytes=)",
        )
    if isinstance(error, duckdb.FatalException | duckdb.InternalException):
        return InternalError("the kernel failed", found=reason)
    return QueryError(reason)


def _reason(error: Exception) -> str:
    """What DuckDB complains of, without its echo of a query that the user did not write."""
    text = str(error).split("\n\nLINE ")[0].split("\nLINE ")[0]
    text = text.split("\n\tCandidate")[0].split("Candidate functions:")[0]
    return " ".join(_KIND.sub("", text).split()).rstrip(".")


def _settled(table: pa.Table) -> pa.Table:
    """The same, with zeros under NULLs, where DuckDB leaves what was in memory: equal results shall be equal bytes."""
    for index, column in enumerate(table.columns):
        if pa.types.is_nested(column.type):
            # What Arrow takes has zeros under NULLs, however deep they lie.
            chunks = [chunk.take(pa.array(np.arange(len(chunk)))) for chunk in column.chunks]
            table = table.set_column(index, table.field(index), pa.chunked_array(chunks, column.type))
        elif column.null_count and (width := _width(column.type)):
            chunks = [_with_zeros(chunk, width) if chunk.null_count else chunk for chunk in column.chunks]
            table = table.set_column(index, table.field(index), pa.chunked_array(chunks, column.type))
    return table


def _width(kind: pa.DataType) -> int:
    """The bytes of a value; 0 where a NULL takes up none, or nobody writes below it."""
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_null(kind):
        return 0
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return 0


def _with_zeros(chunk: pa.Array, width: int) -> pa.Array:
    zero = pa.Array.from_buffers(chunk.type, 1, [None, pa.py_buffer(bytes(width))])[0]
    valid = pc.is_valid(chunk).buffers()[1]
    return pa.Array.from_buffers(chunk.type, len(chunk), [valid, pc.fill_null(chunk, zero).buffers()[1]])


def _plain(table: pa.Table) -> pa.Table:
    """Lists named after their column would make equal types differ, so their items get Arrow's usual name."""
    if not any(pa.types.is_nested(kind) for kind in table.schema.types):
        return table
    fields = [field.with_type(_plain_type(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def _plain_type(kind: Any) -> Any:
    if pa.types.is_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    return kind
