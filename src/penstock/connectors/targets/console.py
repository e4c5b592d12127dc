"""The console as a target: the driver prints each batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from penstock.errors import QueryError
from penstock.storage.folder import Folder


@dataclass(frozen=True)
class Console(Target):
    """Prints the tuples of each batch on the driver. After a crash, the last batch may be printed again."""

    limit: int = 20

    def check(self, name: str, schema: pa.Schema, scratch: Folder) -> None:
        enrol(name, schema, scratch, self.describe())

    def stage(self, batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
        return stage_arrow(batch, part, table, scratch)

    def commit(
        self, batch: int, receipts: Sequence[Receipt], scratch: Folder, progress: OutputProgress = SILENT
    ) -> None:
        table = pending(batch, receipts, scratch)
        if table is not None:
            self._print(f"{writer(scratch).output}, batch {batch}", table)
        settle(batch, receipts, scratch)

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


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def console(limit: int = 20) -> Console:
    """Print the tuples of each batch, at most `limit` of them."""
    if limit < 1:
        raise QueryError("a console shows at least one tuple", found=f"limit={limit}")
    return Console(limit)
