"""The Seam box: what a connection point holds of an arc, and from where that ends on the arc itself (aurora.md 2.1).

```
                          still being read                      read up to the batch before
 history  ───tuples──> ┌──────┐                        (ended) ┌──────┐
                       │ seam │──> the query                   │ seam │──> the query
 arc      ──(held in ─>└──────┘                   ───tuples──> └──────┘
            the point)
```

While the history is being read, the tuples of the arc pass the seam by: the point holds them, and they are read from
there. The offset of a batch says whether the history has been read to the end of the batch before; then, in this batch
and all that follow, the arc goes on. So no tuple is missed and none comes twice. Progress is the least of both; that
of the arc alone, once the history has ended.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from penstock.boxes.union.box import Union

HISTORY = 0
ARC = 1


@dataclass(frozen=True)
class Seam(Union):
    """The history of an arc, its first input, and the arc, its second."""

    source: str
    """The input of the network that the history comes from."""

    kind: ClassVar[str] = "seam"
    page: ClassVar[str] = "attaching.md"
    keeps_count: ClassVar[bool] = False

    def takes(self, slot: int, read: Collection[str]) -> bool:
        return slot == HISTORY or self.source in read

    def describe(self) -> str:
        return f"{self.inputs[HISTORY].name}, then {self.inputs[ARC].name}"
