"""Files of a connection point that are read together, and parts of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.algebra.marks import least
from penstock.connectors.delta.input_position import ALL_GROUPS, DeltaSplit
from penstock.connectors.delta.table_log import AddedFile


def batches(file: AddedFile) -> tuple[int, int]:
    """The first and the last batch that rows of a file are of."""
    return file.batches or (0, 0)


@dataclass(frozen=True)
class Unit(AddedFile):
    """Files that are read together: between any two units lies the end of a batch."""

    files: tuple[AddedFile, ...] = ()

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Paths and sizes of its files."""
        return tuple((file.path, file.size) for file in self.files)

    @staticmethod
    def of(files: Sequence[AddedFile]) -> Unit:
        rows = sum(file.rows or 0 for file in files)
        held = least([file.least for file in files])
        first, last = min(batches(file)[0] for file in files), max(batches(file)[1] for file in files)
        size = sum(file.size for file in files)
        return Unit(files[0].path, size, rows, batches=(first, last), least=held, files=tuple(files))


@dataclass(frozen=True)
class PointSplit(DeltaSplit):
    """Rows of a unit, from one place in the order of arrival to another; `path` is that of its first file.

    `at` and `end` are numbers of stretches of the unit, and places are counted from the first of these. Where nobody
    knows the stretches, or only some rows of the unit are needed, it is the unit as a whole.
    """

    files: tuple[tuple[str, int], ...] = ()
    """Paths and sizes."""

    @property
    def in_stretches(self) -> bool:
        return self.end != ALL_GROUPS
