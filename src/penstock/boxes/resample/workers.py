"""Resample (aurora.md 5.2.2.4): aggregates over the tuples of one stream that lie around those of another.

Keeps left tuples until the low-water mark of the right stream has passed the end of their windows, and right tuples
while a left tuple that waits, or one that may still come, needs them. A result leaves once, when its window is
complete: by the low-water mark, or, with an order specification, by the frontier of its group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.floors import Floors
from penstock.algebra.hidden import ARRIVED, SEQ, carried
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END, unfit
from penstock.boxes.resample.box import LEFT, Resample
from penstock.boxes.resample.frontier import Frontiers, FrontierStore, at_place, group_keys, unknown
from penstock.boxes.resample.neighbours import Windows, earlier, horizon, later, reach
from penstock.boxes.resample.ranges import over_ranges
from penstock.operators.arrays import Mask, Numbers
from penstock.operators.arrival_order import in_arrival_order
from penstock.operators.protocol import Departures, Holder, Slots
from penstock.operators.state.segments import SIDES, Segments

RESULTS = 1 << 20
"""Results that are made at once, about: there can be as many as left tuples times groups."""

Span = tuple[int, int]
"""The first and the last tick of a stretch of time."""


class ResampleEntryOp:
    """Sends the columns that are needed, by side."""

    def __init__(self, box: Resample, needed: Sequence[frozenset[str]]) -> None:
        self._box = box
        self._schemas = sent(box, needed)
        self._gathered: dict[str, list[pa.Table]] = {}

    def process(self, slot: int, tuples: pa.Table) -> None:
        names = [n for n in self._schemas[slot].names if n != ARRIVED or n in carried(tuples)]
        self._gathered.setdefault(self._box.PARTS[slot], []).append(tuples.select(names))

    def flush(self) -> Iterator[tuple[str, pa.Table]]:
        gathered, self._gathered = self._gathered, {}
        for part in sorted(gathered):
            yield part, pa.concat_tables(gathered[part])


def sent(box: Resample, needed: Sequence[frozenset[str]]) -> list[pa.Schema]:
    """What arrives at the stage, of either side."""
    hidden = [pa.field(name, pa.int64()) for name in ((ARRIVED,) if box.assuming is None else (SEQ, ARRIVED))]
    return [
        pa.schema([*(field for field in port.schema if field.name in some), *hidden])
        for port, some in zip(box.inputs, box.required(needed), strict=True)
    ]


@dataclass(frozen=True)
class Around:
    """Right tuples, sorted by group and time."""

    tuples: pa.Table
    ticks: Numbers
    numbers: Numbers
    """The number of each tuple's group."""
    groups: pa.Table
    places: Numbers
    """The place of each group among the frontiers."""


@dataclass(frozen=True)
class Made:
    """Results, and what they are sorted by: `SEQ` if they have it, then time, then group."""

    results: pa.Table
    ticks: Numbers
    numbers: Numbers


class ResampleOp(Holder):
    """State: segments of left and of right tuples, and the largest values of groups where an order is assumed."""

    def __init__(self, box: Resample, slots: Slots, needed: Sequence[frozenset[str]]) -> None:
        self._box = box
        self._slots = slots
        self._size = min(box.size, END)
        self._left, self._right = (Segments(slots, i, box.PARTS[i], box.on[i]) for i in (0, 1))
        self._order = (
            FrontierStore(slots, box.assuming.slack, lambda i: i * SIDES + 2) if box.assuming is not None else None
        )
        self._schemas = sent(box, needed)
        self._kept = (
            list(dict.fromkeys((box.on[0], *box.left_columns, ARRIVED))),
            list(dict.fromkeys((box.on[1], *box.by, *box.right_columns, ARRIVED))),
        )
        self._late = [name for name in box.inputs[1].schema.names if name in frozenset().union(*needed[1:])]
        self._arrived: tuple[list[pa.Table], list[pa.Table]] = ([], [])
        self.released = 0
        """Tuples let go of; left ones are counted where they go to one bucket only."""

    def receive(self, part: str, tuples: pa.Table) -> None:
        side = self._box.slot_of(part)
        schema = self._schemas[side]
        # Where hidden columns stand, and which columns say that they have no NULLs, depends on where trains come from.
        self._arrived[side].append(pa.table([tuples.column(name) for name in schema.names], schema=schema))

    def purge(self, floors: Sequence[Floors]) -> int:
        both = zip((self._left, self._right), self._box.on, floors, strict=True)
        left, right = (held.forget(floor[on]) if on in floor else 0 for held, on, floor in both)
        return right if self._box.by else left + right

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        box, before = self._box, self._slots.get_mark()
        left_mark, mark = marks[0].of(box.on[0]), box.right_mark(marks[1])
        arrived, self._arrived = self._arrived, ([], [])
        fresh, right = (pa.concat_tables([s.empty_table(), *t]) for s, t in zip(self._schemas, arrived, strict=True))
        fresh = self._dated(fresh, 0)
        if self._order is None:
            right, frontiers = self._dated(right, 1), unknown(group_keys(right.slice(0, 0), box.by).schema)
        else:
            right, late, frontiers = self._judged(self._order, right, mark)
            if late.num_rows:
                yield box.LATE, late
        right = right.select(self._kept[1])
        results, touched = self._complete(fresh, right, frontiers, mark)
        yield from ((0, table) for table in results)
        self._keep_left(fresh.select(self._kept[0]), mark)
        self._keep_right(right, (before, left_mark), touched, frontiers, mark)
        self._slots.set_mark(max(before, left_mark))

    def needs(self, marks: Sequence[Marks]) -> Sequence[tuple[int, str, int]]:
        least = self._left.least()
        if least is None or not marks[1].has(self._box.on[1]):
            return []
        return [(1, self._box.on[1], min(least + self._size, END - 1) + 1)]

    def _dated(self, tuples: pa.Table, side: int) -> pa.Table:
        """Without those that have no time: they are near nothing."""
        column = tuples.column(self._box.on[side])
        self._release(side, column.null_count)
        return tuples.filter(pc.is_valid(column)) if column.null_count else tuples

    def _judged(self, order: FrontierStore, right: pa.Table, mark: int) -> tuple[pa.Table, pa.Table, Frontiers]:
        """Right tuples that are in order, those that are not, and how the frontiers have moved."""
        right = in_arrival_order([right])
        useless = unfit(right.column(self._box.on[1]))
        aside = np.zeros(right.num_rows, bool) if useless is None else useless.to_numpy().copy()
        dated = right.filter(pa.array(~aside))
        seq = dated.column(SEQ).to_numpy()
        frontiers, aside[~aside] = order.arrive(group_keys(dated, self._box.by), self._right.ticks(dated), seq, mark)
        late = right.filter(pa.array(aside))
        self._release(1, late.num_rows)
        return right.filter(pa.array(~aside)), late.select([*self._late, SEQ, ARRIVED]), frontiers

    def _complete(
        self, fresh: pa.Table, right: pa.Table, frontiers: Frontiers, mark: int
    ) -> tuple[list[pa.Table], Span | None]:
        """The results whose windows are complete now, and the time they stretch over."""
        top = max(mark, int(frontiers.after.max(initial=BEGINNING)))
        old = self._left.read(BEGINNING, self._last_ended(top))
        held = pa.concat_tables([*old, fresh.select(self._kept[0]).slice(0, 0)])
        lefts = [self._ending(left, top) for left in (held, fresh)]
        times = np.concatenate([self._left.ticks(left) for left in lefts])
        if not len(times):
            return [], None
        touched = int(times.min()) - self._size, int(times.max()) + self._size
        around = self._around(right, touched, frontiers)
        until = np.maximum(at_place(frontiers.after, around.places), mark)
        # What was here before has left already where a frontier had passed it.
        since = at_place(frontiers.before, around.places), np.full(len(until), BEGINNING)
        made = []
        for left, known in zip(lefts, since, strict=True):
            found = reach(self._left.ticks(left), around.ticks, around.numbers, self._size, known, until)
            pieces = (found.windows(low, high) for low, high in found.pieces(RESULTS))
            made += [self._make(left, around, windows, frontiers) for windows in pieces if len(windows.left)]
        return [_ordered(made)] if made else [], touched

    def _ending(self, left: pa.Table, top: int) -> pa.Table:
        """The left tuples, sorted by time, whose windows end below `top`."""
        ticks = self._left.ticks(left)
        rows = np.flatnonzero(horizon(ticks, self._size) < top)
        return left.take(pa.array(rows[np.argsort(ticks[rows], kind="stable")])).combine_chunks()

    def _last_ended(self, mark: int) -> int:
        """The last tick whose window a low-water mark completes."""
        return mark if mark == END else mark - self._size - 1

    def _around(self, right: pa.Table, span: Span, frontiers: Frontiers) -> Around:
        tuples = pa.concat_tables([right, *self._right.read(*span)])
        ticks = self._right.ticks(tuples)
        inside = (ticks >= max(span[0], BEGINNING)) & (ticks <= min(span[1], END))
        tuples, ticks = tuples.filter(pa.array(inside)), ticks[inside]
        numbers, groups, places = frontiers.find(group_keys(tuples, self._box.by))
        order = np.lexsort((ticks, numbers))
        return Around(tuples.take(pa.array(order)).combine_chunks(), ticks[order], numbers[order], groups, places)

    def _make(self, left: pa.Table, around: Around, windows: Windows, frontiers: Frontiers) -> Made:
        box, rows = self._box, pa.array(windows.left)
        own = pa.table({LEFT + name: left.column(name).take(rows) for name in box.left_columns})
        made = over_ranges(
            box.aggregation,
            around.tuples.select([*box.right_columns, ARRIVED]),
            windows.first,
            windows.last,
            own if box.left_columns else None,
        )
        numbers = around.numbers[windows.first]
        groups = [around.groups.column(name).take(pa.array(numbers)) for name in box.by]
        outputs = [made.column(name) for name in box.aggregation.output_schema.names]
        arrived = pc.min_element_wise(made.column(ARRIVED), left.column(ARRIVED).take(rows))
        columns = [*groups, left.column(box.on[0]).take(rows), *outputs, arrived]
        results = pa.table(columns, schema=box.schema(0).append(pa.field(ARRIVED, pa.int64())))
        ticks = self._left.ticks(left)[windows.left]
        if self._order is not None:
            moments = frontiers.passed(around.places[numbers], horizon(ticks, self._size))
            if SEQ in left.column_names:
                moments = np.maximum(moments, left.column(SEQ).to_numpy()[windows.left])
            results = results.append_column(SEQ, pa.array(moments))
        return Made(results, ticks, numbers)

    def _keep_left(self, fresh: pa.Table, mark: int) -> None:
        """Left tuples wait until the low-water mark says that no group, not even a new one, can have more for them."""

        def waits(left: pa.Table) -> Mask:
            return horizon(self._left.ticks(left), self._size) >= mark if mark != END else np.zeros(left.num_rows, bool)

        self._release(0, self._left.sift(BEGINNING, self._last_ended(mark), waits))
        kept = fresh.filter(pa.array(waits(fresh)))
        self._release(0, fresh.num_rows - kept.num_rows)
        self._left.add(kept)

    def _keep_right(self, right: pa.Table, moved: Span, touched: Span | None, frontiers: Frontiers, mark: int) -> None:
        """Right tuples are needed while left ones may come that are near them, or while one waits that is."""
        left_mark = max(moved)
        # Around left tuples that may still come.
        coming = END + 1 if left_mark == END else left_mark - self._size

        def needed(tuples: pa.Table) -> Mask:
            ticks = self._right.ticks(tuples)
            keep = ticks >= max(coming, BEGINNING) if coming <= END else np.zeros(len(ticks), bool)
            if not len(past := np.flatnonzero(~keep)):
                return keep
            keep[past] = self._awaited(tuples.take(pa.array(past)), ticks[past], frontiers, mark)
            return keep

        kept = right.filter(pa.array(needed(right)))
        self._release(1, right.num_rows - kept.num_rows)
        # Others need not be looked at: nobody has stopped waiting for them, and they were coming or not before, too.
        for span in (touched, (moved[0] - self._size, coming)):
            if span is not None:
                self._release(1, self._right.sift(span[0], min(span[1], coming - 1), needed))
        self._right.add(kept)

    def _awaited(self, tuples: pa.Table, ticks: Numbers, frontiers: Frontiers, mark: int) -> Mask:
        """Whether a left tuple waits whose window, for their group, holds these right ones."""
        span = int(ticks.min()) - self._size, int(ticks.max()) + self._size
        left = self._left.read(*span)
        if not left:
            return np.zeros(len(ticks), bool)
        waiting = np.sort(np.concatenate([self._left.ticks(chunk) for chunk in left]))
        until = np.maximum(frontiers.of(group_keys(tuples, self._box.by)), mark)
        at = np.searchsorted(waiting, earlier(np.maximum(ticks, until), self._size))
        near = np.append(waiting, END)[at] <= later(ticks, self._size)
        return (at < len(waiting)) & near

    def _release(self, side: int, count: int) -> None:
        if side or not self._box.by:
            self.released += count


def _ordered(made: Sequence[Made]) -> pa.Table:
    results = pa.concat_tables([part.results for part in made]).combine_chunks()
    ticks, numbers = np.concatenate([part.ticks for part in made]), np.concatenate([part.numbers for part in made])
    seq = [results.column(SEQ).to_numpy()] if SEQ in results.column_names else []
    return results.take(pa.array(np.lexsort((numbers, ticks, *seq))))
