"""A filter changes places with the filter in front of it.

```
 before   ──> dear ──> cheap ──>
 after    ──> cheap ──> dear ──>
```

Neither may fail: afterwards each sees tuples that the other one has kept from it before, or no longer does.
"""

from __future__ import annotations

from penstock.plan.rewrites.draft import Draft, is_where
from penstock.plan.rewrites.safety import never_fails


def swap_filters(draft: Draft, name: str) -> bool:
    later = draft.filter(name)
    if later is None:
        return False
    earlier = later.inputs[0].node
    if not is_where(earlier.box) or draft.only_reader(earlier) is None:
        return False
    if not (never_fails(earlier.box) and never_fails(later.box)):
        return False
    draft.move_before(later, earlier)
    return True
