"""Targets on the driver: the console, and a function of the user's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa

from penstock.connectors.targets import Markers, Receipt, enrol, enrolled_schema, read_staged, stage_arrow, writer
from penstock.errors import InternalError, QueryError
from penstock.storage.folder import Folder


@dataclass(frozen=True)
class Console:
    """Prints the tuples of each batch on the driver. After a crash, the last batch may be printed again."""

    limit: int = 20

    def check(self, name: str, schema: pa.Schema, scratch: Folder) -> None:
        enrol(name, schema, scratch, self.describe())

    def stage(self, batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
        return stage_arrow(batch, part, table, scratch)

    def commit(self, batch: int, receipts: Sequence[Receipt], scratch: Folder) -> None:
        table = _pending(batch, receipts, scratch)
        if table is not None:
            self._print(f"{writer(scratch).output}, batch {batch}", table)
        _settle(batch, receipts, scratch)

    def _print(self, title: str, table: pa.Table) -> None:
        from rich.console import Console as Terminal
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid()
        for column in table.schema:
            grid.add_column(Text(column.name), justify="right" if _is_number(column.type) else "left")
        for row in zip(*(column.to_pylist() for column in table.slice(0, self.limit).columns), strict=True):
            grid.add_row(*(Text("NULL" if value is None else str(value)) for value in row))
        more = table.num_rows - self.limit
        Terminal(highlight=False).print(
            Text(title), grid, *([f"and {more:,} more tuples"] if more > 0 else []), sep="\n"
        )

    @property
    def outside(self) -> bool:
        return True

    def last_committed(self, scratch: Folder) -> int:
        return Markers(scratch).last()

    def describe(self) -> str:
        return "the console"


Consumer = Callable[[pa.Table], object] | Callable[[pa.Table, int], object]


@dataclass(frozen=True)
class Callback:
    """Calls a function with the tuples of each batch, on the driver, in the process that started the run.

    At least once: if the process dies between the call and the end of the batch, the batch comes again, with the same
    tuples and the same number. A function that must not act twice takes the batch as its second argument.
    """

    function: Consumer | None = field(compare=False)
    takes_batch: bool = False

    def check(self, name: str, schema: pa.Schema, scratch: Folder) -> None:
        enrol(name, schema, scratch, self.describe())

    def stage(self, batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
        return stage_arrow(batch, part, table, scratch)

    def commit(self, batch: int, receipts: Sequence[Receipt], scratch: Folder) -> None:
        function = cast(Callable[..., object], self.function)
        if function is None:
            raise InternalError("a callback was committed on a worker, where its function is not known")
        table = _pending(batch, receipts, scratch)
        if table is not None:
            try:
                function(*((table, batch) if self.takes_batch else (table,)))
            except Exception as failure:
                raise QueryError(
                    f"the callback failed on batch {batch} ({table.num_rows:,} tuples)",
                    box=writer(scratch).output,
                    found=f"{type(failure).__name__}: {failure}",
                    hint="the batch is delivered again when the run restarts from its checkpoint",
                ) from failure
        _settle(batch, receipts, scratch)

    @property
    def outside(self) -> bool:
        return True

    def last_committed(self, scratch: Folder) -> int:
        return Markers(scratch).last()

    def describe(self) -> str:
        return f"callback {getattr(self.function, '__qualname__', self.function)}"

    def __reduce__(self) -> tuple[object, ...]:
        # Workers only stage, so the function (a closure over a socket, a lock, a list) stays in the user's process.
        return (Callback, (None, self.takes_batch))


def _pending(batch: int, receipts: Sequence[Receipt], scratch: Folder) -> pa.Table | None:
    """The tuples of a batch on the driver; None if there are none, or they were delivered before."""
    if not receipts or batch <= Markers(scratch).last():
        return None
    files = [file for receipt in sorted(receipts, key=lambda r: r.part) for file in receipt.files]
    parts = [read_staged(scratch, file.name, file.bytes, file.crc) for file in files]
    return pa.concat_tables([enrolled_schema(scratch).empty_table(), *parts])


def _settle(batch: int, receipts: Sequence[Receipt], scratch: Folder) -> None:
    """The batch is delivered: remember it, and clear what carried it here."""
    markers = Markers(scratch)
    if receipts and batch > markers.last():
        markers.put(batch)
    for name in (file.name for receipt in receipts for file in receipt.files):
        scratch.delete(name)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def console(limit: int = 20) -> Console:
    """Print the tuples of each batch, at most `limit` of them."""
    if limit < 1:
        raise QueryError("a console shows at least one tuple", found=f"limit={limit}")
    return Console(limit)


def callback(function: Consumer) -> Callback:
    """Call `function(table)` or `function(table, batch)` once for each batch that has tuples."""
    if not callable(function):
        raise QueryError("a callback must be callable", found=type(function).__name__)
    return Callback(function, _takes_batch(function))


def _takes_batch(function: Consumer) -> bool:
    """Whether the function wants the batch: a second argument that it requires, or calls `batch`, or takes as *args."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins tell nothing about themselves
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    several = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    required = [
        p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    keywords = [p for p in parameters if p.default is p.empty and p.kind == p.KEYWORD_ONLY]
    if len(required) > 2 or keywords or not (positional or several):
        raise QueryError(
            "a callback takes a table, and the batch if it wants it",
            expected="function(table) or function(table, batch)",
            found=f"{getattr(function, '__name__', function)}{inspect.signature(function)}",
        )
    return len(required) == 2 or several or (len(positional) > 1 and positional[1].name == "batch")
