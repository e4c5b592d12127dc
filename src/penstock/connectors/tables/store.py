"""What a static table is kept in: a store shows its schema, tells whether it may have changed, and is read whole."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.connectors.fitting import lossless
from penstock.errors import WorldError


@dataclass(frozen=True)
class Stamp:
    """What a store looks like from outside. As long as a settled stamp stays the same, so does the content."""

    text: str
    settled: bool = True
    """False where a change could still hide behind the same stamp: clocks of file systems tick coarsely."""


class MisfitError(Exception):
    """The content of a store is not what was declared of it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Store(Protocol):
    """One kind of place for tables: a frozen, picklable declaration. What is missing or refuses is a WorldError."""

    @property
    @abstractmethod
    def refresh(self) -> int | None:
        """For how long, in microseconds, the store is not looked at again unless the user says otherwise.

        None: it is looked at for every batch.
        """

    @abstractmethod
    def describe(self) -> str:
        """The place, as people call it; no secrets."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """All columns, as they are now."""

    @abstractmethod
    def stamp(self) -> Stamp | None:
        """The stamp as it is now; None where only reading the content tells whether it has changed."""

    @property
    def fixed(self) -> pa.Table | None:
        """The rows of a store that never changes; None if it may."""
        return None

    @abstractmethod
    def read(self, schema: pa.Schema) -> pa.Table:
        """All rows, with these columns at least; raises MisfitError where they cannot be had."""


def missing(place: str, found: str) -> WorldError:
    """There is no table where one is expected."""
    return WorldError(
        f"there is no table at {place}",
        found=found,
        hint="check the place; a run that has stopped for it goes on from its checkpoint when the table is back",
    )


def unreadable(place: str, reason: str, hint: str | None = None) -> WorldError:
    """There may be a table, but it cannot be read."""
    return WorldError(
        f"cannot read the table {place}",
        found=reason,
        hint=hint or "check that it is there and may be read; a run that has stopped for it can be resumed",
    )


def require_fit(found: pa.Schema, schema: pa.Schema) -> None:
    """Columns of stores that know their types: each must be there, as what was declared or narrower."""
    for field in schema:
        if field.name not in found.names:
            raise MisfitError(f"no column '{field.name}', only {listed(found.names)}")
        kind = found.field(field.name).type
        if not lossless(kind, field.type):
            raise MisfitError(f"column '{field.name}' is {kind}, not {field.type}")


def listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "no columns"
