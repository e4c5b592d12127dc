"""Filters side by side become one box, which calls the kernel for each, but gathers tuples only once.

```
 before   ──> one ──> two ──> three ──>
 after    ──> one, then two, then three ──>
```

The box has the name of the last of them, so the stream behind it is still called the same.
"""

from __future__ import annotations

from penstock.boxes.filter.box import Filter
from penstock.boxes.filter.combined import CombinedFilter
from penstock.plan.rewrites.draft import Draft, is_where
from penstock.plan.rewrites.safety import never_fails


def combine_filters(draft: Draft, name: str) -> bool:
    last = draft.filter(name)
    if last is None or not never_fails(last.box):
        return False
    run = [last]
    while is_where((above := run[0].inputs[0].node).box) and draft.only_reader(above) and never_fails(above.box):
        run.insert(0, above)
    if len(run) == 1:
        return False
    parts = tuple((n.account, p) for n in run if isinstance(n.box, Filter) for p in n.box.predicates)
    for node in run[:-1]:
        draft.take_out(node)
    last.box = CombinedFilter(last.name, run[0].box.inputs, parts)
    return True
