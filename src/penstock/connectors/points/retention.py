"""What leaves a connection point: files of which every row is beyond what is kept.

Whole files leave, so what stays is what is kept and at most a file more. A file that leaves the table's log is deleted
later: those who are still reading it have the grace of the point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.algebra.ticks import BEGINNING, END
from penstock.connectors.points.stored_files import StoredFile


@dataclass(frozen=True)
class Horizon:
    """What a batch leaves of the history behind it; None where there is no such bound."""

    on: str = ""
    least: int | None = None
    """Rows with smaller ticks of `on`, in the table's type, are not kept."""
    arrived: int | None = None
    """Rows that arrived before are not kept."""
    rows: int | None = None
    bytes: int | None = None


def time_horizon(mark: int, length: int) -> int | None:
    """The smallest tick that is kept behind a low-water mark; None while nothing is known, and at the end: what there
    is then stays.

    >>> time_horizon(100, 30), time_horizon(END, 30)
    (70, None)
    """
    return None if mark in (BEGINNING, END) else mark - length


def leaving(files: Sequence[StoredFile], horizon: Horizon) -> list[StoredFile]:
    """The files that leave, of all files, which are in order of their batches."""
    gone = {file.path for file in files if _is_old(file, horizon)}
    rest = [file for file in files if file.path not in gone]
    rows, size = sum(file.rows for file in rest), sum(file.size for file in rest)
    for file in sorted(rest, key=lambda one: (one.last, one.path))[:-1]:
        spare = horizon.rows is not None and rows - file.rows >= horizon.rows
        large = horizon.bytes is not None and size > horizon.bytes
        if not spare and not large:
            break
        gone.add(file.path)
        rows, size = rows - file.rows, size - file.size
    return [file for file in files if file.path in gone]


def _is_old(file: StoredFile, horizon: Horizon) -> bool:
    most = file.most.get(horizon.on)
    behind = horizon.least is not None and most is not None and most < horizon.least
    return behind or (horizon.arrived is not None and file.arrived < horizon.arrived)
