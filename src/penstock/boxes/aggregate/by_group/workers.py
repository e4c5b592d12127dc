"""Aggregate whose windows open or close group by group (aurora.md 5.2.2.2, 5.2.2).

Keeps, of every group that has open windows, partial aggregates by pane (by exact value where windows can start
anywhere), and held values and whole tuples where outputs need them; windows that a predicate has opened; windows that
have timed out, until they would have closed. Of all groups that were ever met it keeps the `slack` + 1 largest values
of the order attribute (`assuming`), the count of tuples (tuple numbers) or the first value (`origin="first"`): that
state grows with the number of groups. A window's results leave once, and take with them what no other window needs;
at the end of the input everything does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.hidden import SEQ, carried
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END, to_ticks
from penstock.boxes.aggregate.by_group.box import GroupwiseAggregate, Periodic
from penstock.boxes.aggregate.by_group.group_progress import VALUE
from penstock.boxes.aggregate.by_group.group_state import GroupState
from penstock.boxes.aggregate.by_group.round import Round
from penstock.operators.arrival_order import in_arrival_order
from penstock.operators.groups import coded_alike, coded_texts
from penstock.operators.protocol import Departures, Holder, Slots

TUPLES = "tuples"


class GroupwiseEntry:
    """Sends the tuples themselves: who is late, or which number a tuple has, only their group as a whole can tell."""

    def __init__(self, box: GroupwiseAggregate, needed: Sequence[frozenset[str]]) -> None:
        self._columns = [
            [name for name in port.schema.names if name in required]
            for port, required in zip(box.inputs, box.required(needed), strict=True)
        ]
        self._coded = tuple(name for name in box.by if name in box.coded)
        self._gathered: tuple[list[pa.Table], ...] = tuple([] for _ in box.inputs)

    def process(self, slot: int, tuples: pa.Table) -> None:
        self._gathered[slot].append(tuples.select([*self._columns[slot], *carried(tuples)]))

    def flush(self) -> Iterator[tuple[str, pa.Table]]:
        for part, gathered in zip((TUPLES, GroupwiseAggregate.MARKS), self._gathered, strict=False):
            if gathered:
                yield part, pa.concat_tables(coded_alike(gathered, self._coded if part == TUPLES else ()))
                gathered.clear()


class GroupwiseOp(Holder):
    """Judges the tuples of a batch in order of arrival; then closes what is complete, or what time has run out for."""

    def __init__(self, box: GroupwiseAggregate, slots: Slots, needed: Sequence[frozenset[str]]) -> None:
        self._box = box
        self._slots = slots
        self._state = GroupState(slots, box.keys(0))
        self._ordered = SEQ in box.required(needed)[0]
        self._numbered = tuple(name for name in box.by if name in box.coded)
        self._arrived: list[pa.Table] = []
        self._said: list[pa.Table] = []
        self.released = 0

    def receive(self, part: str, tuples: pa.Table) -> None:
        (self._arrived if part == TUPLES else self._said).append(tuples)

    def punctuate(self, marks: Sequence[Marks], now: int) -> Departures:
        tuples, said = self._gathered(), self._heard()
        ended, mark, before = marks[0].ended, marks[0].of(self._box.on), self._slots.get_mark()
        mark = max(mark, before)
        due = self._due(tuples, said, mark, now, ended=ended)
        if due:
            found = Round(self._box, self._state, due, tuples, said, before)
            yield from self._round(found, tuples, mark, now, ended)
        if ended:
            self._state.clear()
        elif due:
            self._state.save()
        if mark > before:
            self._slots.set_mark(mark)

    def _round(self, found: Round, tuples: pa.Table | None, mark: int, now: int, ended: bool) -> Departures:
        """Time runs out before tuples come; what they complete leaves, and what the clock says of them."""
        expired = None if self._box.timeout is None else now - self._box.timeout
        if expired is not None:
            found.time_out(expired)
        if tuples is not None:
            ticks, aside = found.admit(tuples)
            found.reach(mark, ended=ended)
            found.take(tuples, ticks, ~aside)
            if aside.any():
                yield self._box.LATE, self._late(tuples.filter(pa.array(aside)))
        found.reach(mark, ended=ended)
        found.close()
        if expired is not None:
            found.time_out(expired)
        yield from ((0, table) for table in found.closed)
        self.released += found.purge(ended=ended)
        found.save()

    def output_marks(self, marks: Sequence[Marks]) -> Marks | None:
        box, ledger = self._box, self._state.ledger
        if not box.progressing(0):
            return None
        if marks[0].ended:
            return Marks({box.on: END})
        held = min((account.start for account in ledger.accounts.values()), default=END)
        return Marks({box.on: min(held, self._lowest_to_come(marks[0].of(box.on)))})

    def _lowest_to_come(self, mark: int) -> int:
        """The smallest start of a window of tuples that have not come yet."""
        box, windows = self._box, self._box.windows
        reached = max(self._state.ledger.reached if box.alone else BEGINNING, BEGINNING if box.numbered else mark)
        if box.numbered:
            reached = max(reached, 1)
        if not isinstance(windows, Periodic):
            return reached
        if box.numbered:
            # Windows that began before are held, or have timed out.
            advance = windows.window.advance
            return 1 + -(-(reached - 1) // advance) * advance
        if not windows.from_first:
            return windows.window.output_mark(reached)
        lowest, origin = box.lowest_open(reached), self._state.ledger.origin
        if origin is None or lowest in (BEGINNING, END):
            # The first value is still to come; in groups, a group may have begun anywhere.
            return lowest if box.by else reached
        advance = windows.window.advance
        return max(origin, origin - (origin - lowest) // advance * advance)

    def wake(self) -> int | None:
        if self._box.timeout is None:
            return None
        first = min((account.opened for account in self._state.ledger.accounts.values()), default=END)
        return None if first == END else first + self._box.timeout + 1

    def needs(self, marks: Sequence[Marks]) -> Sequence[tuple[int, str, int]]:
        if not self._box.by_mark:
            return ()
        due = min((account.due for account in self._state.ledger.accounts.values()), default=END)
        return () if due == END else ((0, self._box.on, due),)

    def open_windows(self, marks: Sequence[Marks]) -> int:
        return sum(account.windows for account in self._state.ledger.accounts.values())

    def _gathered(self) -> pa.Table | None:
        tables, self._arrived = self._arrived, []
        if not any(table.num_rows for table in tables):
            return None
        alike = [coded_texts(table, self._numbered) for table in tables]
        return in_arrival_order(alike) if self._ordered else pa.concat_tables(alike)

    def _heard(self) -> pa.Table | None:
        """What is said of groups: their columns, and `VALUE`."""
        said, self._said = [table for table in self._said if table.num_rows], []
        if not said:
            return None
        whole = pa.concat_tables(said)
        # A mark that an expression has no value for says nothing.
        whole = whole.filter(pc.is_valid(whole.column(self._box.on)))
        return whole.select(list(self._box.paced)).append_column(VALUE, to_ticks(whole.column(self._box.on)))

    def _due(self, tuples: pa.Table | None, said: pa.Table | None, mark: int, now: int, *, ended: bool) -> list[int]:
        """The slots that tuples or marks come to, or in which something waits for the mark or the clock to pass."""
        accounts = self._state.ledger.accounts
        if ended:
            due = {slot for slot in self._slots.numbers() if slot != BEGINNING}
        else:
            wake = self._box.timeout
            due = {
                slot
                for slot, account in accounts.items()
                if (self._box.by_mark and account.due <= mark) or (wake is not None and account.opened < now - wake)
            }
        for table in (tuples, said):
            due.update(self._state.slots_met(table) if table is not None else ())
        return sorted(due)

    def _late(self, tuples: pa.Table) -> pa.Table:
        names = [name for name in self._box.schema(self._box.LATE).names if name in tuples.column_names]
        return tuples.select([*names, *carried(tuples)])
