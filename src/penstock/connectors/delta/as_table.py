"""A Delta table as a static table: its version tells whether it has changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.connectors.tables.store import Stamp, Store, missing, require_fit, unreadable

if TYPE_CHECKING:
    import deltalake


@dataclass(frozen=True)
class StoredDelta(Store):
    """The newest version of a Delta table."""

    path: str

    @property
    def refresh(self) -> int | None:
        return None

    def describe(self) -> str:
        return f"{self.path} (Delta)"

    def schema(self) -> pa.Schema:
        with self._opened() as table:
            return _arrow_schema(table)

    def stamp(self) -> Stamp:
        with self._opened() as table:
            # A table that was dropped and made anew begins with version 0 again.
            return Stamp(f"{table.metadata().id} {table.version()}")

    def read(self, schema: pa.Schema) -> pa.Table:
        with self._opened() as table:
            require_fit(_arrow_schema(table), schema)
            return table.to_pyarrow_table(columns=schema.names)

    @contextmanager
    def _opened(self) -> Iterator[deltalake.DeltaTable]:
        import deltalake  # loaded only where a table is in Delta's format
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            yield deltalake.DeltaTable(self.path)
        except TableNotFoundError as error:
            raise missing(self.describe(), "no Delta table") from error
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise unreadable(self.describe(), str(error).splitlines()[0]) from error


def is_delta(place: str) -> bool:
    """Whether there is a Delta table at a place."""
    import deltalake

    try:
        return deltalake.DeltaTable.is_deltatable(place)
    except Exception:  # a place that Delta cannot even look at is none of its tables
        return False


def _arrow_schema(table: deltalake.DeltaTable) -> Any:
    return pa.schema(table.schema().to_arrow())
