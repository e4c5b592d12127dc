"""Join (aurora.md 5.2.2.3, oop.md 5.3): pairs of tuples that are near each other in time, in any order of arrival.

A tuple that arrives meets what is held of the other side and what arrives with it. It is held only while a partner can
still come, and the low-water mark of the other side alone decides on that. Pairs leave at once; tuples that an outer or
an anti join preserves leave when punctuation shows that they stay alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.algebra.floors import Floors
from penstock.algebra.hidden import ARRIVED
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import from_ticks
from penstock.boxes.join.box import ONE_SIDED, SEGMENT, Join
from penstock.boxes.join.entry import columns_of
from penstock.boxes.join.held_side import Held, HeldSide
from penstock.boxes.join.matching import Matcher
from penstock.operators.arrays import Mask, ticks_of
from penstock.operators.protocol import Departures, Holder, Slots


@dataclass(frozen=True)
class Party:
    """Tuples of one side on their way to meet the other: out of slots, and fresh ones behind them."""

    held: list[Held]
    fresh: pa.Table

    def tuples(self) -> pa.Table:
        return pa.concat_tables([*(h.tuples for h in self.held), self.fresh])


class JoinOp(Holder):
    """Receives tuples, by the name of their side."""

    def __init__(self, box: Join, slots: Slots, needed: Sequence[frozenset[str]]) -> None:
        self._box = box
        self._matcher = Matcher(box)
        self.sides = HeldSide(box, 0, slots), HeldSide(box, 1, slots)
        """What is held of each input."""
        self._schemas = [_sent(box, side, columns) for side, columns in enumerate(columns_of(box, needed))]
        self._columns = [column for column in box.columns if column[0] in needed[0]]
        self._added = box.added if box.added is not None and box.added.name in needed[0] else None
        self._arrived: tuple[list[pa.Table], list[pa.Table]] = ([], [])
        self.released = 0

    def receive(self, part: str, tuples: pa.Table) -> None:
        side = self._box.slot_of(part)
        # The order of hidden columns depends on where they were added.
        columns = [tuples.column(name) for name in self._schemas[side].names]
        self._arrived[side].append(pa.table(columns, schema=self._schemas[side]))

    def purge(self, floors: Sequence[Floors]) -> int:
        by_side = zip(self.sides, self._box.on, floors, strict=True)
        return sum(held.forget(floor[on]) for held, on, floor in by_side if on in floor)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        # In one piece, so that all that follows finds times and keys without copying them again.
        fresh = [
            pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()
            for schema, tables in zip(self._schemas, self._arrived, strict=True)
        ]
        self._arrived = ([], [])
        met = [np.zeros(tuples.num_rows, bool) for tuples in fresh]
        # Fresh left tuples meet all right ones, held and fresh; held left ones meet the fresh right ones.
        all_right = Party(self._reached_by(0, fresh[0]), fresh[1])
        for tuples in self._meet((Party([], fresh[0]), all_right), met):
            yield 0, tuples
        held_left = Party(self._reached_by(1, fresh[1]), fresh[0].slice(0, 0))
        for tuples in self._meet((held_left, Party([], fresh[1])), met):
            yield 0, tuples
        for side, held in enumerate(self.sides):
            # Each side is purged by the other side's mark alone.
            mark = marks[1 - side].of(self._box.on[1 - side])
            for gone in (*held.purge(mark), held.store(fresh[side], met[side], mark)):
                self.released += gone.released
                if gone.alone is not None and gone.alone.num_rows:
                    yield 0, self._alone(side, gone.alone)

    def needs(self, marks: Sequence[Marks]) -> Sequence[tuple[int, str, int]]:
        # Pairs leave at once; only tuples that may have to leave alone wait, for the other side.
        ticks = [(1 - side, held.next_alone()) for side, held in enumerate(self.sides)]
        return [(other, self._box.on[other], tick) for other, tick in ticks if tick is not None]

    def _reached_by(self, side: int, tuples: pa.Table) -> list[Held]:
        """What is held of the other side and can meet fresh tuples."""
        if not tuples.num_rows:
            return []
        ticks = ticks_of(tuples, self._box.on[side])
        return self.sides[1 - side].reaching(int(ticks.min()), int(ticks.max()))

    def _meet(self, parties: tuple[Party, Party], met: list[Mask]) -> Iterator[pa.Table]:
        """What leaves because two parties meet. It is noted who has met a partner, of fresh tuples in `met`."""
        left, right = (party.tuples() for party in parties)
        if not left.num_rows or not right.num_rows:
            return
        found = np.zeros(left.num_rows, bool), np.zeros(right.num_rows, bool)
        yield from (self._partnered if self._box.how in ONE_SIDED else self._pairs)(left, right, found)
        for side, party in enumerate(parties):
            at = 0
            for held in party.held:
                rows = held.tuples.num_rows
                self.released += self.sides[side].remember(held, found[side][at : at + rows])
                at += rows
            if party.fresh.num_rows:
                met[side] |= found[side][at:]

    def _pairs(self, left: pa.Table, right: pa.Table, found: tuple[Mask, Mask]) -> Iterator[pa.Table]:
        shown = [self._shown(side, tuples) for side, tuples in enumerate((left, right))]
        times = [ticks_of(tuples, self._box.on[side]) for side, tuples in enumerate((left, right))]
        arrived = [tuples.column(ARRIVED).to_numpy() for tuples in (left, right)]
        for rows in self._matcher.pairs(left, right):
            for side in self._box.preserved:
                found[side][rows[side]] = True
            numbers = [pa.array(r) for r in rows]
            columns = [shown[side].column(column).take(numbers[side]) for _, side, column in self._columns]
            earliest = np.minimum(arrived[0][rows[0]], arrived[1][rows[1]])
            if self._added is not None:
                either = np.minimum if self._box.stated == "min" else np.maximum
                columns.append(from_ticks(pa.array(either(times[0][rows[0]], times[1][rows[1]])), self._added.type))
            yield self._results(columns, pa.array(earliest))

    def _partnered(self, left: pa.Table, right: pa.Table, found: tuple[Mask, Mask]) -> Iterator[pa.Table]:
        """The left tuples of a semi join that have met a partner now; those of an anti join are noted only."""
        for rows in self._matcher.met(left, right):
            found[0][rows] = True
            if self._box.how == "semi":
                took = left.take(pa.array(rows))
                yield self._results([took.column(c) for _, _, c in self._columns], took.column(ARRIVED))

    def _alone(self, side: int, tuples: pa.Table) -> pa.Table:
        """Tuples that have found no partner, with NULLs in its place."""
        sides = self._box.pairing.left, self._box.pairing.right
        columns = [
            tuples.column(column) if s == side else pa.nulls(tuples.num_rows, sides[s].field(column).type)
            for _, s, column in self._columns
        ]
        if self._added is not None:
            columns.append(from_ticks(pa.array(ticks_of(tuples, self._box.on[side])), self._added.type))
        return self._results(columns, tuples.column(ARRIVED))

    def _results(self, columns: list[pa.Array | pa.ChunkedArray], arrived: pa.Array | pa.ChunkedArray) -> pa.Table:
        added = [self._added.name] if self._added is not None else []
        return pa.table([*columns, arrived], names=[*(name for name, _, _ in self._columns), *added, ARRIVED])

    def _shown(self, side: int, tuples: pa.Table) -> pa.Table:
        """The columns of a side that pairs have, in one piece: rows are taken from it at random."""
        return tuples.select([c for _, s, c in self._columns if s == side]).combine_chunks()


def _sent(box: Join, side: int, columns: list[str]) -> pa.Schema:
    """What arrives of a side."""
    fields = [(box.pairing.left, box.pairing.right)[side].field(name) for name in columns]
    hidden = [SEGMENT, ARRIVED] if box.home is not None else [ARRIVED]
    return pa.schema([*fields, *(pa.field(name, pa.int64()) for name in hidden)])
