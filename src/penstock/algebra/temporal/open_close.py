"""Opens and closes: another form of a temporal stream, as rows (lmerge.md III-A, example 3).

```
 open(p, Vs)     kind "open"    at = Vs     an event begins, and has no end yet
 close(p, Ve)    kind "close"   at = Ve     the event ends; a second close moves its end, NULL takes it back
```

There is one event of a payload at a time. A close is about the latest event of its payload that does not start after
it, and removes it if it starts just then. `sync` is the first moment that a row changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from penstock.algebra.temporal.elements import KIND, SYNC

AT: Final = "at"
OPEN: Final = "open"
CLOSE: Final = "close"
OPEN_CLOSE_COLUMNS: Final = (SYNC, KIND, AT)
"""The columns that are not payload, in their order before it."""


def open_close_schema(payload: Iterable[pa.Field], time: pa.DataType) -> pa.Schema:
    """The schema of opens and closes with a payload, and times of a type.

    >>> open_close_schema([pa.field("p", pa.string())], pa.int64()).names
    ['sync', 'kind', 'at', 'p']
    """
    return pa.schema([pa.field(SYNC, time), pa.field(KIND, pa.string()), pa.field(AT, time), *payload])
