"""A function of the user's as a target: the driver calls it with each batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa

from penstock.connectors.targets.handover import pending, settle
from penstock.connectors.targets.target import (
    SILENT,
    Markers,
    OutputProgress,
    Receipt,
    Target,
    enrol,
    stage_arrow,
    writer,
)
from penstock.errors import InternalError, QueryError
from penstock.storage.folder import Folder

Consumer = Callable[[pa.Table], object] | Callable[[pa.Table, int], object]


@dataclass(frozen=True)
class Callback(Target):
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

    def commit(
        self, batch: int, receipts: Sequence[Receipt], scratch: Folder, progress: OutputProgress = SILENT
    ) -> None:
        function = cast(Callable[..., object], self.function)
        if function is None:
            raise InternalError("a callback was committed on a worker, where its function is not known")
        table = pending(batch, receipts, scratch)
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
        settle(batch, receipts, scratch)

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
