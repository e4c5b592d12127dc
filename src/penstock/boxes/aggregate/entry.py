"""The low-level half of Aggregate (oop.md 6, heartbeat.md's LFTA): reduces tuples to partial aggregates per pane.

It runs where the tuples are, before the exchange, so raw tuples never leave the worker that read them. It keeps the
tuples of the running train only, and lets go of all of them at its end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.aggregation import Held
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.ticks import to_ticks
from penstock.boxes.aggregate.box import Aggregate
from penstock.boxes.aggregate.closing import PARTIAL, TICK, TUPLES, WHOLE
from penstock.boxes.aggregate.dense_groups import DenseGroups, Measured, Placed
from penstock.boxes.aggregate.low_level.box import LowLevel
from penstock.boxes.aggregate.sketches.entering import dense_registers, of_own_column, sketches_of
from penstock.boxes.aggregate.value_sets import SetsOfTrain, sets_part
from penstock.operators.groups import group_numbers, repeats

PANE = "#pane"

REDUCE_ROWS = 4_194_304
"""Tuples gathered before they are reduced: one grouping over many tuples beats several followed by a merge."""
REDUCE_BYTES = 256 * 1024 * 1024
"""The same in bytes, so that wide tuples do not take more memory than narrow ones."""
FEW_ROWS = 65_536
"""Fewer tuples, if they come first, do not tell whether a table would be sparse."""
WORTH = 3
"""Tuples of a group, on the average, from which on it pays to reduce them before they are sent to its bucket: what is
left has to be sent and merged, too."""
SAMPLE = 16_384
"""Tuples that are looked at to judge it."""
MOST_ARRIVALS = 16
"""Tuples of a batch that arrived at more different times are grouped by hashing."""


class SubAggregateOp:
    """Gathers trains and turns them into partial aggregates: (part, rows) with the columns pane, keys, values."""

    def __init__(self, box: Aggregate | LowLevel) -> None:
        self._box = box
        keys = ", ".join(quote(k) for k in (PANE, *box.by))
        kinds = [box.inputs[0].schema.field(k).type for k in box.by]
        # What a low level lets go of are partial aggregates already, and hardly ever two of one group.
        self._partial_already = isinstance(box.inputs[0].box, LowLevel)
        self._suits = DenseGroups.suits(kinds)
        self._sets = {held.name: SetsOfTrain(kind) for held, kind in set_kinds(box)} if self._suits else {}
        measured = _measured(box) if self._suits and not self._partial_already else None
        self._dense = DenseGroups(kinds, box.window.pane, measured) if measured is not None else None
        self._held = {
            held.name: (
                f"SELECT {'DISTINCT ' if held.distinct else ''}{keys}"
                + "".join(f", {sql} AS {quote(name)}" for name, sql in held.values)
                + f" FROM tuples{f' WHERE {held.where}' if held.where else ''}"
            )
            for held in box.aggregation.held
        }
        self._gathered: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._reduced: dict[str, list[pa.Table]] = {
            PARTIAL: [],
            TUPLES: [],
            **{name: [] for name in self._held},
            **{sets_part(name): [] for name in self._sets},
            WHOLE: [],
        }

    def process(self, slot: int, tuples: pa.Table) -> None:
        rest = self._count(self._dense, tuples) if self._dense is not None else tuples
        if rest is not None:
            self._gather(rest)

    def _gather(self, tuples: pa.Table) -> None:
        tuples = _decoded(tuples, self._box.inputs[0].schema)
        self._gathered.append(tuples)
        self._rows += tuples.num_rows
        self._bytes += tuples.nbytes
        if self._rows >= REDUCE_ROWS or self._bytes >= REDUCE_BYTES:
            self._reduce_gathered()

    def flush(self) -> Iterator[tuple[str, pa.Table]]:
        """The partial aggregates of everything processed since the last flush."""
        self._reduce_gathered()
        if self._dense is not None:
            self._keep_counts(self._dense)
        for name, sets in self._sets.items():
            self._reduced[sets_part(name)] += sets.sets([PANE, *self._box.by])
            self._keep_plain(name, sets)
        for part, tables in self._reduced.items():
            if not tables:
                continue
            whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
            if part == PARTIAL and len(tables) > 1:
                whole = merged(self._box, whole)
            tables.clear()
            yield part, whole

    def _count(self, dense: DenseGroups, tuples: pa.Table) -> pa.Table | None:
        """Count tuples directly; what could not be counted is left for hashing, and so is all that follows."""
        box = self._box
        stretches = [stretch for batch in tuples.to_batches() for stretch in _by_arrival(batch)]
        for number, (batch, arrived, few) in enumerate(stretches):
            keys = [batch.column(k) for k in box.by]
            ticks = to_ticks(batch.column(box.on))
            if few and (dense.add(keys, ticks, arrived, batch) or self._count_codes(keys, ticks, arrived, batch)):
                self._hold(batch, ticks, dense.placed)
                continue
            if few and dense.empty and batch.num_rows < FEW_ROWS:
                self._gather(pa.Table.from_batches([batch]))  # a table has to be filled: those that follow may do it
            else:
                self._keep_counts(dense)
                self._dense = None
                return pa.Table.from_batches([rest for rest, _, _ in stretches[number:]])
        return None

    def _hold(self, tuples: pa.RecordBatch, ticks: pa.Array, placed: Placed | None) -> None:
        """Keep the values of tuples: those that count once as sets, others as they are."""
        for held in self._box.aggregation.held:
            if held.sketch is not None:
                continue  # its registers have seen them
            values, present = held.bare
            assert values is not None
            if (sets := self._sets.get(held.name)) is not None:
                assert placed is not None
                sets.add(placed, tuples.column(present))
                if sets.plain_bytes >= REDUCE_BYTES:
                    self._keep_plain(held.name, sets)
                continue
            panes = pane_numbers(pa.chunked_array([ticks]), self._box.window.pane)
            columns = [panes, *(tuples.column(name) for name in (*self._box.by, *values))]
            table = pa.table(columns, names=[PANE, *self._box.by, *(name for name, _ in held.values)])
            if present is not None and tuples.column(present).null_count:
                table = table.filter(pc.is_valid(tuples.column(present)))
            if table.num_rows:
                self._reduced[held.name].append(table)

    def _keep_plain(self, name: str, sets: SetsOfTrain) -> None:
        """Values that are no sets: distinct, if a sample shows that they repeat."""
        (held,) = (held for held in self._box.aggregation.held if held.name == name)
        names = [PANE, *self._box.by, *(column for column, _ in held.values)]
        if not (tables := list(sets.plain(names))):
            return
        values = pa.concat_tables(tables)
        if repeats(values, names):
            values = kernel.run("SELECT DISTINCT * FROM tuples", tuples=values).cast(values.schema)
        self._reduced[name].append(values)

    def _count_codes(
        self, keys: Sequence[pa.Array], ticks: pa.Array, arrived: int | None, tuples: pa.RecordBatch
    ) -> bool:
        """Count a train by itself, where texts come as codes: there are no more groups than its dictionaries say."""
        if not any(pa.types.is_dictionary(key.type) for key in keys):
            return False
        kinds = [self._box.inputs[0].schema.field(k).type for k in self._box.by]
        alone = DenseGroups(kinds, self._box.window.pane, _measured(self._box), by_codes=True)
        if not alone.add(keys, ticks, arrived, tuples):
            return False
        self._keep_counts(alone)
        return True

    def _keep_counts(self, dense: DenseGroups) -> None:
        partials = (name for name, _ in self._box.aggregation.counted)
        counts = dense.flush((PANE, *self._box.by, *partials), ARRIVED)
        if counts is None:
            return
        for held in self._box.aggregation.sketched:
            sketches = counts.select([PANE, *self._box.by, held.name])
            self._reduced[held.name].append(sketches.rename_columns([PANE, *self._box.by, *held.schema.names]))
            counts = counts.drop_columns([held.name])
        self._reduced[PARTIAL].append(counts)

    def _reduce_gathered(self) -> None:
        if not self._rows:
            self._gathered.clear()
            return
        tuples = pa.concat_tables(self._gathered)
        self._gathered.clear()
        self._rows = self._bytes = 0
        ticks = to_ticks(tuples.column(self._box.on))
        tuples = tuples.append_column(PANE, pane_numbers(ticks, self._box.window.pane))
        if self._partial_already:
            self._reduced[PARTIAL].append(self._counted_once(tuples))
            return
        if isinstance(self._box, Aggregate) and _may_send(self._box) and _hardly_reduced(self._box, tuples):
            self._reduced[TUPLES].append(tuples.select(_sent_columns(self._box, tuples)))
            return
        self._reduced[PARTIAL].append(reduced(self._box, tuples))
        for held in self._box.aggregation.held:
            kept = self._sketches(held, tuples) if held.sketch is not None else self._as_they_are(held, tuples)
            kept = kernel.run(self._held[held.name], tuples=tuples) if kept is None else kept
            if kept.num_rows:
                self._reduced[held.name].append(kept)
        if self._box.aggregation.called:
            whole = tuples.append_column(TICK, ticks)
            self._reduced[WHOLE].append(whole.select([PANE, *whole_columns(self._box), SEQ]))

    def _as_they_are(self, held: Held, tuples: pa.Table) -> pa.Table | None:
        """Values that need not be made distinct, as hardly any comes twice; None if that is not so."""
        columns, present = held.bare
        schema = self._box.inputs[0].schema
        if columns is None or not (held.distinct and self._suits and _of_own_types(held, schema)):
            return None
        keys = [PANE, *self._box.by]
        found = pa.table(
            [tuples.column(name) for name in (*keys, *columns)], names=[*keys, *(name for name, _ in held.values)]
        )
        if present is not None and tuples.column(present).null_count:
            found = found.filter(pc.is_valid(tuples.column(present)))
        return None if repeats(found, found.column_names) else found

    def _sketches(self, held: Held, tuples: pa.Table) -> pa.Table:
        own = self._suits and of_own_column(held, self._box.inputs[0].schema)
        return sketches_of(held, tuples, [PANE, *self._box.by], self._held[held.name], own=own)

    def _counted_once(self, tuples: pa.Table) -> pa.Table:
        """Partial aggregates as they are, each a tuple."""
        once = pa.repeat(pa.scalar(1, pa.int64()), tuples.num_rows)
        tuples = tuples.append_column(self._box.tuple_count, once)
        arrived = [ARRIVED] if ARRIVED in tuples.column_names else []
        return tuples.select([PANE, *self._box.by, *(name for name, _ in self._box.aggregation.counted), *arrived])


def _may_send(box: Aggregate) -> bool:
    """Whether tuples can be sent as they are: their bucket reduces them to partial aggregates, and to nothing else."""
    return box.reduces and not box.aggregation.held


def _hardly_reduced(box: Aggregate, tuples: pa.Table) -> bool:
    """Whether a group has so few of the tuples that they are reduced once, in its bucket, instead of here and there."""
    if not box.by or tuples.num_rows < FEW_ROWS:
        return False
    met = SAMPLE - (int(group_numbers(tuples.slice(0, SAMPLE), box.by).max()) + 1)
    # As often as tuples of the sample meet one another in a group, they would if there were so many groups, evenly.
    groups = SAMPLE * SAMPLE / (2 * max(1, met))
    return bool(tuples.num_rows < WORTH * groups * -math.expm1(-tuples.num_rows / groups))


def _sent_columns(box: Aggregate, tuples: pa.Table) -> list[str]:
    arrived = [ARRIVED] if ARRIVED in tuples.column_names else []
    return list(dict.fromkeys((PANE, *box.by, *box.aggregation.columns, *arrived)))


def _measured(box: Aggregate | LowLevel) -> Measured | None:
    """What is found of every group without SQL; None if that is not all. Values that are held as they are need none."""
    aggregation, schema = box.aggregation, box.inputs[0].schema
    sets = {held.name for held, _ in set_kinds(box)}
    direct = all(
        held.name in sets or _held_as_they_are(held, schema) or of_own_column(held, schema) for held in aggregation.held
    )
    if aggregation.called or not direct:
        return None
    known = {field.name: field.type for field in aggregation.partial_schema}
    partials = pa.schema([(name, known.get(name, pa.int64())) for name, _ in aggregation.counted])
    return Measured.of(aggregation.counted_measures, schema, partials, dense_registers(aggregation.held))


def set_kinds(box: Aggregate | LowLevel) -> list[tuple[Held, pa.DataType]]:
    """The held values that can be sets of codes, with their types."""
    if not isinstance(box, Aggregate) or not box.keeps_sets:
        return []
    schema = box.inputs[0].schema
    found = [(h, schema.field(h.counted).type) for h in box.aggregation.held if h.counted and _of_own_types(h, schema)]
    return [(held, kind) for held, kind in found if SetsOfTrain.suits(kind)]


def _held_as_they_are(held: Held, schema: pa.Schema) -> bool:
    return not held.distinct and held.sketch is None and _of_own_types(held, schema)


def _of_own_types(held: Held, schema: pa.Schema) -> bool:
    """Whether held values are columns of tuples, and the kernel would give them the same types."""
    columns, _ = held.bare
    if columns is None:
        return False
    return all(schema.field(name).type == kind for name, kind in zip(columns, held.schema.types, strict=True))


def _decoded(tuples: pa.Table, schema: pa.Schema) -> pa.Table:
    """Tuples whose texts are no codes any more, unless they are declared so: other trains may not have them so."""
    coded = [
        f.name
        for f in tuples.schema
        if pa.types.is_dictionary(f.type) and pa.types.is_string(schema.field(f.name).type)
    ]
    if not coded:
        return tuples
    return tuples.cast(pa.schema([schema.field(f.name) if f.name in coded else f for f in tuples.schema]))


def _by_arrival(batch: pa.RecordBatch) -> list[tuple[pa.RecordBatch, int | None, bool]]:
    """The stretches of a batch that arrived at one time, with that time where tuples bring it; or, where these would be
    many, the batch and False. At the intake the host adds the time of the batch itself."""
    if not batch.num_rows or ARRIVED not in batch.schema.names:
        return [(batch, None, True)] if batch.num_rows else []
    times = batch.column(ARRIVED).to_numpy()
    firsts = [0, *(np.flatnonzero(np.diff(times)) + 1).tolist()]
    if len(firsts) > MOST_ARRIVALS:
        return [(batch, None, False)]
    ends = [*firsts[1:], batch.num_rows]
    return [(batch.slice(at, end - at), int(times[at]), True) for at, end in zip(firsts, ends, strict=True)]


def pane_numbers(ticks: pa.ChunkedArray, pane: int) -> pa.Array:
    """The pane of every tuple: floor division of its ticks, negatives included."""
    bounds = pc.min_max(ticks)
    first, last = bounds["min"].as_py() // pane, bounds["max"].as_py() // pane
    if first == last:
        return pa.repeat(pa.scalar(first, pa.int64()), len(ticks))
    return pa.array(np.floor_divide(ticks.to_numpy(), pane))


def whole_columns(box: Aggregate | LowLevel) -> list[str]:
    """What is kept of tuples for Python functions; ticks stand for the window attribute."""
    return [*dict.fromkeys((*box.by, *(name for name in box.aggregation.whole if name != box.on))), TICK]


def merged(box: Aggregate | LowLevel, tuples: pa.Table) -> pa.Table:
    """Partial aggregates of the same pane and group merged, which may be done any number of times; unless there is
    hardly anything to merge: then grouping would be work for nothing."""
    if box.by and not repeats(tuples, (PANE, *box.by)):
        return tuples
    # The kernel has types of its own for some keys.
    return _grouped(box, tuples, box.aggregation.counted_merges).cast(tuples.schema)


def reduced(box: Aggregate | LowLevel, tuples: pa.Table) -> pa.Table:
    """The partial aggregates of tuples, by pane and group."""
    return _grouped(box, tuples, box.aggregation.counted)


def _grouped(box: Aggregate | LowLevel, tuples: pa.Table, aggregates: Sequence[tuple[str, str]]) -> pa.Table:
    """One row for each pane and group. Rows of one pane, as many trains and all slots have, are not grouped by it."""
    panes, groups = pc.min_max(tuples.column(PANE)), [quote(k) for k in box.by]
    if groups and panes["min"] == panes["max"]:
        keys, tuples = [f"{panes['min']}::BIGINT AS {quote(PANE)}", *groups], tuples.drop_columns([PANE])
    else:
        keys = groups = [quote(PANE), *groups]
    made = (f"{sql} AS {quote(name)}" for name, sql in (*aggregates, *arrival_merge(tuples)))
    return kernel.run(f"SELECT {', '.join([*keys, *made])} FROM tuples GROUP BY {', '.join(groups)}", tuples=tuples)


def arrival_merge(tuples: pa.Table) -> tuple[tuple[str, str], ...]:
    """How the QoS timestamps of partial aggregates are merged, where they have any."""
    return ((ARRIVED, f"min({quote(ARRIVED)})"),) if ARRIVED in tuples.column_names else ()
