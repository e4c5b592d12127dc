"""What a filter behind a join or an aggregate would drop anyway is dropped in front of it, too.

```
 before   ──> join ─────────────> where ──>         ──> aggregate by k ─────────────────> where(k = 1) ──>
 after    ──> where ──> join ──> where ──>          ──> where(k = 1) ──> aggregate by k ──> where(k = 1) ──>
```

The filter itself stays where it is: what the box holds may have come before the one in front was there, or after it was
taken away again. So the two can come and go at any batch, whatever the box holds. Behind an inner join the filter must
look at one side only, behind an aggregate at its groups. On the way between them nothing may fail.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from penstock.algebra.box import Box
from penstock.algebra.expressions.binding import renamed
from penstock.boxes.aggregate.box import Aggregate
from penstock.boxes.filter.box import Filter
from penstock.boxes.join.box import Join
from penstock.boxes.map.box import Map
from penstock.plan.rewrites.draft import Draft, Node, is_where
from penstock.plan.rewrites.lift_over_map import filter_before
from penstock.plan.rewrites.safety import never_fails


def filter_in_advance(draft: Draft, name: str) -> bool:
    later = draft.filter(name)
    if later is None or not isinstance(later.box, Filter) or not never_fails(later.box):
        return False
    if any(node.copy_of == later.name for node in draft.nodes):
        return False
    found = _holder_above(draft, later, later.box)
    if found is None:
        return False
    holder, slot, where = found
    box = replace(where, name=draft.fresh_name(f"{later.name}.ahead"))
    draft.put_before(holder, slot, box, box.name, later.name)
    return True


def _holder_above(draft: Draft, node: Node, where: Filter) -> tuple[Node, int, Filter] | None:
    """The box with state that a filter stands behind, the input that it is about, and the filter as it says that."""
    above = node.inputs[0].node
    if draft.only_reader(above) is None or not never_fails(above.box):
        return None
    if is_where(above.box):
        return _holder_above(draft, above, where)
    if isinstance(above.box, Map):
        before = filter_before(above.box, where)
        return None if before is None else _holder_above(draft, above, before)
    found = _side(above.box, where)
    return None if found is None else (above, *found)


def _side(box: Box, where: Filter) -> tuple[int, Filter] | None:
    used = {column for predicate in where.predicates for column in predicate.columns}
    if not used:
        return None
    if type(box) is Aggregate and not box.two_level:
        # Floating numbers that are equal, and so one group, may differ in what a filter says of them.
        exact = not any(pa.types.is_floating(box.inputs[0].schema.field(name).type) for name in used & {*box.by})
        return (0, replace(where, inputs=box.inputs)) if exact and used <= {*box.by} else None
    if isinstance(box, Join) and box.how == "inner":
        known = {name: (side, column) for name, side, column in box.columns}
        sides = {known[name][0] if name in known else None for name in used}
        if len(sides) == 1 and (side := sides.pop()) is not None:
            names = {name: known[name][1] for name in used}
            moved = replace(where, predicates=tuple(renamed(p, names) for p in where.predicates))
            return side, replace(moved, inputs=(box.inputs[side],))
    return None
