"""Sets of values that count once, in a bucket: kept by pane, and counted when a window closes.

```
 part "h0 values"    host-7 | host-3 | host-9          values that the pane has met, in order: the place is the code
 part "h0 sets"      80 [0, 1] | 22 [0]                 a chunk for each batch: the codes of each group
                     80 [2]
```

What a chunk says depends on the tuples alone, not on what a vocabulary has numbered how. To add, the values of the pane
are looked up, and those that are new get the next codes. To count, codes become numbers of the vocabulary, which are
the same for all panes and trains, and every pair of group and number counts once.

Values that came as they are stay beside them. What there is less of becomes what there is more of before both are
counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions.aggregation import Held
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.window import Window
from penstock.boxes.aggregate.closing import WINDOW
from penstock.boxes.aggregate.entry import PANE
from penstock.boxes.aggregate.value_sets import SETS, sets_part
from penstock.operators.arrays import Mask, Numbers, ranged
from penstock.operators.groups import group_numbers, parted
from penstock.operators.key_index import NONE, Places
from penstock.operators.pairs import distinct_counts, distinct_pairs
from penstock.operators.protocol import Slots
from penstock.operators.state.chunks import GATHER_CHUNKS, MERGE_CHUNKS, add_chunk
from penstock.operators.vocabulary import vocabulary

COUNT = "#count"
SAMPLE = 16
"""One value of so many is looked at, to see whether merging chunks is worth it."""
_LAST = np.iinfo(np.int64).max
"""No pane is after this one."""
SPREAD_VALUES = 8_388_608
"""Values, once for every window that they lie in, that are counted at once: bounds the memory it takes."""


@dataclass(frozen=True)
class _Sets:
    """Rows with a set each: the pane and the keys, and how many codes, one row's after the other's, are its."""

    rows: pa.Table
    lengths: Numbers
    codes: Places
    entries: pa.Array
    """What the codes stand for."""

    @staticmethod
    def of(table: pa.Table | pa.RecordBatch, codes: pa.Array, entries: pa.Array) -> _Sets:
        rows = table.drop_columns([SETS])
        rows = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        lengths = pc.list_value_length(table.column(SETS)).to_numpy().astype(np.int64)
        return _Sets(rows, lengths, codes.to_numpy(), entries)

    @staticmethod
    def arrived(batch: pa.RecordBatch) -> _Sets:
        coded = batch.column(SETS).flatten()
        return _Sets.of(batch, coded.indices, coded.dictionary)

    @property
    def values(self) -> pa.Array:
        return self.entries.take(pa.array(self.codes))

    def plain(self, value: str) -> pa.Table:
        """A row for each value."""
        rows = self.rows.take(pa.array(np.repeat(np.arange(len(self.lengths)), self.lengths)))
        return rows.append_column(value, self.values)


@dataclass(frozen=True)
class Counted:
    """What sets come to: numbers of values by window and group; or the values themselves, where these are too many."""

    rows: pa.Table
    final: bool


class KeptSets:
    """The sets of one table of held values, in one bucket."""

    def __init__(self, held: Held, kind: pa.DataType, by: Sequence[str], window: Window, slots: Slots) -> None:
        self.held, self._kind, self._by, self._window, self._slots = held, kind, list(by), window, slots
        ((self._value, _),) = held.values
        self._sets, self._values = sets_part(held.name), f"{held.name} values"
        self._arrived: list[pa.RecordBatch] = []

    @property
    def counted_held(self) -> Held:
        """The held values, where they are counted already."""
        ((result, _),) = self.held.results
        return replace(self.held, results=((result, f"max({quote(COUNT)})"),))

    def receive(self, sets: pa.Table) -> None:
        self._arrived += sets.to_batches()

    def forget(self, first: int) -> None:
        """Let go of what has arrived for panes before one."""
        kept, first = list[pa.RecordBatch](), min(first, _LAST)
        for batch in self._arrived:
            kept += _where(batch, batch.column(PANE).to_numpy() >= first)
        self._arrived = kept

    def keep(self) -> None:
        """Add what has arrived to the slots of its panes."""
        arrived, self._arrived = self._arrived, []
        found: dict[int, list[pa.RecordBatch]] = {}
        for batch in arrived:
            for pane, own in parted(pa.Table.from_batches([batch]), batch.column(PANE).to_numpy()):
                found.setdefault(pane, []).extend(own.to_batches())
        for pane, batches in sorted(found.items()):
            self._keep(pane, [_Sets.arrived(batch) for batch in batches])

    def counted(self, panes: Sequence[int], plain: pa.Table | None, first: int, last: int) -> Counted | None:
        """What sets, and values beside them, come to in the windows first..last; None if there are no sets."""
        behind = min((self._window.start_of(last) + self._window.size) // self._window.pane, _LAST)
        due = [own for batch in self._arrived for own in _where(batch, batch.column(PANE).to_numpy() < behind)]
        sets = [*self._stored(panes), *map(_Sets.arrived, due)]
        if not sets:
            return None
        plain_rows = 0 if plain is None else plain.num_rows
        if plain_rows <= sum(len(each.codes) for each in sets):
            counts = self._counts(sets, plain, first, last)
            if counts is not None:
                return Counted(counts, True)
        tables = [each.plain(self._value) for each in sets]
        return Counted(pa.concat_tables([*([] if plain is None else [plain]), *tables]), False)

    def _stored(self, panes: Sequence[int]) -> Iterator[_Sets]:
        for pane in panes:
            chunks = self._slots.chunks(pane, self._sets)
            if chunks:
                whole, entries = pa.concat_tables(chunks), self._entries(pane)
                for batch in whole.to_batches():
                    yield _Sets.of(batch, batch.column(SETS).flatten(), entries)

    def _entries(self, pane: int) -> pa.Array:
        """The values of a pane, by code."""
        chunks = [c for chunk in self._slots.chunks(pane, self._values) for c in chunk.column(self._value).chunks]
        return pa.concat_arrays([pa.array([], self._kind), *chunks])

    def _counts(self, sets: Sequence[_Sets], plain: pa.Table | None, first: int, last: int) -> pa.Table | None:
        words, known = vocabulary(self._kind), dict[int, Places]()
        rows, lengths, numbers = [], [], []
        for each in sets:
            if id(each.entries) not in known:
                own = words.numbers_of_entries(each.entries)
                if own is None:
                    return None
                known[id(each.entries)] = own
            rows.append(each.rows)
            lengths.append(each.lengths)
            numbers.append(known[id(each.entries)].take(each.codes))
        if plain is not None and plain.num_rows:
            found = [words.numbers(chunk) for chunk in plain.column(self._value).chunks]
            rows.append(plain.drop_columns([self._value]))
            lengths.append(np.ones(plain.num_rows, np.int64))
            for own in found:
                if own is None:
                    return None
                numbers.append(own)
        return self._count(rows, lengths, numbers, first, last)

    def _count(
        self, tables: Sequence[pa.Table], each: Sequence[Numbers], numbers: Sequence[Places], first: int, last: int
    ) -> pa.Table:
        """How many numbers each group has in each window."""
        rows, lengths = pa.concat_tables(tables), np.concatenate(each)
        panes, of_pane = np.unique(rows.column(PANE).to_numpy(), return_inverse=True)
        begins = np.array([max(first, self._window.first_of_pane(pane)) for pane in panes.tolist()], np.int64)
        ends = np.array([min(last, self._window.last_of_pane(pane)) + 1 for pane in panes.tolist()], np.int64)
        owners, windows = ranged(begins[of_pane], ends[of_pane])
        order = np.argsort(windows, kind="stable")
        owners, windows = owners[order], windows[order]
        groups, behind, found = group_numbers(rows, self._by), np.cumsum(lengths), []
        values, most = max(int(own.max()) for own in numbers) + 1, int(groups.max()) + 1
        nothing = pa.array([], pa.int64())
        empty = rows.select([PANE, *self._by]).slice(0, 0)
        found.append(empty.set_column(0, WINDOW, nothing).append_column(COUNT, nothing))
        distinct_windows, together = np.unique(windows), None
        for part in _parts(windows, lengths[owners]):
            mine = owners[part]
            keys = np.searchsorted(distinct_windows, windows[part]) * most + groups[mine]
            owned, one, place = np.unique(keys, return_index=True, return_inverse=True)
            place = place.astype(np.uint32)
            if len(mine) == len(lengths) and bool((mine[1:] > mine[:-1]).all()):
                cuts = np.cumsum([len(table) for table in tables])[:-1]
                owners_of = [np.repeat(*pair) for pair in zip(np.split(place, cuts), each, strict=True)]
                pieces = list(zip(owners_of, numbers, strict=True))
            else:
                together = np.concatenate(numbers) if together is None else together
                taken = together[ranged((behind - lengths)[mine], behind[mine])[1]]
                pieces = [(np.repeat(place, lengths[mine]), taken)]
            counts = distinct_counts(pieces, len(owned), values)[1]
            named = rows.select([PANE, *self._by]).take(pa.array(mine[one]))
            found.append(named.set_column(0, WINDOW, [windows[part][one]]).append_column(COUNT, [counts]))
        return pa.concat_tables(found)

    def _keep(self, pane: int, arrived: Sequence[_Sets]) -> None:
        words, entries = vocabulary(self._kind), self._entries(pane)
        known = [words.numbers_of_entries(each) for each in (entries, *(sets.entries for sets in arrived))]
        numbered = [numbers for numbers in known if numbers is not None]
        if len(numbered) < len(known):
            plain = pa.concat_tables([sets.plain(self._value) for sets in arrived])
            add_chunk(self._slots, pane, self.held.name, plain, GATHER_CHUNKS)
            return
        codes = np.full(len(words), NONE, np.int32)
        codes[numbered[0]] = np.arange(len(entries), dtype=np.int32)
        count, fresh, chunks = len(entries), [], []
        for sets, numbers in zip(arrived, numbered[1:], strict=True):
            own = codes.take(numbers)
            used = np.zeros(len(numbers), np.bool_)
            used[sets.codes] = True
            new = np.flatnonzero(used & (own == NONE))
            own[new] = codes[numbers[new]] = np.arange(count, count + len(new), dtype=np.int32)
            count += len(new)
            fresh.append(sets.entries.take(pa.array(new)))
            chunks.append(_table(sets.rows, sets.lengths, own.take(sets.codes)))
        if count > len(entries):
            values = pa.table([pa.concat_arrays(fresh)], names=[self._value])
            add_chunk(self._slots, pane, self._values, values, GATHER_CHUNKS)
        self._add(pane, pa.concat_tables(chunks).combine_chunks(), count)

    def _add(self, pane: int, chunk: pa.Table, values: int) -> None:
        """Add a chunk; from time to time sets of one group are made one, if that makes them smaller."""
        chunks = self._slots.count(pane, self._sets) + 1
        if chunks % MERGE_CHUNKS:
            self._slots.append(pane, self._sets, chunk)
            return
        whole = pa.concat_tables([*self._slots.chunks(pane, self._sets), chunk]).combine_chunks()
        groups = group_numbers(whole, self._by)
        sets = _Sets.of(whole, whole.column(SETS).combine_chunks().flatten(), pa.array([], self._kind))
        owners, most = np.repeat(groups.astype(np.uint32), sets.lengths), int(groups.max()) + 1
        looked_at = sets.codes % SAMPLE == 0
        _, sample = distinct_counts([(owners[looked_at], sets.codes[looked_at])], most, values)
        if 4 * int(sample.sum()) <= 3 * np.count_nonzero(looked_at):
            pairs = distinct_pairs([(owners, sets.codes)], most, values)
            one = np.unique(groups, return_index=True)[1]
            self._slots.replace(pane, self._sets, _table(sets.rows.take(pa.array(one)), pairs.counts, pairs.seconds))
        elif chunks >= GATHER_CHUNKS:
            self._slots.replace(pane, self._sets, whole)
        else:
            self._slots.append(pane, self._sets, chunk)


def _where(batch: pa.RecordBatch, wanted: Mask) -> list[pa.RecordBatch]:
    """The rows that are wanted, if there are any; not copied where they are together, as those of a pane are."""
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return []
    first, count = int(rows[0]), len(rows)
    return [batch.slice(first, count) if int(rows[-1]) - first + 1 == count else batch.take(pa.array(rows))]


def _table(rows: pa.Table, lengths: Numbers, codes: Places) -> pa.Table:
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    return rows.append_column(SETS, pa.ListArray.from_arrays(pa.array(offsets), pa.array(codes)))


def _parts(windows: Numbers, lengths: Numbers) -> Iterator[slice]:
    """Stretches of rows by window, each with all rows of its windows and, if it has several, not too many values."""
    firsts = np.flatnonzero(np.diff(windows, prepend=windows[0] - 1)) if len(windows) else np.zeros(0, np.int64)
    values = np.cumsum(lengths)
    begin = 0
    while begin < len(windows):
        before = int(values[begin - 1]) if begin else 0
        fits = int(np.searchsorted(values, before + SPREAD_VALUES, side="right"))
        ends = firsts[(firsts > begin) & (firsts <= fits)] if fits < len(windows) else np.array([len(windows)])
        later = firsts[firsts > begin]
        end = int(ends[-1]) if len(ends) else int(later[0]) if len(later) else len(windows)
        yield slice(begin, end)
        begin = end
