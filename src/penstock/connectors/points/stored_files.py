"""The files of a connection point, as the log of its table tells: which batches they hold, and between what bounds.

A table of a connection point has the columns of the stream, and behind them:

- `_batch`: the batch in which a tuple passed;
- `_arrival`: its place in the order of arrival inside the batch; tuples that arrived at once share one;
- `_arrived`: its QoS timestamp, in microseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import deltalake
import pyarrow as pa

from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, to_ticks

ARRIVAL_COLUMN: Final = "_arrival"
ARRIVED_COLUMN: Final = "_arrived"
BATCH_COLUMN: Final = "_batch"
OWN_COLUMNS: Final = (ARRIVAL_COLUMN, ARRIVED_COLUMN, BATCH_COLUMN)
OWN_FIELDS: Final = tuple(pa.field(name, pa.int64()) for name in OWN_COLUMNS)


@dataclass(frozen=True)
class StoredFile:
    """A file of a connection point."""

    path: str
    size: int
    rows: int
    first: int
    """The first batch that its rows are of."""
    last: int
    since: int
    """The earliest of its QoS timestamps."""
    arrived: int
    """The latest."""
    least: dict[str, int] = field(default_factory=dict)
    """The smallest ticks of some attributes, in ticks of the table's types, where the log tells them."""
    most: dict[str, int] = field(default_factory=dict)

    def keeps(self, known: Marks) -> Marks:
        """Of some marks, how far they may have come so that all of its rows keep them."""
        falling = {name: -self.most[name] for name in known.falling if self.most.get(name, BEGINNING) != BEGINNING}
        return Marks({name: self.least[name] for name in known.rising if name in self.least}, falling)


def stored_files(table: deltalake.DeltaTable, attributes: Iterable[str] = ()) -> list[StoredFile]:
    """The files that a table has, oldest batches first, with the bounds of some attributes."""
    known = pa.table(table.get_add_actions(flatten=True))
    if not known.num_rows:
        return []
    facts = zip(
        known["path"].to_pylist(),
        known["size_bytes"].to_pylist(),
        known["num_records"].to_pylist(),
        known[f"min.{BATCH_COLUMN}"].to_pylist(),
        known[f"max.{BATCH_COLUMN}"].to_pylist(),
        known[f"min.{ARRIVED_COLUMN}"].to_pylist(),
        known[f"max.{ARRIVED_COLUMN}"].to_pylist(),
        strict=True,
    )
    names = list(attributes)
    least, most = ({name: _bounds(known, f"{end}.{name}") for name in names} for end in ("min", "max"))
    found = [
        StoredFile(path, size, rows, first, last, since, arrived, _known(least, at), _known(most, at))
        for at, (path, size, rows, first, last, since, arrived) in enumerate(facts)
    ]
    return sorted(found, key=lambda file: (file.first, file.last, file.path))


_File = TypeVar("_File")


def by_batches(files: Sequence[_File], batches: Callable[[_File], tuple[int, int]]) -> list[list[_File]]:
    """Files that hold rows of the same batches together: between any two groups lies the end of a batch.

    >>> by_batches([(0, 0), (1, 3), (2, 2), (3, 3), (4, 9)], lambda file: file)
    [[(0, 0)], [(1, 3), (2, 2), (3, 3)], [(4, 9)]]
    """
    found: list[list[_File]] = []
    end: int | None = None
    for file in sorted(files, key=batches):
        first, last = batches(file)
        if end is None or first > end:
            found.append([])
        found[-1].append(file)
        end = last if end is None else max(end, last)
    return found


def _bounds(known: pa.Table, name: str) -> Sequence[int | None]:
    if name not in known.column_names:
        return [None] * known.num_rows
    return list(to_ticks(known[name]).to_pylist())


def _known(bounds: dict[str, Sequence[int | None]], at: int) -> dict[str, int]:
    return {name: tick for name, ticks in bounds.items() if (tick := ticks[at]) is not None}
