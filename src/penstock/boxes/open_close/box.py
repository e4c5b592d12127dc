"""The OpenClose box: opens and closes as elements of a temporal stream (lmerge.md III-A, example 3).

```
 open(B, 2)               insert(B, 2, infinity)
 close(B, 6)      ──>     adjust(B, 2, infinity, 6)
 close(B, 5)              adjust(B, 2, 6, 5)
```

It stands behind an input of that form. Rows that open what is open, or close what does not exist, leave for the error
stream of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.error_records import REJECT_SCHEMA
from penstock.algebra.hidden import SEQ
from penstock.algebra.marks import Marks, only_end
from penstock.algebra.temporal.elements import SYNC, element_schema
from penstock.algebra.temporal.open_close import AT, OPEN_CLOSE_COLUMNS
from penstock.algebra.temporal.properties import NOTHING, Properties
from penstock.boxes.by_payload import JudgesInput

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots


@dataclass(frozen=True)
class OpenClose(JudgesInput):
    """Every open inserts an event, and every close adjusts one."""

    promised: Properties = NOTHING

    kind: ClassVar[str] = "open_close"

    @property
    def payload(self) -> tuple[str, ...]:
        return tuple(name for name in self.inputs[0].schema.names if name not in OPEN_CLOSE_COLUMNS)

    @property
    def time_type(self) -> pa.DataType:
        return self.inputs[0].schema.field(AT).type

    def schema(self, port: int) -> pa.Schema:
        if port == self.ERRORS:
            return REJECT_SCHEMA
        return element_schema((self.inputs[0].schema.field(name) for name in self.payload), self.time_type)

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        return only_end(inputs) if port == self.ERRORS else Marks({SYNC: inputs[0].of(SYNC)}, ended=inputs[0].ended)

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        return (frozenset(self.inputs[0].schema.names) | {SEQ},)

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.operators.forward import ForwardWhole

        return ForwardWhole(self.inputs[0].schema.names)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.open_close.workers import OpenCloseOp

        return OpenCloseOp(self, slots, needed)

    def describe(self) -> str:
        return "opens and closes as elements"
