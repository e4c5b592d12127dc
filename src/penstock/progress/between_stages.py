"""How far a stage has come, as its buckets tell the next one: rolled up, and taken together where all have spoken.

```
 bucket 0:  ts 17 ──rolled up to steps of 10──> ts 10 ──┐
 bucket 1:  ts 31 ─────────────────────────────> ts 30 ──┴──the smallest──> ts 10
```

Joint marks of boxes are not told: each stage derives them itself from the marks of the join's inputs. Those that an
input states are told as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.algebra.marks import Marks, least
from penstock.algebra.ticks import BEGINNING, END


def rolled_up(marks: Marks, step: int, *, jointly: bool = False) -> Marks:
    """Marks in steps that are of use to whoever is behind, so that nothing is said that changes nothing there.

    >>> rolled_up(Marks({"ts": 17}), 10)
    Marks(rising={'ts': 10}, falling={}, joint=({}, {}), ended=False)
    """
    rolled = marks.alone.each(lambda tick: tick if tick in (BEGINNING, END) else tick // step * step)
    return rolled.with_joint(marks.joint) if jointly else rolled


def heard(shape: Marks, told: Sequence[Marks], buckets: int, *, jointly: bool = False) -> Marks:
    """The marks of a port of an earlier stage, from what its buckets have told; unknown before all of them spoke."""
    known = shape if jointly else shape.alone
    return least(told).shaped(known) if len(told) >= buckets else known
