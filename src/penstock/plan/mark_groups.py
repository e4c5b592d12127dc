"""An input whose policy says `by=` gets a box behind it that keeps a mark for each group; who can use these, does.

```
 input ──────> where ──> map ──> aggregate        input ──> groups ──> where ──> map ──────> aggregate, each group
                                                              │                                 ▲      by its own mark
                                                              └─ marks ─────────> map ──────────┘
```

An Aggregate that groups by at least the same attributes takes the marks as a second input, on the way of `mark_paths`.
All others have the smallest mark, as if there were no groups. A connection point keeps the marks that reach it; who
reads it has them from there, and needs no box that makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.algebra.box import Box, Output, Port, Stateful
from penstock.algebra.source import Source
from penstock.boxes.group_marks.box import GroupMarks
from penstock.boxes.union.box import Union
from penstock.plan.mark_paths import Carriers, Path, path_to
from penstock.plan.plan import Plan


def mark_groups(plan: Plan) -> Plan:
    if not any(_groups(source) or source.group_marks for source in plan.network.sources):
        return plan
    kept: dict[str, Path] = {}
    boxes: list[Box] = []
    made: dict[str, Port] = {}
    carriers = Carriers({box.name for box in plan.network.boxes})
    for box in plan.network.boxes:
        new = replace(box, inputs=tuple(made[port.name] for port in box.inputs)) if box.inputs else box
        if isinstance(new, Stateful):
            new = _paced(new, carriers)
        elif isinstance(new, Output):
            new = _keeping(new, carriers, kept)
        elif isinstance(new, Source):
            new = _with_kept(new, kept)
        boxes += [*carriers.boxes, new]
        carriers.boxes.clear()
        made.update({Port(box, i).name: Port(new, i) for i in range(len(box.ports))})
        if isinstance(box, Source) and _groups(box):
            marks = _marks(box)
            both = Union(f"{box.name}!late", (Port(box, Source.LATE), Port(marks, GroupMarks.LATE)))
            wanted = plan.network.consumers(Port(box, Source.LATE))
            boxes += [marks, both] if wanted else [marks]
            made[box.name], made[Port(box, Source.LATE).name] = Port(marks), Port(both)
    return replace(plan, network=replace(plan.network, boxes=tuple(boxes)))


def _groups(source: Source) -> tuple[str, ...]:
    return source.policy.groups


def _marks(source: Source) -> GroupMarks:
    policy = source.policy
    delay = policy.bound(source.on_type) or 0
    name = f"{source.name}.groups"
    return GroupMarks(name, (Port(source),), source.on, _groups(source), delay, source.name, source.late)


def _paced(box: Stateful, carriers: Carriers) -> Stateful:
    """The box, with the marks of its groups as another input if they reach it."""
    use = box.pace_use
    path = None if use is None else path_to(box.inputs[0], use.on, use.groups)
    return box if use is None or path is None else use.paced(path.lay(carriers, box.name), path.groups)


def _keeping(output: Output, carriers: Carriers, kept: dict[str, Path]) -> Output:
    """The output, with marks of groups as another input if they reach it and its target keeps them."""
    (port,), on = output.inputs, next(iter(output.inputs[0].progressing), None)
    if on is None or not output.target.keeps_groups:
        return output
    path = path_to(port, on, [name for name in port.schema.names if name != on])
    if path is None:
        return output
    kept[output.name] = path
    inputs = (port, path.lay(carriers, output.name))
    return replace(output, inputs=inputs, target=output.target.keeping_groups(on, path.groups))


def _with_kept(source: Source, kept: Mapping[str, Path]) -> Source:
    """The past of an arc, with the marks of groups that its connection point keeps."""
    path = kept.get(source.connector.past_of or "")
    return source if path is None or path.on != source.on else replace(source, group_marks=path.groups)


def lost(box: Stateful) -> str | None:
    """For a box that the marks of groups do not reach, or that cannot use them: what it has instead."""
    if box.paced:
        return None
    marks = next((found for port in box.inputs if (found := _above(port)) is not None), None)
    if marks is None:
        return None
    groups = ", ".join(marks.groups)
    return (
        f"the smallest of all marks of {groups} counts here: each group's own is for an aggregate by {groups}, behind "
        f"filters, dedupe, unions, inner joins on {groups}, and maps that keep {groups} and {marks.on}"
    )


def _above(port: Port) -> GroupMarks | None:
    """The marks of groups that a port's stream comes from, with nothing in between that would hold tuples back."""
    if isinstance(port.box, GroupMarks):
        return port.box if port.index == 0 else None
    if isinstance(port.box, Stateful) and not port.box.passes_at_once:
        return None
    return next((found for upstream in port.box.inputs if (found := _above(upstream)) is not None), None)
