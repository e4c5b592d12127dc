"""The console as a target: the driver prints each batch."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.connectors.targets.handover import HandedOver
from penstock.errors import QueryError


@dataclass(frozen=True)
class Console(HandedOver):
    """Prints the tuples of each batch on the driver. After a crash, the last batch may be printed again."""

    limit: int = 20

    def deliver(self, output: str, batch: int, tuples: pa.Table) -> None:
        from rich.console import Console as Terminal
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid()
        for column in tuples.schema:
            grid.add_column(Text(column.name), justify="right" if _is_number(column.type) else "left")
        for row in zip(*(column.to_pylist() for column in tuples.slice(0, self.limit).columns), strict=True):
            grid.add_row(*(Text("NULL" if value is None else str(value)) for value in row))
        more = tuples.num_rows - self.limit
        Terminal(highlight=False).print(
            Text(f"{output}, batch {batch}"), grid, *([f"and {more:,} more tuples"] if more > 0 else []), sep="\n"
        )

    def describe(self) -> str:
        return "the console"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def console(limit: int = 20) -> Console:
    """Print the tuples of each batch, at most `limit` of them."""
    if limit < 1:
        raise QueryError("a console shows at least one tuple", found=f"limit={limit}")
    return Console(limit)
