"""The way of group marks through a network: which boxes they pass, and the boxes that carry them along.

```
 groups ──> where, dedupe ──> map ──> union, join ──> aggregate
    └─ marks ───────────────> map ──> least marks ──────┘
```

Boxes that let tuples go in the batch in which these come pass marks on, since nothing that leaves them later is of an
earlier time than what arrives later. Maps may rename the columns of the groups, and compute the time by an expression
that never decreases. Where streams come together, each of them can hold a group back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.algebra.box import Box, Port
from penstock.algebra.expressions.expression import Expression
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.mark_ways import Along, Together
from penstock.algebra.source import Source
from penstock.boxes.group_marks.box import GroupMarks
from penstock.boxes.least_marks.box import Branch, LeastMarks, Progress
from penstock.boxes.map.box import Map
from penstock.boxes.seam.box import Seam
from penstock.plan.plan import fresh_name


@dataclass
class Carriers:
    """Boxes that are built to carry marks along; each once, however many boxes take what it gives."""

    taken: set[str]
    """Names of boxes."""
    boxes: list[Box] = field(default_factory=list)
    laid: dict[tuple[str, str, tuple[str, ...]], Port] = field(default_factory=dict)
    """Where marks come out behind boxes that bring streams together: by port, time and groups."""

    def carry(self, name: str, port: Port, outputs: Sequence[tuple[str, Expression]]) -> Port:
        return self._built(Map(fresh_name(name, self.taken), (port,), tuple(outputs)))

    def least(self, at: Path, port: Port, branches: Sequence[tuple[Branch, Port, Port | None]]) -> Port:
        """The smallest marks of groups behind a box, of branches with their streams and their marks of groups."""
        streams = [
            self._built(Progress(fresh_name(f"{port.name}!{number + 1}", self.taken), (stream,)))
            for number, (_, stream, _) in enumerate(branches)
        ]
        inputs = (*streams, *(marks for _, _, marks in branches if marks is not None))
        schema = pa.schema([port.schema.field(name) for name in (*at.groups, at.on)])
        name, parts = fresh_name(f"{port.name}.marks", self.taken), tuple(branch for branch, _, _ in branches)
        return self._built(LeastMarks(name, inputs, at.on, at.groups, schema, parts))

    def seam(self, seam: Seam, ways: Sequence[Port]) -> Port:
        """The marks of groups of a history, and then of its arc."""
        return self._built(Seam(fresh_name(f"{seam.name}.marks", self.taken), tuple(ways), seam.source))

    def _built(self, box: Box) -> Port:
        self.boxes.append(box)
        return Port(box)


@dataclass(frozen=True)
class Path(ABC):
    """How marks of groups come to a port."""

    on: str
    """What the time is called there."""
    groups: tuple[str, ...]
    """What the attributes of the groups are called there."""

    @abstractmethod
    def lay(self, carriers: Carriers, name: str) -> Port:
        """Build what carries them, for a box of this name; where they come out."""


def path_to(port: Port, on: str, by: Collection[str]) -> Path | None:
    """How marks of groups of some of the columns `by` come to a port, of the time `on`; None if they do not."""
    box = port.box
    if isinstance(box, GroupMarks):
        starts = port.index == 0 and box.on == on and {*box.groups} <= {*by}
        return _Start(on, box.groups, Port(box, GroupMarks.MARKS)) if starts else None
    if isinstance(box, Source) and box.group_marks:
        starts = port.index == 0 and box.on == on and {*box.group_marks} <= {*by}
        return _Start(on, box.group_marks, Port(box, Source.MARKS)) if starts else None
    if isinstance(box, Seam):
        return _seamed(box, on, by)
    match box.mark_way(on, by):
        case Along() as way:
            return _along(box, on, way)
        case Together() as way:
            return _together(port, on, way)
    return None


@dataclass(frozen=True)
class _Start(Path):
    marks: Port

    def lay(self, carriers: Carriers, name: str) -> Port:
        return self.marks


@dataclass(frozen=True)
class _Seamed(Path):
    """Behind a seam. What was stated in the past of an arc holds for all that follows, so it counts until the arc
    itself goes on; marks that the arc states meanwhile say nothing of what is still to be read."""

    seam: Seam
    history: Path
    arc: Path

    def lay(self, carriers: Carriers, name: str) -> Port:
        key = (self.seam.name, self.on, self.groups)
        if key not in carriers.laid:
            ways = [path.lay(carriers, self.seam.name) for path in (self.history, self.arc)]
            carriers.laid[key] = carriers.seam(self.seam, ways)
        return carriers.laid[key]


@dataclass(frozen=True)
class _Renamed(Path):
    """Behind a box that computes columns or gives them other names."""

    before: Path
    outputs: tuple[tuple[str, Expression], ...]

    def lay(self, carriers: Carriers, name: str) -> Port:
        port = self.before.lay(carriers, name)
        if all(expression.column == output for output, expression in self.outputs):
            return port
        return carriers.carry(f"{name}.marks", port, self.outputs)


@dataclass(frozen=True)
class _Joined(Path):
    """Behind a box that brings streams together."""

    port: Port
    branches: tuple[tuple[Branch, Path | None], ...]
    parts: bool

    def lay(self, carriers: Carriers, name: str) -> Port:
        key = (self.port.name, self.on, self.groups)
        if key not in carriers.laid:
            carriers.laid[key] = self._laid(carriers)
        return carriers.laid[key]

    def _laid(self, carriers: Carriers) -> Port:
        laid = [None if path is None else path.lay(carriers, self.port.name) for _, path in self.branches]
        first = laid[0]
        same = first is not None and all(port is not None and port.name == first.name for port in laid)
        if first is not None and same and self.parts:
            # One stream, in parts that are put together again.
            return first
        together = zip(self.branches, self.port.box.inputs, laid, strict=True)
        return carriers.least(self, self.port, [(branch, stream, marks) for (branch, _), stream, marks in together])


def _seamed(box: Seam, on: str, by: Collection[str]) -> Path | None:
    history, arc = (path_to(port, on, by) for port in box.inputs)
    if history is None or arc is None or history.groups != arc.groups:
        return None
    return _Seamed(on, arc.groups, box, history, arc)


def _along(box: Box, on: str, way: Along) -> Path | None:
    """The way through a box with one input."""
    found = path_to(box.inputs[0], way.time, way.names)
    if found is None:
        return None
    schema, groups = box.inputs[0].schema, tuple(way.names[name] for name in found.groups)
    before = dict(zip((*groups, on), (*found.groups, found.on), strict=True))
    bare = {n: Expression(c, quote(c), schema.field(c).type, (c,)) for n, c in before.items()}
    known = way.computed
    # A mark need not be the value of any tuple, so an expression may have no value for it.
    made = bare if known is None else {n: e if (e := known[n]).column else _tried(e) for n in bare}
    return _Renamed(on, groups, found, tuple(made.items()))


def _tried(expression: Expression) -> Expression:
    return replace(expression, sql=f"TRY({expression.sql})")


def _together(port: Port, on: str, way: Together) -> Path | None:
    """The way through a box in which streams come together."""
    paths = [
        path_to(stream, own.time, own.names) if own.time in stream.progressing else None
        for stream, own in zip(port.box.inputs, way.streams, strict=True)
    ]
    behind = [
        None if p is None else tuple(s.names[g] for g in p.groups) for p, s in zip(paths, way.streams, strict=True)
    ]
    groups = next((g for g in behind if g is not None), None)
    if groups is None:
        return None
    branches: list[tuple[Branch, Path | None]] = []
    for stream, path, named, own in zip(port.box.inputs, paths, behind, way.streams, strict=True):
        before = {name: column for column, name in own.names.items()}
        if not {*groups} <= {*before}:
            return None
        # Marks of other groups say no more of these than the mark of the stream does.
        speaks = path is not None and named is not None and {*named} == {*groups}
        if path is not None and named is not None and speaks:
            before = dict(zip(named, path.groups, strict=True))
        branch = Branch(stream.name, own.time, tuple(before[name] for name in groups), speaks, own.shift)
        branches.append((branch, path if speaks else None))
    return _Joined(on, groups, port, tuple(branches), way.parts)
