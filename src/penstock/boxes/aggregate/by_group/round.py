"""One batch of a GroupwiseAggregate: the groups that it meets, their windows, and what closes.

Rows lie in windows by group and tick. A tick stands for all that lie in the same windows, where these are known: a
pane. Windows opened by a predicate, and those of a group whose first value may still change, can start at any tick, so
there rows stay apart by their exact values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.expression import mask
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.ticks import BEGINNING, END, from_ticks
from penstock.boxes.aggregate.by_group.box import ByCount, ByMark, ByOrder, GroupwiseAggregate, Opening
from penstock.boxes.aggregate.by_group.group_progress import (
    CountProgress,
    GroupProgress,
    MarkedProgress,
    MarkProgress,
    OrderProgress,
    Origins,
)
from penstock.boxes.aggregate.by_group.group_rows import GroupRows, Rows, keyed_table
from penstock.boxes.aggregate.by_group.group_state import Account, GroupState, least
from penstock.boxes.aggregate.by_group.window_starts import OpenedStarts, PeriodicStarts, Starts, limits
from penstock.boxes.aggregate.closing import PARTIAL, TICK, WHOLE, WINDOW, all_rows, close_query, table_name
from penstock.boxes.aggregate.group_windows import NO_WINDOWS, Windows, keyed
from penstock.boxes.aggregate.python_calls import Calls
from penstock.operators.arrays import Mask, Numbers, ranged
from penstock.operators.groups import GROUP_SLOTS, number
from penstock.operators.sketches.rows import estimated

OPENINGS = "openings"
GONE = "gone"
START = "#start"

SPREAD_ROWS = 8_388_608
"""Rows, counted once for every window that they lie in, that are aggregated at once: bounds the memory it takes."""


class Round:
    """The slots that are due in one batch, loaded; `save` writes them back."""

    def __init__(
        self,
        box: GroupwiseAggregate,
        state: GroupState,
        due: Sequence[int],
        tuples: pa.Table | None,
        said: pa.Table | None,
        mark: int,
    ) -> None:
        self._box, self._state, self._due = box, state, due
        nothing = pa.schema([box.inputs[0].schema.field(name) for name in box.by]).empty_table()
        names = (CountProgress.part, Origins.part, OPENINGS, GONE, PARTIAL)
        stored = [state.read(part, due) for part in names]
        tables = [table if table is not None else nothing for table in (*stored, tuples)]
        self._groups, (counted, first, opened, gone, _, self._arriving) = number(tables, box.by)
        self.progress = self._made_progress(stored[0], counted, said, mark)
        from_first = not isinstance(box.windows, Opening) and box.windows.from_first
        self._origins = Origins(self._groups, stored[1], first) if from_first else None
        self._opened = _windows(stored[2], opened)
        self._gone = _windows(stored[3], gone)
        self._rows = GroupRows(box, state, due, self._groups, stored[4])
        self._before = self._limits()
        self.closed: list[pa.Table] = []
        """Results of the windows that have closed."""

    def _made_progress(
        self, counts: pa.Table | None, groups: Numbers, said: pa.Table | None, mark: int
    ) -> GroupProgress:
        match self._box.pace:
            case ByCount():
                return CountProgress(self._groups, counts, groups)
            case ByOrder(order):
                stored = self._state.read(OrderProgress.part, self._due)
                return OrderProgress(self._box, order, self._groups, stored)
            case ByMark(()):
                return MarkProgress(self._box, self._groups, mark)
            case ByMark():
                stored = self._state.read(MarkedProgress.part, self._due)
                return MarkedProgress(self._box, self._groups, stored, said, mark)

    # Tuples come in.

    def admit(self, tuples: pa.Table) -> tuple[Numbers, Mask]:
        """Learn from tuples, in order of arrival: the tick of each, and which of them came too late."""
        windows, groups = self._box.windows, self._arriving
        ticks, aside = self.progress.take(tuples, groups)
        if self._origins is not None:
            aside |= self._origins.take(groups, ticks, ~aside)
        if isinstance(windows, Opening):
            opens = (mask((windows.predicate,), tuples).to_numpy() == 0) & ~aside
            self._opened = self._opened.plus(Windows.of(groups[opens], ticks[opens]).minus(self._gone))
        if len(self._gone):
            aside |= ~aside & self._only_gone(groups, ticks)
        return ticks, aside

    def _only_gone(self, groups: Numbers, ticks: Numbers) -> Mask:
        """Which tuples lie in windows that have timed out, and in no other."""
        first, behind = self._gone.around(groups, ticks, self._box.windows.size)
        # A tuple that comes lies in no window that has closed, so all others are open.
        others = self._starts().count(groups, ticks, np.full(self._groups.count, BEGINNING, np.int64))
        others = others if isinstance(self._box.windows, Opening) else others - (behind - first)
        only: Mask = (behind > first) & (others == 0)
        return only

    def take(self, tuples: pa.Table, ticks: Numbers, taken: Mask) -> None:
        """Make rows of those tuples that were taken, when it is known what their groups have reached."""
        if taken.any():
            whole = taken.all()
            chosen = tuples if whole else tuples.filter(pa.array(taken))
            groups = self._arriving if whole else self._arriving[taken]
            self._rows.add(chosen, groups, ticks if whole else ticks[taken], self._aligned)

    # Windows close.

    def reach(self, mark: int, *, ended: bool) -> None:
        """Learn the low-water mark, and whether anything follows."""
        self.progress.reach(mark)
        if ended and self._box.pace != ByCount(partial=False):
            self.progress.reached[:] = END

    def close(self) -> None:
        """Let the windows go whose groups have reached their ends."""
        rows = self._rows.partial
        if rows is not None:
            self._let_go(self._starts().closed(rows.groups, rows.ticks, self._before, self._limits()).minus(self._gone))

    def time_out(self, before: int) -> None:
        """Let the open windows go whose first tuples arrived before a moment."""
        rows = self._rows.partial
        if rows is None:
            return
        old = rows.only(rows.table.column(ARRIVED).to_numpy() < before)
        found = self._starts().open(old.groups, old.ticks, self._limits()).minus(self._gone)
        self._let_go(found)
        self._gone = self._gone.plus(found)
        self._opened = self._opened.minus(found)
        if self._origins is not None:
            self._origins.fix(found.groups)

    def _let_go(self, windows: Windows) -> None:
        """The results of windows, computed piece by piece."""
        if not len(windows) or self._rows.partial is None:
            return
        parts = {PARTIAL: self._rows.partial, **self._rows.load()}
        whole = parts.pop(WHOLE, None)
        size = self._box.windows.size
        around = {part: windows.around(rows.groups, rows.ticks, size) for part, rows in parts.items()}
        most = max(int((behind - first).sum()) for first, behind in around.values())
        query = close_query(self._box.aggregation, (WINDOW,), all_rows)
        closed = []
        for places in np.array_split(np.arange(len(windows)), min(len(windows), -(-most // SPREAD_ROWS))):
            low, high = int(places[0]), int(places[-1]) + 1
            tables = {}
            for part, (first, behind) in around.items():
                rows, of = ranged(np.maximum(first, low), np.minimum(behind, high))
                spread = parts[part].table.drop_columns([TICK]).take(pa.array(rows))
                tables[table_name(part)] = spread.append_column(WINDOW, pa.array(of))
            for held in self._box.aggregation.sketched:
                own = table_name(held.name)
                tables[own] = estimated(tables[own], (WINDOW,), held)
            closed.append(kernel.run(query, **tables))
        self.closed.append(self._results(windows, pa.concat_tables(closed), whole))

    def _results(self, windows: Windows, closed: pa.Table, whole: Rows | None) -> pa.Table:
        box, keys = self._box, self._groups.columns(windows.groups)
        columns = dict(keys)
        columns |= dict(zip((n for n, _ in box.aggregation.finals), closed.columns[1:-1], strict=True))
        columns |= {ARRIVED: closed.columns[-1], SEQ: pa.array(windows.starts)}
        columns[box.on] = from_ticks(pa.array(windows.starts), box.start_type)
        if whole is not None:
            calls = Calls(windows, keys, box.on, box.start_type, box.on_type)
            kept = whole.keyed(self._groups) if {*box.by}.intersection(box.aggregation.whole) else whole.table
            columns |= calls.results(box.aggregation, kept, whole.groups, box.windows.size)
        schema = pa.schema([*box.schema(0), pa.field(ARRIVED, pa.int64()), pa.field(SEQ, pa.int64())])
        # In order of their starts, as they would have left one by one.
        order = pa.array(np.argsort(windows.starts, kind="stable"))
        return pa.table([columns[name] for name in schema.names], schema=schema).take(order)

    # What stays.

    def purge(self, *, ended: bool) -> int:
        """Let go of what no open window needs; how many tuples these were."""
        limit = self._limits()
        self._gone = self._gone.only(self._gone.starts > limit[self._gone.groups])
        self._opened = self._opened.only(self._opened.starts > limit[self._opened.groups])
        return self._rows.keep(lambda rows: self._needed(rows) & (not ended))

    def save(self) -> None:
        """Write the slots back, and the accounts of what waits in them."""
        self._rows.save()
        for part, windows in ((OPENINGS, self._opened), (GONE, self._gone)):
            table = keyed_table(pa.table({START: windows.starts}), self._groups, windows.groups)
            self._state.put(part, table, self._due)
        for known in (self.progress, self._origins):
            if known is not None and known.part:
                self._state.put(known.part, known.kept(), self._due)
        self._state.write_accounts(self._due, self._accounts())
        if self._box.alone and self._groups.count:
            # Without a group nothing has arrived, and it stays as it was.
            self._state.ledger.reached = int(self.progress.reached[0])
        if self._origins is not None and not self._box.by and self._settled()[0]:
            self._state.ledger.origin = int(self._origins.values[0])

    def _accounts(self) -> dict[int, Account]:
        rows, box, limit = self._rows.partial, self._box, self._limits()
        if rows is None or not rows.table.num_rows:
            return {}
        slot_of = self._state.slots_of(self._groups.keys) if box.keys(0) else np.zeros(self._groups.count, np.int64)
        groups, ticks, starts, slots = rows.groups, rows.ticks, self._starts(), slot_of[rows.groups]
        lowest = starts.lowest(groups, ticks, limit, self._gone)
        waits = lowest < END
        # A row without a window waits for the mark to pass it.
        due = np.where(waits, np.minimum(lowest, END - starts.size) + starts.size, np.minimum(ticks, END - 1) + 1)
        opened = least(rows.table.column(ARRIVED).to_numpy()[waits], slots[waits])
        windows = starts.number(groups, ticks, limit, slots, GROUP_SLOTS)
        if not isinstance(box.windows, Opening) and len(self._gone):
            # Windows that have timed out are counted there, if rows of others lie in them.
            order = np.argsort(keyed((groups, ticks))[0])
            low, high = self._gone.holding(groups[order], ticks[order], starts.size)
            windows -= np.bincount(slot_of[self._gone.groups[high > low]], minlength=GROUP_SLOTS)
        columns = np.stack([least(lowest, slots), least(due, slots), opened, windows])
        return {slot: Account(*columns[:, slot].tolist()) for slot in np.unique(slots).tolist()}

    def _needed(self, rows: Rows) -> Mask:
        """Which rows an open window, or one that may still open, needs."""
        groups, ticks = rows.groups, rows.ticks
        windows = self._starts().count(groups, ticks, self._limits())
        if isinstance(self._box.windows, Opening):
            # A tuple opens no window that starts before what its group has reached.
            return (windows > 0) | (ticks >= self.progress.reached[groups])
        first, behind = self._gone.around(groups, ticks, self._box.windows.size)
        needed = windows > behind - first
        return needed if self._origins is None else needed | ~self._settled()[groups]

    def _settled(self) -> Mask:
        if self._origins is None:
            return np.ones(self._groups.count, bool)
        return self._origins.settled(self.progress.reached)

    def _aligned(self, groups: Numbers, ticks: Numbers) -> Numbers:
        return np.where(self._settled()[groups], self._starts().aligned(groups, ticks), ticks)

    def _starts(self) -> Starts:
        windows, count = self._box.windows, self._groups.count
        if isinstance(windows, Opening):
            return OpenedStarts(windows.size, self._opened)
        if self._origins is not None:
            return PeriodicStarts(windows.window, self._origins.values, bounded=True)
        origins = np.full(count, 1 if self._box.numbered else 0, np.int64)
        return PeriodicStarts(windows.window, origins, bounded=self._box.numbered)

    def _limits(self) -> Numbers:
        return limits(self.progress.reached, self._box.windows.size)


def _windows(stored: pa.Table | None, groups: Numbers) -> Windows:
    return NO_WINDOWS if stored is None else Windows.of(groups, stored.column(START).to_numpy())
