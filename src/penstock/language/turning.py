"""Windows on an attribute that decreases: the attribute is turned round, aggregated as any other, and turned back.

```
 ttl           9 8 7 6 5 4 3 2 1 0        windows of 5:  [5, 10)          [0, 5)
 -1 - ttl    -10 . . . .-5 . . . .-1                    [-10, -5)        [-5, 0)
```

The windows of `-1 - A` that start at multiples of the advance are those of A, if the size is a multiple of it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.algebra.aggregation import Outputs
from penstock.algebra.hidden import fallen
from penstock.algebra.ticks import Duration, duration_ticks
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def decreases(stream: Stream, attribute: str | None) -> str | None:
    """The attribute, if it is one that decreases; without a name, the only one, if nothing else progresses."""
    down = fallen(stream._port.box.marked(stream._port.index))
    if attribute is None:
        return down[0] if len(down) == 1 and not stream.progressing else None
    return attribute if attribute in down else None


def aggregate_down(
    stream: Stream, outputs: Outputs, attribute: str, size: Duration, advance: Duration | None, **options: Any
) -> Stream:
    """Aggregate over windows of an attribute that decreases."""
    length = duration_ticks(size, pa.int64())
    step = length if advance is None else duration_ticks(advance, pa.int64())
    if step > 0 and length % step:
        raise QueryError(
            f"windows on '{attribute}', which decreases, must be as long as several advances",
            found=f"size {size}, advance {advance}",
        )
    turned = attribute
    while turned in stream.schema.names:
        turned += "_turned"
    kept = {name: f'"{name}"' for name in stream.schema.names}
    round_ = stream.map(**kept, **{turned: f'-1 - "{attribute}"'})
    results = round_.aggregate(outputs, on=turned, size=size, advance=advance, **options)
    back = {name: f'"{name}"' for name in results.schema.names if name != turned}
    return results.map(**{attribute: f'-{length} - "{turned}"'}, **back)
