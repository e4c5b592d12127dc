"""The Legal box: which elements of a temporal input fit the events that there are (lmerge.md III-C, example 5).

```
 insert(A, 6, 20)   adjust(A, 6, 20, 30)   adjust(A, 6, 20, 25)   stable(31)
 passes             passes                 refused: there is no <A, 6, 20> any more
 held: <A, 6, 20>   <A, 6, 30>             <A, 6, 30>             nothing: <A, 6, 30> is fully frozen
```

A plan puts it behind a temporal input, unless those who read the input find illegal elements themselves. Elements that
are illegal leave for the error stream of the input. All others pass as they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.algebra.error_records import REJECT_SCHEMA
from penstock.algebra.hidden import SEQ
from penstock.algebra.marks import Marks, only_end
from penstock.algebra.temporal.elements import payload_names
from penstock.algebra.temporal.properties import Properties
from penstock.boxes.by_payload import JudgesInput

if TYPE_CHECKING:
    from penstock.operators.protocol import Entry, Holder, Slots


@dataclass(frozen=True)
class Legal(JudgesInput):
    """Passes elements that insert events, or adjust events that exist."""

    unique: bool = False
    """Whether no two events at a time may have the same start and payload."""

    kind: ClassVar[str] = "legal"
    takes_temporal: ClassVar[bool] = True

    @property
    def payload(self) -> tuple[str, ...]:
        return tuple(payload_names(self.inputs[0].schema.names))

    def schema(self, port: int) -> pa.Schema:
        return REJECT_SCHEMA if port == self.ERRORS else self.inputs[0].schema

    @property
    def promised(self) -> Properties:
        return self.inputs[0].properties

    def progress(self, port: int, inputs: Sequence[Marks]) -> Marks:
        return only_end(inputs) if port == self.ERRORS else inputs[0]

    def required(self, port_columns: Sequence[frozenset[str]]) -> tuple[frozenset[str], ...]:
        # Events are told apart by all of their payload, and what is refused leaves whole.
        return (frozenset(self.inputs[0].schema.names) | {SEQ},)

    def entry(self, needed: Sequence[frozenset[str]]) -> Entry:
        from penstock.operators.forward import ForwardOp

        return ForwardOp(self, needed)

    def holder(self, slots: Slots, needed: Sequence[frozenset[str]]) -> Holder:
        from penstock.boxes.legal.workers import LegalOp

        return LegalOp(self, slots, needed)

    def describe(self) -> str:
        once = ", each once" if self.unique else ""
        return f"events of {', '.join(self.payload) or 'no payload'}{once}; refuses what adjusts no event"
