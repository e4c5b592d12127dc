"""What a run takes up on disks: every file of its checkpoint, and its connection points elsewhere, by their purpose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.connectors.points.point_target import ConnectionPoint
from penstock.plan.keep_rejects import errors_output, late_output
from penstock.runtime.job import Job
from penstock.storage.folder import Folder
from penstock.storage.sizes import size_text

STATE: Final = "state"
BOARD: Final = "board"
JOURNAL: Final = "journal"
VERSIONS: Final = "versions"
RESULTS: Final = "results"
LATE: Final = "late tuples"
ERRORS: Final = "refused records"
POINT: Final = "connection point"
SPARK: Final = "Spark's logs"
TABLE: Final = "static table"
OTHER: Final = "other"
KINDS: Final = (STATE, POINT, RESULTS, LATE, ERRORS, TABLE, JOURNAL, BOARD, VERSIONS, SPARK, OTHER)
"""In the order in which they are told."""
_FOLDERS: Final = {"state": STATE, "board": BOARD, "versions": VERSIONS, "job": VERSIONS, "spark": SPARK}
_NAMED: Final = {"intake": JOURNAL, "points": POINT, "tables": TABLE}
_LATE, _ERRORS = late_output(""), errors_output("")


@dataclass(frozen=True)
class Stored:
    """What is stored for one purpose."""

    kind: str
    name: str
    """Of which output, point, input or box; nothing where there is but one."""
    place: str
    bytes: int = 0
    files: int = 0

    @property
    def title(self) -> str:
        """What it is, in words."""
        return f"{self.kind} '{self.name}'" if self.name else self.kind


def footprint(checkpoint: Folder, outside: Mapping[str, str] | None = None) -> list[Stored]:
    """What lies in a checkpoint, and in the tables of connection points outside of it, by name and place."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for path, size in checkpoint.files():
        kind, name, place = _purpose(path)
        found.setdefault((kind, name, f"{checkpoint.path}/{place}".rstrip("/")), []).append(size)
    for name, place in (outside or {}).items():
        found[POINT, name, place] = [size for _, size in Folder(place).files()]
    stored = [Stored(*what, sum(sizes), len(sizes)) for what, sizes in found.items()]
    return sorted(stored, key=lambda one: (KINDS.index(one.kind), one.name, one.place))


def footprint_of(job: Job) -> list[Stored]:
    """The same for a run."""
    points = {o.name: job.target(o) for o in job.plan.network.outputs}
    outside = {n: t.folder.path for n, t in points.items() if isinstance(t, ConnectionPoint) and not t.beside}
    return footprint(job.checkpoint, outside)


def total(stored: Iterable[Stored]) -> int:
    return sum(one.bytes for one in stored)


def told(stored: Sequence[Stored], most: int = 4) -> str:
    """What takes up how much, the largest first.

    >>> told([Stored("state", "", "", 12_000), Stored("results", "counts", "", 5)])
    "12.0 kB of state, 5 B of results 'counts'"
    """
    ordered = sorted(stored, key=lambda one: -one.bytes)
    parts = [f"{size_text(one.bytes)} of {one.title}" for one in ordered[:most]]
    rest = total(ordered[most:])
    return ", ".join([*parts, f"{size_text(rest)} of others"] if rest else parts)


def _purpose(path: str) -> tuple[str, str, str]:
    """What a file of a checkpoint is for: kind, name, and the folder for this purpose."""
    top, *rest = path.split("/")
    if top in _FOLDERS:
        return _FOLDERS[top], "", top
    if not rest:
        return OTHER, "", ""
    if top in _NAMED:
        return _NAMED[top], _plain(rest[0]), f"{top}/{rest[0]}"
    if top == "outlet":
        name = _plain(rest[0])
        for ending, kind in ((_LATE, LATE), (_ERRORS, ERRORS)):
            if name.endswith(ending):
                return kind, name.removesuffix(ending), f"{top}/{rest[0]}"
        return RESULTS, name, f"{top}/{rest[0]}"
    return OTHER, "", ""


def _plain(folder: str) -> str:
    """The name of a part, whose folder says since which version it has been the same."""
    return folder.partition("@")[0]
