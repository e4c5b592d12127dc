"""Join of a stream with a static table: its box.

A static table is a window of infinite size (aurora.md 5.2.2.3): every tuple finds all its partners when it arrives, so
the box needs no window and keeps no state. Which version of the table a batch sees is part of the batch's offset.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import pyarrow as pa

from penstock.algebra.box import Stateless
from penstock.algebra.expressions.bounds import Bounds, both, bounds_of_values, renamed
from penstock.algebra.expressions.pairing import Pairing
from penstock.algebra.floors import Floors, named_before
from penstock.algebra.mark_ways import Along
from penstock.algebra.marks import Marks
from penstock.algebra.order import ANY
from penstock.errors import InternalError

if TYPE_CHECKING:
    from penstock.boxes.table_join.known_rows import KnownRows
    from penstock.connectors.tables.static_table import StaticTable
    from penstock.operators.protocol import Operator

How = Literal["inner", "left", "semi", "anti"]


@dataclass(frozen=True)
class TableJoin(Stateless):
    """Tuples with the rows of a table for which the predicate holds; or only those that have such rows, or none."""

    table: StaticTable
    pairing: Pairing
    how: How

    kind: ClassVar[str] = "table join"
    page: ClassVar[str] = "boxes/table.md"

    @property
    def paired(self) -> bool:
        """Whether what leaves are pairs; otherwise it is tuples of the stream as they came."""
        return self.how in ("inner", "left")

    def schema(self, port: int) -> pa.Schema:
        return self.pairing.schema if self.paired else self.inputs[0].schema

    def name_of(self, attribute: str) -> str:
        """What an attribute of the stream is called behind the box."""
        return self.pairing.name(0, attribute) if self.paired else attribute

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        return inputs[0].renamed(self.name_of)

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        needed = self._compared(0) | self._shown(0, port_columns[0])
        # Tuples count even where nobody asks for their attributes.
        return (needed or frozenset(self.inputs[0].schema.names[:1]),)

    def loaded(self, columns: Collection[str]) -> pa.Schema:
        """The columns of the table that are needed when these columns of the output are; one at least."""
        needed = self._compared(1) | self._shown(1, columns)
        schema = self.pairing.right
        return pa.schema([f for f in schema if f.name in needed] or [schema.field(0)])

    def _compared(self, side: int) -> frozenset[str]:
        """The columns of a side that the predicate is about."""
        used = self.pairing.predicate.columns if self.pairing.predicate is not None else ()
        sides = [self.pairing.side_of(name) for name in used]
        return frozenset(column for of, column in sides if of == side)

    def _shown(self, side: int, columns: Collection[str]) -> frozenset[str]:
        """The columns of a side that these columns of the output are."""
        if not self.paired:
            return frozenset(columns) if side == 0 else frozenset()
        return frozenset(column for name, of, column in self.pairing.columns if of == side and name in columns)

    def made_of(self, slot: int, names: Collection[str]) -> frozenset[str]:
        return frozenset(name for name in self.inputs[0].schema.names if self.name_of(name) in names)

    def spread(self, keys: tuple[str, ...]) -> tuple[str, ...] | None:
        return tuple(self.name_of(k) for k in keys)

    def order_before(self, slot: int, order: str) -> str:
        return next((a for a in self.inputs[0].progressing if self.name_of(a) == order), ANY)

    def bounds_before(self, slot: int, behind: Sequence[Bounds | None]) -> Bounds | None:
        asked = renamed(behind[0], {self.name_of(name): name for name in self.inputs[0].schema.names})
        rows = self.table.store.fixed if self.how in ("inner", "semi") else None
        if rows is not None:
            # Only what finds a row leaves, and which values rows have does not change.
            for left, right in self.pairing.equalities:
                asked = both(asked, bounds_of_values(left, rows.column(right)))
        return asked

    def useful_from(self, slot: int, behind: Sequence[Floors | None], reached: Sequence[Marks]) -> Floors | None:
        return named_before(behind[0], {self.name_of(name): name for name in self.inputs[0].schema.names})

    def mark_way(self, on: str, by: Collection[str]) -> Along | None:
        names = {column: self.name_of(column) for column in self.inputs[0].schema.names}
        time = next((column for column, name in names.items() if name == on), None)
        return None if time is None else Along(time, {c: n for c, n in names.items() if n in by})

    def details(self, needed: Collection[str]) -> Sequence[str]:
        names, known = self.loaded(needed).names, len(self.pairing.right)
        columns = "1 column" if known == 1 else f"{known} columns"
        return (f"loads {', '.join(names)} ({len(names)} of {columns} of the table)",)

    def operator(
        self, needed: Collection[str], known: KnownRows | None = None, coded: Collection[str] = ()
    ) -> Operator:
        """What looks tuples up in rows; `coded` are columns of the output that may leave as codes of texts."""
        from penstock.boxes.table_join.operator import ExistsOp, LookupOp

        if known is None:
            raise InternalError("a join with a table needs its rows", box=self.name)
        return LookupOp(self, needed, known, coded) if self.paired else ExistsOp(self, known)

    def describe(self) -> str:
        predicate = self.pairing.predicate
        names = "" if self.pairing.names == ("l", "r") else f", as {' and '.join(self.pairing.names)}"
        return f"{self.how} with {self.table.describe()} on {predicate.text if predicate else 'true'}{names}"
