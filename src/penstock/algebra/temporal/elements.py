"""Elements: what a temporal stream consists of, as rows (lmerge.md III-C, example 5).

```
 insert(p, Vs, Ve)          kind "insert"   vs   ve            sync = vs
 adjust(p, Vs, Vold, Ve)    kind "adjust"   vs   ve   vold     sync = the smaller of vold and ve
 stable(Vc)                 punctuation: the low-water mark of `sync` is Vc
```

An event <p, Vs, Ve> is valid from Vs until before Ve. An end that is NULL is infinity: the event has no end yet. An
adjust whose Ve is Vs removes the event. The payload p is all other columns.

After stable(Vc) no insert has a Vs below Vc, and no adjust a Vold or Ve below it: that is, no element has a `sync`
below it. So stable points are low-water marks of an ordinary attribute, and go wherever these go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

KIND: Final = "kind"
VS: Final = "vs"
VE: Final = "ve"
VOLD: Final = "vold"
SYNC: Final = "sync"
COLUMNS: Final = (SYNC, KIND, VS, VE, VOLD)
"""The columns that are not payload, in their order before it."""
INSERT: Final = "insert"
ADJUST: Final = "adjust"


def element_schema(payload: Iterable[pa.Field], time: pa.DataType) -> pa.Schema:
    """The schema of elements with a payload, and lifetimes of a type.

    >>> element_schema([pa.field("p", pa.string())], pa.int64()).names
    ['sync', 'kind', 'vs', 've', 'vold', 'p']
    """
    times = dict.fromkeys(COLUMNS, time) | {KIND: pa.string()}
    return pa.schema([*(pa.field(name, times[name]) for name in COLUMNS), *payload])


def payload_names(names: Iterable[str]) -> list[str]:
    """The columns of the payload among those of elements.

    >>> payload_names(["sync", "kind", "vs", "ve", "vold", "p"])
    ['p']
    """
    return [name for name in names if name not in COLUMNS]
