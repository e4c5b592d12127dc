"""Maps side by side become one box, which computes what the last one does from what the first one takes.

```
 before   ──> map(ts="ts", kb="len / 1000") ──> map(ts="ts", large="kb > 5") ──>
 after    ──> map(ts="ts", large="len / 1000 > 5") ──>
```

The kernel is called once, and what lies in between is never made. Neither may fail. What the second one uses several
times, and the first one has computed, would be computed several times: such maps stay as they are. So do those that
both compute the time, as marks are carried through an expression at a time.

The box has the name of the last of them, so the stream behind it is still called the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from penstock.algebra.expressions.composition import composable, composed
from penstock.algebra.expressions.expression import Expression
from penstock.boxes.map.box import Map
from penstock.boxes.map.combined import CombinedMap
from penstock.plan.rewrites.draft import Draft, Node
from penstock.plan.rewrites.safety import never_fails


def combine_maps(draft: Draft, name: str) -> bool:
    last = draft.node(name)
    if last is None or not isinstance(last.box, Map) or last.box.several:
        return False
    run, box = [last], last.box
    while (found := _over(draft, run[0], box)) is not None:
        above, box = found
        run.insert(0, above)
    if len(run) == 1:
        return False
    for node in run[:-1]:
        draft.take_out(node)
    parts = tuple(node.account for node in run)
    last.box = CombinedMap(last.name, box.inputs, box.outputs, parts=parts)
    return True


def _over(draft: Draft, node: Node, box: Map) -> tuple[Node, Map] | None:
    """The map in front of a map, and both as one; None if that is none, or is not to be done."""
    above = node.inputs[0].node
    if not isinstance(above.box, Map) or above.box.several or draft.only_reader(above) is None:
        return None
    if not (never_fails(above.box) and never_fails(box)):
        return None
    first = dict(above.box.outputs)
    if not all(first[used].column is not None or composable(first[used].type) for used in _used(box)):
        return None
    if any(times > 1 for used, times in _used(box).items() if first[used].column is None):
        return None
    both = Map(box.name, above.box.inputs, tuple((name, composed(e, first)) for name, e in box.outputs))
    return (above, both) if _told_apart(both) and _same_progress(above.box, box, both) else None


def _used(box: Map) -> Counter[str]:
    """In how many of its outputs a map uses each attribute."""
    return Counter(column for _, expression in box.outputs for column in expression.columns)


def _told_apart(box: Map) -> bool:
    """Whether the kernel, for which `a` and `A` are one name, can tell all columns apart that an output uses."""
    used = [expression.columns for _, expression in box.outputs]
    return all(len({column.casefold() for column in columns}) == len(columns) for columns in used)


def _same_progress(first: Map, second: Map, both: Map) -> bool:
    """Whether one map makes the same progress as two: each time is passed on as it is by one of them at least."""
    if first.turned or second.turned or both.turned or both.risky:
        return False
    before = {name: attribute for name, attribute, _ in first.carried}
    known: Mapping[str, Expression] = dict(first.outputs)
    there = {(name, before[attribute]) for name, attribute, _ in second.carried if attribute in before}
    if {(name, attribute) for name, attribute, _ in both.carried} != there:
        return False
    computed = {name for name, expression in second.outputs if expression.column is None}
    return not any(name in computed and known[attribute].column is None for name, attribute, _ in second.carried)
