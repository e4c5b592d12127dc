"""A filter goes in front of the map that it stands behind, if it looks only at what the map passes on as it is.

```
 before   ──> map(ts="ts", user="name", size="length(body)") ──> where(user = 'a') ──>
 after    ──> where(name = 'a') ──> map(...) ──>
```

The map then computes less. Neither may fail, and the map may refuse nothing.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.algebra.expressions.binding import renamed
from penstock.boxes.filter.box import Filter
from penstock.boxes.map.box import Map
from penstock.plan.rewrites.draft import Draft
from penstock.plan.rewrites.safety import never_fails


def lift_over_map(draft: Draft, name: str) -> bool:
    later = draft.filter(name)
    if later is None:
        return False
    earlier = later.inputs[0].node
    if not isinstance(earlier.box, Map) or draft.only_reader(earlier) is None:
        return False
    if not (never_fails(earlier.box) and never_fails(later.box)):
        return False
    moved = filter_before(earlier.box, later.box) if isinstance(later.box, Filter) else None
    if moved is None:
        return False
    later.box = moved
    draft.move_before(later, earlier)
    return True


def filter_before(box: Map, where: Filter) -> Filter | None:
    """A filter behind a map, as it says the same in front of it; None if it looks at what the map computes."""
    names = {name: e.column for name, e in box.outputs if e.column is not None}
    if not all(column in names for predicate in where.predicates for column in predicate.columns):
        return None
    return replace(where, inputs=box.inputs, predicates=tuple(renamed(p, names) for p in where.predicates))
