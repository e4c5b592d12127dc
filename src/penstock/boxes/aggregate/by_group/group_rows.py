"""The rows that windows of groups are computed from: partial aggregates, held values and whole tuples.

Partial aggregates are rows by group and tick, and always merged. Held values and whole tuples can be many, so those of
earlier batches are only read when a window closes or something is let go of; otherwise fresh ones are added to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.aggregation import Held
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.hidden import ARRIVED
from penstock.algebra.order import TUPLE_NUMBER
from penstock.boxes.aggregate.by_group.box import GroupwiseAggregate
from penstock.boxes.aggregate.by_group.group_state import GroupState
from penstock.boxes.aggregate.closing import PARTIAL, TICK, WHOLE
from penstock.operators.arrays import Mask, Numbers
from penstock.operators.groups import Groups
from penstock.operators.sketches.rows import merging, sketched

GROUP = "#group"

Aligned = Callable[[Numbers, Numbers], Numbers]
"""From groups and ticks to ticks that stand for all that lie in the same windows."""


@dataclass(frozen=True)
class Rows:
    """Rows of a part, with `TICK`, and the group of each."""

    table: pa.Table
    groups: Numbers

    @property
    def ticks(self) -> Numbers:
        ticks: Numbers = self.table.column(TICK).to_numpy()
        return ticks

    def only(self, chosen: Mask) -> Rows:
        return self if chosen.all() else Rows(self.table.filter(pa.array(chosen)), self.groups[chosen])

    def plus(self, other: Rows) -> Rows:
        tables = [self.table, other.table.select(self.table.column_names)]
        return Rows(pa.concat_tables(tables), np.append(self.groups, other.groups))

    def keyed(self, groups: Groups) -> pa.Table:
        """As they are kept: with the columns of their groups."""
        return keyed_table(self.table, groups, self.groups)


def keyed_table(table: pa.Table, groups: Groups, numbers: Numbers) -> pa.Table:
    """A table with the columns of the groups of its rows."""
    for place, (name, column) in enumerate(groups.columns(numbers)):
        table = table.add_column(place, name, column)
    return table


class GroupRows:
    """The rows of the slots that are due in one batch."""

    def __init__(
        self, box: GroupwiseAggregate, state: GroupState, due: Sequence[int], groups: Groups, stored: pa.Table | None
    ) -> None:
        self._box, self._state, self._due, self._groups = box, state, due, groups
        self._aggregation = box.aggregation
        self.partial = self._unkeyed(stored) if stored is not None else None
        self._fresh: dict[str, Rows] = {}
        self._loaded: dict[str, Rows] | None = None

    def add(self, tuples: pa.Table, groups: Numbers, ticks: Numbers, aligned: Aligned) -> None:
        """Tuples become rows."""
        box, aggregation = self._box, self._aggregation
        if box.numbered:
            tuples = tuples.append_column(TUPLE_NUMBER, pa.array(ticks))
        panes = tuples.select([c for c in tuples.column_names if c in aggregation.columns or c == ARRIVED])
        panes = panes.append_column(GROUP, pa.array(groups)).append_column(TICK, pa.array(aligned(groups, ticks)))
        keys = f"{quote(GROUP)}, {quote(TICK)}"
        found = _ungrouped(kernel.run(_grouped(aggregation.counted), tuples=panes))
        if self.partial is None:
            self.partial = found
        else:
            self.partial = self._merged(self.partial.plus(found), aligned)
        for held in aggregation.held:
            values = "".join(f", {sql} AS {quote(name)}" for name, sql in held.values)
            where = f" WHERE {held.where}" if held.where else ""
            query = f"SELECT {'DISTINCT ' if held.distinct else ''}{keys}{values} FROM tuples{where}"
            kept = kernel.run(query, tuples=panes)
            kept = kept if held.sketch is None else sketched(kept, (GROUP, TICK), held)
            self._hold(held.name, _ungrouped(kept))
        if aggregation.called:
            columns = [c for c in aggregation.whole if c not in box.by and c != box.on]
            self._hold(WHOLE, Rows(tuples.select(columns).append_column(TICK, pa.array(ticks)), groups))

    def _merged(self, rows: Rows, aligned: Aligned) -> Rows:
        """Partial aggregates, those that lie in the same windows made one."""
        table = rows.table.drop_columns([TICK]).append_column(TICK, pa.array(aligned(rows.groups, rows.ticks)))
        table = table.append_column(GROUP, pa.array(rows.groups))
        return _ungrouped(kernel.run(_grouped(self._aggregation.counted_merges), tuples=table))

    def load(self) -> dict[str, Rows]:
        """Held values and whole tuples, those of earlier batches first."""
        if self._loaded is None:
            names = [h.name for h in self._aggregation.held] + ([WHOLE] if self._aggregation.called else [])
            self._loaded = {
                h.name: Rows(pa.schema([pa.field(TICK, pa.int64()), *h.schema]).empty_table(), np.zeros(0, np.int64))
                for h in self._aggregation.held
            }
            fresh, self._fresh = self._fresh, {}
            for part in names:
                if (stored := self._state.read(part, self._due)) is not None:
                    self._hold(part, self._unkeyed(stored))
                if part in fresh:
                    self._hold(part, fresh[part])
        return self._loaded

    def keep(self, needed: Callable[[Rows], Mask]) -> int:
        """Let go of the rows that are not needed; how many tuples these were."""
        if self.partial is None:
            return 0
        chosen = needed(self.partial)
        if chosen.all():
            return 0
        counts = self.partial.table.column(self._box.tuple_count).filter(pa.array(~chosen))
        self.partial = self.partial.only(chosen)
        self._loaded = {part: rows.only(needed(rows)) for part, rows in self.load().items()}
        return int(pc.sum(counts).as_py() or 0)

    def save(self) -> None:
        if self.partial is not None:
            self._state.put(PARTIAL, self.partial.keyed(self._groups), self._due)
        fewer = {held.name: held for held in self._aggregation.held if held.distinct or held.sketch is not None}
        if fewer.keys() & self._fresh.keys():
            self.load()
        for part, rows in (self._loaded or {}).items():
            kept = _fewer(rows, fewer[part]) if part in fewer else rows
            self._state.put(part, kept.keyed(self._groups), self._due)
        for part, rows in self._fresh.items():
            self._state.add(part, rows.keyed(self._groups))

    def _hold(self, part: str, rows: Rows) -> None:
        known = self._fresh if self._loaded is None else self._loaded
        known[part] = known[part].plus(rows) if part in known else rows

    def _unkeyed(self, stored: pa.Table) -> Rows:
        return Rows(stored.drop_columns(list(self._box.by)), self._groups.numbers(stored))


def _grouped(aggregates: Sequence[tuple[str, str]]) -> str:
    """SQL of rows by group and tick."""
    keys = f"{quote(GROUP)}, {quote(TICK)}"
    selected = (*aggregates, (ARRIVED, f"min({quote(ARRIVED)})"))
    return f"SELECT {keys}{''.join(f', {sql} AS {quote(name)}' for name, sql in selected)} FROM tuples GROUP BY {keys}"


def _fewer(rows: Rows, held: Held) -> Rows:
    """Every value once, or one sketch for each group and tick."""
    table = rows.table.append_column(GROUP, pa.array(rows.groups))
    if held.sketch is not None:
        return _ungrouped(merging(held, (GROUP, TICK))(table))
    return _ungrouped(kernel.run("SELECT DISTINCT * FROM tuples", tuples=table))


def _ungrouped(table: pa.Table) -> Rows:
    return Rows(table.drop_columns([GROUP]), table.column(GROUP).to_numpy())
