"""GroupMarks: one low-water mark per group of an input, and the smallest of them for the stream (oop.md A.1.1).

Keeps the mark of every group that was ever met, in every bucket: only who knows all groups knows the smallest. So where
tuples are, the largest value of each group is found, and told to all buckets; the tuples go to that of their group.

A tuple is late if it is below what was stated of its group before its batch: the group's own mark, or the stream's,
which a new group must not take back. A group of which nothing but late tuples has come does not count as met, so that
a clock that is slow holds nobody back but itself.

Late tuples leave whole. Of tuples that are surely not late, only the columns may come that those behind it need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.hidden import ARRIVED, carried
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END, bounds, from_ticks, tick_text, to_ticks
from penstock.boxes.group_marks.box import GroupMarks
from penstock.errors import InternalError, WorldError
from penstock.operators.arrays import Mask, Numbers, shifted
from penstock.operators.groups import coded_alike, decoded_texts, group_slots, number, parted
from penstock.operators.protocol import Departures, Holder, Slots
from penstock.operators.state.ledger import Ledger

TUPLES = "tuples"
WHOLE = "whole"
"""Tuples with the columns that late ones leave with, where these are more."""
MARKS = "marks"
VALUE = "#value"


class GroupMarksEntry:
    """Sends tuples, and the largest value of every group among them."""

    def __init__(self, box: GroupMarks, needed: Sequence[frozenset[str]]) -> None:
        self._box = box
        (required,) = box.required(needed)
        self._whole = [name for name in box.schema(0).names if name in required]
        self._passed = [name for name in self._whole if name in box.passed(needed[0])]
        self._gathered: dict[str, list[pa.Table]] = {TUPLES: [], WHOLE: []}

    def process(self, slot: int, tuples: pa.Table) -> None:
        whole = len(self._whole) > len(self._passed) and set(self._whole).issubset(tuples.column_names)
        part, columns = (WHOLE, self._whole) if whole else (TUPLES, self._passed)
        self._gathered[part].append(tuples.select([*columns, *carried(tuples)]))

    def flush(self) -> Iterator[tuple[str, pa.Table]]:
        gathered = {part: _together(tables, self._box.groups) for part, tables in self._gathered.items() if tables}
        self._gathered = {TUPLES: [], WHOLE: []}
        yield from gathered.items()
        if gathered:
            names = [*self._box.groups, self._box.on]
            yield GroupMarks.LARGEST, self._largest(_together([t.select(names) for t in gathered.values()], names))

    def _largest(self, tuples: pa.Table) -> pa.Table:
        groups = list(self._box.groups)
        keys = ", ".join(quote(name) for name in groups)
        valued = tuples.select(groups).append_column(VALUE, to_ticks(tuples.column(self._box.on)))
        if any(pa.types.is_dictionary(kind) for kind in valued.schema.types):
            # Codes are looked up in an array, and what is left is a row for each group.
            known, (numbers,) = number([valued], groups)
            largest = np.full(known.count, BEGINNING, np.int64)
            np.maximum.at(largest, numbers, valued.column(VALUE).to_numpy())
            valued = decoded_texts(known.keys, self._box.schema(0)).append_column(VALUE, pa.array(largest))
        query = f"SELECT {keys}, max({quote(VALUE)}) AS {quote(VALUE)} FROM tuples GROUP BY {keys} ORDER BY {keys}"
        # The kernel has types of its own for some columns.
        return kernel.run(query, tuples=valued).cast(valued.schema)


@dataclass
class Stated:
    """What is noted of the marks."""

    stated: int = BEGINNING
    """The mark of the stream."""
    least: dict[int, int] = field(default_factory=dict)
    """The smallest mark in each slot of groups."""

    @staticmethod
    def load(slots: Slots) -> Stated:
        known = Ledger(slots).read()
        return Stated() if known is None else Stated(known["stated"], {int(s): m for s, m in known["least"].items()})

    def save(self, slots: Slots) -> None:
        Ledger(slots).write(asdict(self))


class GroupMarksOp(Holder):
    """Judges by what was stated before the batch, so the order inside of it does not matter."""

    def __init__(self, box: GroupMarks, slots: Slots, needed: Sequence[frozenset[str]]) -> None:
        self._box = box
        self._slots = slots
        self._asked = bool(needed[GroupMarks.MARKS])
        """Whether anybody takes the marks of groups."""
        (required,) = box.required(needed)
        self._passed, self._whole = box.passed(needed[0]), required
        self._ledger = Stated.load(slots)
        self._arrived: dict[str, list[pa.Table]] = {TUPLES: [], WHOLE: [], GroupMarks.LARGEST: []}
        self.released = 0

    def receive(self, part: str, tuples: pa.Table) -> None:
        self._arrived[part].append(tuples)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        ledger, stated = self._ledger, marks[0].of(self._box.on)
        if self._arrived[GroupMarks.LARGEST]:
            yield from self._take(now)
        stands = max(ledger.stated, stated, min(ledger.least.values(), default=BEGINNING))
        if marks[0].ended:
            for slot in self._slots.numbers():
                self._slots.drop(slot)
            self._ledger = Stated(END)
        elif stands > ledger.stated or self._arrived[GroupMarks.LARGEST]:
            ledger.stated = stands
            ledger.save(self._slots)
        self._arrived = {part: [] for part in self._arrived}

    def output_marks(self, marks: Sequence[Marks]) -> Marks:
        stated = self._box.progress(0, marks)
        return stated.with_rising({self._box.on: max(stated.of(self._box.on), self._ledger.stated)})

    def behind(self) -> str | None:
        if not self._ledger.least:
            return None
        slot, mark = min(self._ledger.least.items(), key=lambda item: (item[1], item[0]))
        groups = pa.concat_tables(self._slots.chunks(slot, MARKS))
        row = groups.take(pa.array(np.flatnonzero(groups.column(VALUE).to_numpy() == mark)[:1])).to_pylist()[0]
        named = ", ".join(f"{name} = {row[name]!r}" for name in self._box.groups)
        return f"{named} is furthest behind, at {tick_text(mark, self._box.on_type)}"

    def _take(self, now: int) -> Departures:
        box, by = self._box, list(self._box.groups)
        largest = pa.concat_tables(self._arrived[GroupMarks.LARGEST]).select([*by, VALUE])
        touched = np.unique(group_slots(largest, by)).tolist()
        chunks = [chunk for slot in touched for chunk in self._slots.chunks(slot, MARKS)]
        stored = pa.concat_tables([largest.schema.empty_table(), *chunks])
        tuples = {part: _together(self._arrived[part], by) for part in (TUPLES, WHOLE) if self._arrived[part]}
        groups, (known, fresh, *own) = number([stored, largest, *tuples.values()], by)
        before = np.full(groups.count, BEGINNING, np.int64)
        before[known] = stored.column(VALUE).to_numpy()
        bound = np.maximum(before, self._ledger.stated)
        values = np.full(groups.count, BEGINNING, np.int64)
        np.maximum.at(values, fresh, largest.column(VALUE).to_numpy())
        after = np.where(values >= bound, np.maximum(before, shifted(values, -box.delay)), before)
        met = (before > BEGINNING) | ((values >= bound) & (values > BEGINNING))
        self._keep(groups.keys.append_column(VALUE, pa.array(after)).filter(pa.array(met)), touched)
        moved = np.zeros(groups.count, bool)
        for (part, arrived), numbers in zip(tuples.items(), own, strict=True):
            yield from self._judged(part, arrived, bound[numbers])
            moved[numbers] = True
        yield from self._moved(groups.keys, after, moved & (after > bound), now)

    def _judged(self, part: str, tuples: pa.Table, bound: Numbers) -> Departures:
        ticks = to_ticks(tuples.column(self._box.on)).to_numpy()
        late: Mask = ticks < bound
        self.released += tuples.num_rows
        names = [name for name in self._box.schema(0).names if name in self._passed and name in tuples.column_names]
        passing = tuples.select([*names, *carried(tuples)]) if part == WHOLE else tuples
        if not late.any():
            yield 0, passing
            return
        if self._box.late == "error":
            self._refuse(ticks[late], bound[late])
        if part == TUPLES and self._passed < self._whole:
            raise InternalError("a tuple is late that was read without all its columns", box=self._box.source)
        yield 0, passing.filter(pa.array(~late))
        yield GroupMarks.LATE, decoded_texts(tuples.filter(pa.array(late)), self._box.schema(0))

    def _refuse(self, ticks: Numbers, bound: Numbers) -> None:
        number, first, kind = len(ticks), int(np.argmin(ticks)), self._box.on_type
        raise WorldError(
            f"{number} late tuple{'s' if number > 1 else ''}, and the input was declared with late='error'",
            box=self._box.source,
            expected=f"{self._box.on} >= {tick_text(int(bound[first]), kind)} in its group ({self._box.describe()})",
            found=f"{self._box.on} = {tick_text(int(ticks[first]), kind)}",
            hint="declare a weaker progress policy, or late='route' to have late tuples set aside",
        )

    def _moved(self, keys: pa.Table, marks: Numbers, moved: Mask, now: int) -> Departures:
        """The marks of this bucket's groups that have moved."""
        if not self._asked or not moved.any():
            return
        # A narrow attribute cannot say a mark below its smallest value: it would say nothing anyway.
        values = from_ticks(pa.array(np.clip(marks[moved], *bounds(self._box.on_type))), self._box.on_type)
        rows = keys.filter(pa.array(moved)).append_column(self._box.on, values)
        yield GroupMarks.MARKS, rows.append_column(ARRIVED, pa.repeat(pa.scalar(now, pa.int64()), rows.num_rows))

    def _keep(self, marks: pa.Table, touched: Sequence[int]) -> None:
        for slot, own in parted(marks, group_slots(marks, self._box.groups)):
            self._slots.replace(slot, MARKS, own)
            self._ledger.least[slot] = int(own.column(VALUE).to_numpy().min())


def _together(tables: Sequence[pa.Table], groups: Sequence[str]) -> pa.Table:
    return pa.concat_tables(coded_alike(tables, groups))
