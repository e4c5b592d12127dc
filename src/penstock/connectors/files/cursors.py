"""Readers that stay open between two trains, so that a train which begins inside a row group or a compressed file need
not decode again all that comes before it.

A worker keeps the last few. Whoever finds none, or one that is past its place, begins anew: what is read is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from penstock.connectors.files.formats.format import Part
from penstock.connectors.files.recent import Recent

_KEPT: Final = 4
"""Readers kept in a process: one holds a decoded stretch and the compressed columns of a row group."""


class Cursor(Protocol):
    """A reader that stands at a place and can only go on."""

    @property
    def place(self) -> int:
        """Where it stands."""

    def close(self) -> None:
        """Free what it holds."""


C = TypeVar("C", bound=Cursor)
_kept: Recent[Cursor] = Recent(_KEPT)


def part_key(part: Part, *more: Hashable) -> Hashable:
    """What a reader of a part goes by: the file as it was taken, and what is read of it."""
    return (part.path, part.size, part.known, part.at, part.end, *more)


def resume(key: Hashable, place: int, make: Callable[[], C]) -> C:
    """The reader that stands at a place or before it; it is the caller's until it is kept again."""
    found: Any = _kept.take(key)
    if found is not None and found.place <= place:
        return found  # type: ignore[no-any-return]
    if found is not None:
        found.close()
    return make()


def keep(key: Hashable, cursor: Cursor) -> None:
    """Put a reader back, for who goes on where it stands."""
    for old in _kept.put(key, cursor):
        old.close()


@dataclass
class BatchCursor:
    """Record batches that come one after the other; its place is a row."""

    batches: Iterator[pa.RecordBatch]
    place: int = 0
    failed: BaseException | None = None
    """Why no further batch can be had."""
    _held: pa.RecordBatch | None = None
    _open: ExitStack = field(default_factory=ExitStack)

    def take(self, first: int, last: int | None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Rows `[first, last)`, cut where the batches are cut, each with its first row's number."""
        while last is None or self.place < last:
            if self._held is None:
                try:
                    self._held = None if self.failed is not None else next(self.batches, None)
                except (pa.ArrowException, OSError) as error:
                    if isinstance(error, OSError) and error.errno is not None:
                        raise
                    self.failed = error
                if self._held is None:
                    return
            start, rows = self.place, self._held.num_rows
            stop = start + rows if last is None else min(start + rows, last)
            held = self._held
            self._held = None if stop == start + rows else held.slice(stop - start)
            self.place = stop
            if stop > first:
                low = max(first, start)
                yield low, held.slice(low - start, stop - low)

    def close(self) -> None:
        self._open.close()

    def holding(self, file: Any) -> BatchCursor:
        """The same, with a file to be closed at the end."""
        self._open.callback(file.close)
        return self
