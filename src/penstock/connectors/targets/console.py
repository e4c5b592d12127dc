"""The console as a target: the driver prints each batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.connectors.targets.handover import HandedOver
from penstock.errors import QueryError

if TYPE_CHECKING:
    from rich.console import ConsoleRenderable


@dataclass(frozen=True)
class Console(HandedOver):
    """Prints the tuples of each batch on the driver. After a crash, the last batch may be printed again."""

    limit: int = 20

    def deliver(self, output: str, batch: int, tuples: pa.Table) -> None:
        from rich.console import Console as Terminal

        more = tuples.num_rows - self.limit
        told = [f"and {more:,} more tuples"] if more > 0 else []
        Terminal(highlight=False).print(*grid(f"{output}, batch {batch}", tuples.slice(0, self.limit)), *told, sep="\n")

    def describe(self) -> str:
        return "the console"


def grid(title: str, tuples: pa.Table) -> Sequence[ConsoleRenderable]:
    """Tuples as they are printed, below a title."""
    from rich.table import Table as Grid
    from rich.text import Text

    shown = Grid()
    for column in tuples.schema:
        shown.add_column(Text(column.name), justify="right" if _is_number(column.type) else "left")
    for row in zip(*(column.to_pylist() for column in tuples.columns), strict=True):
        shown.add_row(*(Text("NULL" if value is None else str(value)) for value in row))
    return Text(title), shown


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def console(limit: int = 20) -> Console:
    """Print the tuples of each batch, at most `limit` of them."""
    if limit < 1:
        raise QueryError("a console shows at least one tuple", found=f"limit={limit}")
    return Console(limit)
