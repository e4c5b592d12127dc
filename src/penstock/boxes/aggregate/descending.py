"""Windows on an attribute that decreases: the attribute is turned round, aggregated as any other, and turned back.

```
 ttl           9 8 7 6 5 4 3 2 1 0        windows of 5:  [5, 10)          [0, 5)
 -1 - ttl    -10 . . . .-5 . . . .-1                    [-10, -5)        [-5, 0)
```

The windows of `-1 - A` that start at multiples of the advance are those of A, if the size is a multiple of it, too.
What is first in a window, or in a group, is what comes first: of an attribute that decreases, the largest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.algebra.expressions.decomposition import Outputs
from penstock.algebra.expressions.python_functions import WindowFunction
from penstock.algebra.ticks import Duration, duration_ticks
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream


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
    results = round_.aggregate(
        _kept(outputs, stream, (attribute, length)), on=turned, size=size, advance=advance, **options
    )
    back = {name: f'"{name}"' for name in results.schema.names if name != turned}
    return results.map(**{attribute: f'-{length} - "{turned}"'}, **back)


def _kept(outputs: Outputs, stream: Stream, down: tuple[str, int]) -> Outputs:
    """The outputs, whose functions in Python are given the tuples as they are and windows as they come out."""
    if isinstance(outputs, WindowFunction):
        return replace(outputs, columns=outputs.columns or tuple(stream.schema.names), down=down)
    functions = {n: _kept(o, stream, down) for n, o in outputs.items() if isinstance(o, WindowFunction)}
    return {**outputs, **functions}  # type: ignore[dict-item]
