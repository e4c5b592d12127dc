"""Where in the files of a connection point the rows are that arrived next.

The footer of a file tells, for every row group, between which batches and places of arrival its rows are. Row groups
whose rows arrived before those of all others are a *stretch*: it is read and sorted alone. Without a storage key rows
lie as they arrived, so a stretch is a few row groups; with a key it is all that one task has sorted together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.parquet as pq

from penstock.connectors.points.stored_files import ARRIVAL_COLUMN, BATCH_COLUMN

STRETCH_ROWS: Final = 1 << 17
"""Neighbouring stretches are one until they have so many rows: to read less at a time costs as much."""
_FIRST: Final = -(2**63)
_LAST: Final = 2**63 - 1


@dataclass(frozen=True)
class Groups:
    """Row groups of a file that follow each other."""

    file: int
    """Which of the files."""
    first: int
    end: int


@dataclass(frozen=True)
class Stretch:
    """Rows that arrived one after the other, with no others in between."""

    rows: int
    groups: tuple[Groups, ...]


@dataclass(frozen=True)
class _Group:
    low: tuple[int, int]
    """No row of it arrived before this batch and place."""
    high: tuple[int, int]
    file: int
    number: int
    rows: int


def stretches(footers: Sequence[pq.FileMetaData]) -> tuple[Stretch, ...]:
    """The stretches of some files, in order of arrival; one of all, where a footer does not tell."""
    groups = [
        _group(footer, file, number) for file, footer in enumerate(footers) for number in range(footer.num_row_groups)
    ]
    found: list[list[_Group]] = []
    reached = (_FIRST, _FIRST)
    rows = 0
    for group in sorted(groups, key=lambda one: (one.low, one.high, one.file, one.number)):
        if not found or (group.low > reached and rows >= STRETCH_ROWS):
            found.append([])
            rows = 0
        found[-1].append(group)
        reached = max(reached, group.high)
        rows += group.rows
    return tuple(Stretch(sum(one.rows for one in own), _in_runs(own)) for own in found)


def _group(footer: pq.FileMetaData, file: int, number: int) -> _Group:
    group = footer.row_group(number)
    places = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    batches, arrivals = (_extent(group, places.get(name)) for name in (BATCH_COLUMN, ARRIVAL_COLUMN))
    if batches[0] != batches[1]:
        arrivals = (_FIRST, _LAST)  # of which batch the first one is, nobody knows
    return _Group((batches[0], arrivals[0]), (batches[1], arrivals[1]), file, number, group.num_rows)


def _extent(group: Any, place: int | None) -> tuple[int, int]:
    facts = group.column(place).statistics if place is not None else None
    if facts is None or not facts.has_min_max:
        return _FIRST, _LAST
    return facts.min, facts.max


def _in_runs(groups: Sequence[_Group]) -> tuple[Groups, ...]:
    """Row groups as runs of neighbours in their files."""
    found: list[Groups] = []
    for file, number in sorted((group.file, group.number) for group in groups):
        if found and (found[-1].file, found[-1].end) == (file, number):
            found[-1] = Groups(file, found[-1].first, number + 1)
        else:
            found.append(Groups(file, number, number + 1))
    return tuple(found)
