"""What the inputs of an LMerge bring in a batch, as columns; and what is refused of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.error_records import reject_table
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.temporal.elements import ADJUST, INSERT, KIND, SYNC, VE, VOLD, VS
from penstock.algebra.ticks import BEGINNING, END, out_of_range, to_ticks
from penstock.boxes.lmerge.box import LMerge
from penstock.operators.arrays import Mask, Numbers

ABSENT: Final = BEGINNING
"""In the place of an end: there is no such event. Events that were removed are absent, too."""


@dataclass(frozen=True)
class Arrivals:
    """Elements of one input in order of arrival, in ticks; an end that is `END` is infinity."""

    input: int
    tuples: pa.Table
    vs: Numbers
    ve: Numbers
    """`ABSENT` where the element removes its event."""
    vold: Numbers
    """`ABSENT` for an insert: the event that it makes must not be there."""

    @property
    def count(self) -> int:
        return len(self.vs)

    @property
    def inserts(self) -> Mask:
        return np.asarray(self.vold == ABSENT, bool)

    def only(self, keep: Mask) -> Arrivals:
        rows = pa.array(np.flatnonzero(keep))
        return Arrivals(self.input, self.tuples.take(rows), self.vs[keep], self.ve[keep], self.vold[keep])

    def slice(self, start: int) -> Arrivals:
        """What follows the first elements, without copying it."""
        return Arrivals(self.input, self.tuples.slice(start), self.vs[start:], self.ve[start:], self.vold[start:])


class Refusals:
    """Gathers the elements that break a promise."""

    def __init__(self, box: LMerge) -> None:
        self._box = box
        self._tables: list[pa.Table] = []

    def sift(self, arrivals: Arrivals, illegal: Mask, reason: str | pa.Array) -> Arrivals:
        """Put the illegal elements aside; the others."""
        if not illegal.any():
            return arrivals
        aside = arrivals.tuples.filter(pa.array(illegal))
        reasons = pa.repeat(pa.scalar(reason), aside.num_rows) if isinstance(reason, str) else reason
        origin = f"{self._box.name} <- {self._box.inputs[arrivals.input].name}"
        refused = reject_table(aside.select(self._box.schema(0).names), origin, reasons)
        for name in (SEQ, ARRIVED):
            refused = refused.append_column(name, aside.column(name))
        self._tables.append(refused)
        return arrivals.only(~illegal)

    def take(self) -> Iterator[tuple[int, pa.Table]]:
        """What was put aside, for the port of errors."""
        if self._tables:
            yield LMerge.ERRORS, pa.concat_tables(self._tables)
        self._tables = []


def read(box: LMerge, number: int, tuples: pa.Table, refusals: Refusals) -> Arrivals:
    """The elements of an input as columns, without those that no stream can have."""
    if not box.revises:
        vs, rows = _ticks(tuples, box.on), tuples.num_rows
        # Nothing is written to them: one number stands for all.
        return Arrivals(number, tuples, vs, np.broadcast_to(END, rows), np.broadcast_to(ABSENT, rows))
    kinds = tuples.column(KIND)
    insert = _mask(pc.equal(kinds, INSERT))
    known = insert | _mask(pc.equal(kinds, ADJUST))
    begins = ~_mask(tuples.column(VS).is_null())
    vs, ve, vold, sync = (_ticks(tuples, name, END) for name in (VS, VE, VOLD, SYNC))
    reasons: Sequence[tuple[Mask, str]] = (
        (~known, f"it is neither {INSERT} nor {ADJUST}"),
        (~begins, "it does not say when its event begins"),
        (_far(tuples), "one of its times is out of range"),
        (insert & (ve <= vs), "it inserts an event that does not end after it begins"),
        (~insert & (ve < vs), "it ends its event before it begins"),
        (~insert & (vold <= vs), "it adjusts an event that does not end after it begins"),
        (sync != np.where(insert, vs, np.minimum(vold, ve)), f"its {SYNC} is not that of its times"),
    )
    vold = np.where(insert, ABSENT, vold)
    arrivals = Arrivals(number, tuples, vs, np.where(ve == vs, ABSENT, ve), vold)
    illegal = np.logical_or.reduce([mask for mask, _ in reasons])
    if not illegal.any():
        return arrivals
    why = np.select([mask[illegal] for mask, _ in reasons], [text for _, text in reasons], "")
    return refusals.sift(arrivals, illegal, pa.array(why.tolist(), pa.string()))


def _far(tuples: pa.Table) -> Mask:
    """Which elements have a time that no ticks can be added to."""
    far = np.zeros(tuples.num_rows, bool)
    for name in (VS, VE, VOLD):
        # Most often the smallest and the largest are enough to know.
        ticks, kind = _wrapped(tuples, name), tuples.field(name).type
        ends = pa.array(list(pc.min_max(ticks).as_py().values()), pa.int64())
        if pc.any(out_of_range(ends, kind)).as_py():
            far |= _mask(out_of_range(ticks, kind))
    return far


def _wrapped(tuples: pa.Table, name: str) -> pa.ChunkedArray:
    return to_ticks(tuples.column(name), wrap=True)


def _ticks(tuples: pa.Table, name: str, missing: int = BEGINNING) -> Numbers:
    return np.asarray(pc.fill_null(_wrapped(tuples, name), missing).to_numpy(), np.int64)


def _mask(found: pa.ChunkedArray) -> Mask:
    return np.asarray(pc.fill_null(found, False).to_numpy(), bool)
