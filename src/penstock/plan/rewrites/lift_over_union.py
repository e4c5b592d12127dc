"""A filter behind a union goes into each of the streams that are united.

```
 before   a ──┐                              after   a ──> where ──┐
              ├──> union ──> where ──>                             ├──> union ──>
          b ──┘                                      b ──> where ──┘
```

The union gains nothing by that. But in each stream the filter can go further to the front.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.boxes.union.box import Union
from penstock.plan.rewrites.draft import Draft
from penstock.plan.rewrites.safety import never_fails


def lift_over_union(draft: Draft, name: str) -> bool:
    later = draft.filter(name)
    if later is None:
        return False
    union = later.inputs[0].node
    if not isinstance(union.box, Union) or draft.only_reader(union) is None or not never_fails(later.box):
        return False
    for slot, port in enumerate(union.box.inputs):
        box = replace(later.box, name=draft.fresh_name(f"{later.name}.{slot + 1}"), inputs=(port,))
        draft.put_before(union, slot, box, later.account, later.copy_of)
    draft.take_out(later)
    return True
