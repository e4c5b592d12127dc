"""The rows of a static table in one version, and what is made of them once for all trains and threads of a process."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from penstock.operators.key_index import KeyIndex

MOST_CODES: Final = 4096
"""Entries of a dictionary by which rows show a column of texts: so many values are numbered once for all trains by who
counts by them."""


class KnownRows:
    """Rows, their index by the columns that a join compares, and their texts as codes."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self._indexes: dict[tuple[str, ...], KeyIndex | None] = {}
        self._coded: dict[str, pa.Array | pa.ChunkedArray] = {}
        # Threads of a batch ask at the same time, and to make it twice takes longer than to wait.
        self._lock = Lock()

    def index(self, columns: tuple[str, ...]) -> KeyIndex | None:
        """The rows by these columns; None if they are not for an index."""
        from penstock.operators.key_index import KeyIndex  # those who plan do without

        with self._lock:
            if columns not in self._indexes:
                self._indexes[columns] = KeyIndex.of(self.rows.select(list(columns)))
            return self._indexes[columns]

    def coded(self, column: str) -> pa.Array | pa.ChunkedArray:
        """A column of texts as codes of a dictionary, if few of them differ; otherwise as it is."""
        with self._lock:
            if column not in self._coded:
                values = self.rows.column(column)
                codes = values.combine_chunks().dictionary_encode() if len(values) else values
                codes = codes.combine_chunks() if isinstance(codes, pa.ChunkedArray) else codes
                few = len(values) and len(codes.dictionary) <= MOST_CODES
                self._coded[column] = codes if few else values
            return self._coded[column]
