"""An input whose policy says `by=` gets a box behind it that keeps a mark for each group; who can use these, does.

```
 input ──────> where ──> map ──> aggregate        input ──> groups ──> where ──> map ──────> aggregate, each group
                                                              │                                 ▲      by its own mark
                                                              └─ marks ─────────> map ──────────┘
```

An Aggregate that groups by at least the same attributes takes the marks as a second input, past the filters that drop
tuples and through the maps that rename their attributes. All others have the smallest mark, as if there were no groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from penstock.algebra.aggregate import Aggregate
from penstock.algebra.box import Box, Filter, Map, Port, Source, Stateful, Union
from penstock.algebra.buffered import BufferedAggregate
from penstock.algebra.expression import Expression
from penstock.algebra.group_marks import GroupMarks
from penstock.algebra.groupwise import GroupwiseAggregate, Periodic
from penstock.algebra.ticks import duration_ticks
from penstock.plan.plan import Plan
from penstock.progress.policy import Delayed


def mark_groups(plan: Plan) -> Plan:
    if not any(_groups(source) for source in plan.network.sources):
        return plan
    boxes: list[Box] = []
    made: dict[str, Port] = {}
    for box in plan.network.boxes:
        new = replace(box, inputs=tuple(made[port.name] for port in box.inputs)) if box.inputs else box
        added = list(_paced(new)) if isinstance(new, Aggregate | GroupwiseAggregate) else [new]
        boxes += added
        made.update({Port(box, i).name: Port(added[-1], i) for i in range(len(box.ports))})
        if isinstance(box, Source) and _groups(box):
            marks = _marks(box)
            both = Union(f"{box.name}!late", (Port(box, Source.LATE), Port(marks, GroupMarks.LATE)))
            wanted = plan.network.consumers(Port(box, Source.LATE))
            boxes += [marks, both] if wanted else [marks]
            made[box.name], made[Port(box, Source.LATE).name] = Port(marks), Port(both)
    return replace(plan, network=replace(plan.network, boxes=tuple(boxes)))


def _groups(source: Source) -> tuple[str, ...]:
    return tuple(getattr(source.policy, "groups", ()))


def _marks(source: Source) -> GroupMarks:
    policy = source.policy
    delay = duration_ticks(policy.by, source.on_type) if isinstance(policy, Delayed) else 0
    name = f"{source.name}.groups"
    return GroupMarks(name, (Port(source),), source.on, _groups(source), delay, source.name, source.late)


@dataclass(frozen=True)
class Path:
    """From the marks of groups to a box, through the maps in between."""

    marks: GroupMarks
    maps: tuple[Map, ...]
    on: tuple[str, ...]
    """What the time is called behind each map."""
    groups: tuple[tuple[str, ...], ...]
    """What each attribute of the groups is called behind each map."""

    def outputs(self, number: int) -> tuple[tuple[str, Expression], ...]:
        """What a map must compute of marks."""
        known = dict(self.maps[number].outputs)
        wanted = dict.fromkeys((*(names[number] for names in self.groups), self.on[number]))
        # A mark need not be the value of any tuple, so an expression may have no value for it.
        return tuple((n, e if (e := known[n]).column else replace(e, sql=f"TRY({e.sql})")) for n in wanted)


def _paced(box: Aggregate | GroupwiseAggregate) -> Iterator[Box]:
    """The box, with the marks of its groups as a second input if they reach it; and what brings them there."""
    path = path_of(box)
    if path is None:
        yield box
        return
    port = Port(path.marks, GroupMarks.MARKS)
    for number in range(len(path.maps)):
        along = Map(f"{box.name}.marks{number + 1 if number else ''}", (port,), path.outputs(number))
        yield along
        port = Port(along)
    inputs = (*box.inputs, port)
    paced = tuple(names[-1] for names in path.groups) if path.maps else path.marks.groups
    if isinstance(box, GroupwiseAggregate):
        yield replace(box, inputs=inputs, paced=paced)
        return
    windows = Periodic(box.window)
    yield GroupwiseAggregate(box.name, inputs, box.aggregation, box.outputs, box.on, windows, box.by, paced=paced)


def path_of(box: Aggregate | GroupwiseAggregate) -> Path | None:
    """How the marks of groups reach a box that can use them, if they do."""
    if isinstance(box, BufferedAggregate):
        return None
    if isinstance(box, GroupwiseAggregate) and (box.numbered or box.assuming is not None):
        return None
    # Backwards: what the columns that count here are called, and will be behind each of the maps passed.
    port = box.inputs[0]
    on: tuple[str, ...] = (box.on,)
    maps: tuple[Map, ...] = ()
    by: dict[str, tuple[str, ...]] = {name: (name,) for name in box.by}
    while not isinstance(port.box, GroupMarks):
        if isinstance(port.box, Map):
            maps = (port.box, *maps)
            on = _before(port.box, on)
            known = dict(port.box.outputs)
            columns = [(known[name].column, names) for name, names in by.items()]
            by = {column: (column, *names) for column, names in reversed(columns) if column is not None}
        elif not isinstance(port.box, Filter):
            return None
        port = port.box.inputs[0]
    marks = port.box
    if port.index or on[:1] != (marks.on,) or not {*marks.groups} <= {*by}:
        return None
    return Path(marks, maps, on[1:], tuple(by[name][1:] for name in marks.groups))


def _before(box: Map, on: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the time, with what it is called before a map in front; nothing where it is lost."""
    return next(((attribute, *on) for name, attribute, _ in box.carried if on[:1] == (name,)), ())


def lost(box: Stateful) -> str | None:
    """For a box that the marks of groups do not reach, or that cannot use them: what it has instead."""
    marks = next((found for port in box.inputs if (found := _above(port)) is not None), None)
    if marks is None or (isinstance(box, GroupwiseAggregate) and box.paced):
        return None
    groups = ", ".join(marks.groups)
    return (
        f"the smallest of all marks of {groups} counts here: only an aggregate by {groups}, behind nothing but filters "
        f"and maps that keep {groups} and {marks.on}, has each group's own"
    )


def _above(port: Port) -> GroupMarks | None:
    """The marks of groups that a port's stream comes from, with no state in between."""
    if isinstance(port.box, GroupMarks):
        return port.box if port.index == 0 else None
    if isinstance(port.box, Stateful):
        return None
    return next((found for upstream in port.box.inputs if (found := _above(upstream)) is not None), None)
