"""The intake: where tuples enter. Its tasks read what the planner has assigned to them.

```
 read_assignment: decode ─> refuse NULLs ─> route late tuples ─> stateless boxes ─> low-level aggregates
                  ─> trains by bucket, and a note with the extremes of every shard
```
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.box import Port
from penstock.algebra.error_records import reject_table, why_out_of_range
from penstock.algebra.expressions.expression import bind_predicate, mask
from penstock.algebra.hidden import SEQ
from penstock.algebra.source import Source, Track
from penstock.algebra.ticks import BEGINNING, out_of_range
from penstock.connectors.base import Chunk, Split
from penstock.errors import WorldError
from penstock.plan.plan import INTAKE
from penstock.progress.disorder import Gauge, Values
from penstock.progress.extremes import NOTHING, Extremes, Reach
from penstock.runtime import traces
from penstock.runtime.allotment import columns_to_read
from penstock.runtime.board import InputCount, Issued
from penstock.runtime.control import Control
from penstock.runtime.job import Job, part_number
from penstock.runtime.planner import Assignment, Said
from penstock.runtime.promises import measured
from penstock.runtime.refusals import Refusals
from penstock.runtime.silence import stating
from penstock.runtime.superbox import Superbox
from penstock.runtime.tables import tables_of
from penstock.runtime.train import OUTLET, Row, note, trains

MOST_ROWS = 1 << 32
MOST_SPLITS = 1 << 20
"""Arrival numbers are (input, split, row): a split has fewer rows, and a batch fewer splits of an input, than these."""
LEAVING_BYTES = 128 * 1024 * 1024
"""What a task lets gather at its outputs before it stages a piece of it."""


def read_assignment(job: Job, assignment: Assignment, batch: int) -> Iterator[Row]:
    """On a worker: read the splits of a task into rows for Spark."""
    intake = Intake(job, batch, assignment.index, assignment.issued, assignment.control)
    intake.said = assignment.said
    by_name = {s.name: s for s in job.plan.network.sources}
    for seen, shards_of in ((NOTHING, assignment.open), (Extremes(ended=True), assignment.ended)):
        for name, shards in shards_of.items():
            for shard in shards:
                intake.report(name, shard, seen)
    for name, shards_left in assignment.left.items():
        for shard, reading in shards_left.items():
            intake.report(name, shard, Extremes(left=reading))
    for name, said in assignment.stated.items():
        for shard, marks in said.items():
            intake.state(by_name[name], shard, marks)
    for number, (name, split) in enumerate(assignment.splits, assignment.first):
        intake.take_split(by_name[name], split, number)
    yield from intake.rows(tell=assignment.index == 0)


@dataclass(frozen=True)
class SetAside:
    """Masks over the rows of a chunk: which are late, and which have no progressing attribute that is of use."""

    late: pa.Array | None = None
    unfit: pa.Array | None = None
    seq: int = 0
    """The arrival number of the chunk's first row."""


class Intake:
    """One task's way from chunks to rows."""

    def __init__(self, job: Job, batch: int, index: int, issued: Mapping[str, Issued], control: Control) -> None:
        self._job = job
        self._batch = batch
        self._index = index
        self._issued = issued
        self._control = control
        self._superbox = Superbox(job.plan, INTAKE, control, tables_of(job))
        self._order = {s.name: number for number, s in enumerate(job.plan.network.sources)}
        self._seen: dict[str, dict[str, Extremes]] = {}
        self._counts: dict[str, InputCount] = {}
        self._refusals: dict[str, Refusals] = {}
        self._gauges: dict[str, dict[str, dict[str, Gauge]]] = {}
        """Disorder, by input, shard and attribute."""
        self._receipts: list[dict[str, object]] = []
        self._arrived = time.time_ns() // 1000
        self.said: Said = ()
        """What this batch says in the place of silent inputs, for traces."""

    def report(self, source: str, shard: str, seen: Extremes) -> None:
        shards = self._seen.setdefault(source, {})
        shards[shard] = shards.get(shard, NOTHING).merge(seen)

    def state(self, source: Source, shard: str, marks: Mapping[str, int]) -> None:
        """A shard states marks."""
        self.report(source.name, shard, stating(source, marks))

    def take_split(self, source: Source, split: Split, number_of_split: int) -> None:
        """Take one split; its number is its place in the batch."""
        aside: dict[int, SetAside] = {}
        seq = self.first_seq(source, number_of_split)
        columns = columns_to_read(self._job, source)
        for number, chunk in enumerate(source.connector.read(split, source.delivered, columns)):
            found = self.take_chunk(source, split.shard, chunk, seq)
            seq += chunk.tuples.num_rows
            if found is not None:
                aside[number] = found
        if not aside:
            return
        # They leave whole: the split, of which only some columns were read, is read once more with all of them.
        origin = str(getattr(split, "path", source.name))
        for number, chunk in enumerate(source.connector.read(split, source.delivered, source.delivered.names)):
            if number in aside:
                self._route(source, pa.Table.from_batches([chunk.tuples]), aside[number], origin)

    def first_seq(self, source: Source, split: int) -> int:
        """The arrival number of a split's first tuple: inputs in order of declaration, then splits, then rows."""
        return (self._order[source.name] * MOST_SPLITS + split) * MOST_ROWS

    def take_whole(self, source: Source, shard: str, tuples: pa.Table, seq: int) -> None:
        """Take tuples that have all their columns, so that late ones can be routed at once."""
        for batch in tuples.to_batches():
            aside = self.take_chunk(source, shard, Chunk(batch), seq)
            seq += batch.num_rows
            if aside is not None:
                self._route(source, pa.Table.from_batches([batch]), aside, source.name)

    def take_chunk(self, source: Source, shard: str, chunk: Chunk, seq: int = 0) -> SetAside | None:
        """Take one chunk; which of its rows are to be set aside, if there are any. `seq` numbers its first row."""
        count = self._counts.setdefault(source.name, InputCount())
        if chunk.rejects is not None and chunk.rejects.num_rows:
            rejects = pa.Table.from_batches([chunk.rejects])
            refused = int(pc.sum(pc.fill_null(rejects.column("rows"), 1)).as_py() or 0)
            count.refused, count.read = count.refused + refused, count.read + refused
            self._refuse(source, rejects)
        issued = self._stated_by(source, shard)
        self.state(source, shard, strongest(source, chunk.stated))
        tuples = self._sequenced(Port(source), pa.Table.from_batches([chunk.tuples]), seq)
        if source.stamped:
            tuples = self._stamped(source, shard, tuples)
        count.read += tuples.num_rows
        ticks = [track.ticks(tuples.column(track.attribute)) for track in source.tracks]
        values = _values(ticks, None)
        bounds = [each.bounds for each in values]
        unfits = [_unfit(*each) for each in zip(source.tracks, ticks, bounds, strict=True)]
        marked = self._punctuation(source, shard, tuples, ticks, unfits, count)
        unfit = _any(unfits)
        if unfit is not None:
            unfit = unfit if marked is None else pc.and_not(unfit, marked)
            count.refused += int(pc.sum(unfit).as_py() or 0)
        aside = _any((unfit, marked))
        keep = None if aside is None else pc.invert(aside)
        if keep is not None:
            values = _values(ticks, keep)
            bounds = [each.bounds for each in values]
        self._measure(source, shard, values)
        late = self._late(source, count, ticks, [smallest for smallest, _ in bounds], issued, keep)
        if late is not None:
            keep = pc.invert(late) if keep is None else pc.and_not(keep, late)
            bounds = [each.bounds for each in _values(ticks, keep)]
        largest = [value for _, value in bounds]
        if largest[0] is not None:
            others = {t.mark: Reach(v) for t, v in zip(source.tracks[1:], largest[1:], strict=True) if v is not None}
            self.report(source.name, shard, Extremes(largest[0], at=self._control.now, others=others))
        taken = tuples if keep is None else tuples.filter(keep)
        count.taken += taken.num_rows
        self._superbox.push(Port(source), taken)
        if self._superbox.leaving_bytes() > LEAVING_BYTES:
            self._stage_leaving()
        if source.late != "route":
            late = None
        return SetAside(late, unfit, seq) if late is not None or unfit is not None else None

    def _stamped(self, source: Source, shard: str, tuples: pa.Table) -> pa.Table:
        """Tuples with the clock reading of their batch. No later batch reads the same, so the next tick is stated."""
        if tuples.num_rows:
            self.report(source.name, shard, Extremes(stated=self._control.now + 1))
        stamp = pa.scalar(self._control.now, pa.int64()).cast(source.on_type)
        return tuples.add_column(0, source.on, pa.repeat(stamp, tuples.num_rows))

    def _sequenced(self, port: Port, tuples: pa.Table, seq: int) -> pa.Table:
        """Tuples with their arrival numbers, where a box downstream asks for them."""
        if SEQ not in self._job.plan.columns.get(port.name, ()):
            return tuples
        return tuples.append_column(SEQ, pa.array(np.arange(seq, seq + tuples.num_rows, dtype=np.int64)))

    def _stated_by(self, source: Source, shard: str) -> Mapping[str, int]:
        """What a shard had stated before this batch. One that has just appeared, or comes back after it was closed,
        starts where its input stands: windows below have left, and what would belong there is late."""
        known = self._issued.get(source.name, Issued())
        if shard not in known.shards:
            self.state(source, shard, known.stands)
            return known.stands
        return known.shards[shard]

    def rows(self, *, tell: bool) -> Iterator[Row]:
        """What leaves the task, for the stages and for the outlet; `tell` them what the offset says, too."""
        sender, job = f"intake {self._index:04d}", self._job
        for seq, leaving in enumerate(self._superbox.departures()):
            box, stage = leaving.box, job.plan.stage_of[leaving.box.name]
            yield from trains(
                stage, box.name, leaving.part, sender, seq, leaving.tuples, leaving.keys, job.settings.buckets
            )
        seen = {name: {shard: asdict(e) for shard, e in shards.items()} for name, shards in self._seen.items()}
        if job.plan.stages:
            for bucket in range(job.settings.buckets):
                yield note(1, bucket, sender, {"shards": seen})
                if tell:
                    for stage in range(1, job.plan.stages + 1):
                        yield note(stage, bucket, sender, {"control": asdict(self._control)})
        self._stage_leaving()
        content = {
            "shards": seen,
            "inputs": {name: asdict(c) for name, c in self._counts.items()},
            "refusals": {name: asdict(told) for name, told in self._refusals.items()},
            "disorder": {name: _stretches(shards) for name, shards in self._gauges.items()},
            "boxes": {name: asdict(w) for name, w in self._superbox.work.items()},
            "now": self._control.now,
            "receipts": self._receipts,
            "hops": {traces.INTAKE: (self._arrived, time.time_ns() // 1000)},
            "said": self.said,
        }
        yield note(OUTLET, self._index % job.settings.buckets, sender, content)

    def _stage_leaving(self) -> None:
        """Hand over what has reached an output, so that a long train needs no more memory than a short one."""
        part = part_number(INTAKE, self._index, len(self._receipts))
        self._receipts.append(self._job.stage_outputs(self._batch, part, self._superbox.leaving, self._control.now))
        self._superbox.leaving.clear()

    def _measure(self, source: Source, shard: str, values: Sequence[Values]) -> None:
        """Note how far the tuples of a chunk, late ones too, are behind those before them."""
        known = self._issued.get(source.name, Issued()).reached.get(shard, {})
        gauges = self._gauges.setdefault(source.name, {}).setdefault(shard, {})
        for track, each in zip(source.tracks, values, strict=True):
            if measured(source, track):
                gauges.setdefault(track.attribute, Gauge(known.get(track.mark, BEGINNING))).take(each)

    def _refuse(self, source: Source, rejects: pa.Table) -> None:
        """Send rejects to the error stream, and note their reasons."""
        self._refusals.setdefault(source.name, Refusals()).add(rejects)
        self._superbox.push(Port(source, Source.ERRORS), rejects)

    def _punctuation(
        self,
        source: Source,
        shard: str,
        tuples: pa.Table,
        ticks: Sequence[pa.ChunkedArray],
        unfits: Sequence[pa.Array | None],
        count: InputCount,
    ) -> pa.Array | None:
        """A mask of the records that are punctuation, not tuples, if a policy knows such records."""
        found: pa.Array | None = None
        for track, values, unfit in zip(source.tracks, ticks, unfits, strict=True):
            where = getattr(track.policy, "where", None)
            if where is None:
                continue
            marked = pc.equal(mask((bind_predicate(where, source.tuples),), tuples), 0)
            marked = marked if unfit is None else pc.and_not(marked, unfit)
            strongest = pc.max(values.filter(marked)).as_py()
            if strongest is not None:
                self.state(source, shard, {track.mark: strongest})
            found = marked if found is None else pc.or_(found, marked)
        if found is not None:
            count.punctuation += int(pc.sum(found).as_py() or 0)
        return found

    def _late(
        self,
        source: Source,
        count: InputCount,
        ticks: Sequence[pa.ChunkedArray],
        smallest: Sequence[int | None],
        issued: Mapping[str, int],
        keep: pa.Array | None,
    ) -> pa.Array | None:
        """A mask of the tuples that are below what their shard has stated, of any attribute; None if there are none."""
        found: pa.Array | None = None
        for track, values, least in zip(source.tracks, ticks, smallest, strict=True):
            stated = issued.get(track.mark, BEGINNING)
            if least is None or least >= stated:
                continue
            late = pc.less(values, stated).combine_chunks()
            late = late if keep is None else pc.and_(pc.fill_null(late, False), keep)
            if source.late == "error":
                raise too_late(source, track, int(pc.sum(late).as_py()), least, stated).located(
                    network=self._job.plan.network.name
                )
            found = late if found is None else pc.or_(found, late)
        if found is not None:
            count.late += int(pc.sum(found).as_py())
        return found

    def _route(self, source: Source, tuples: pa.Table, aside: SetAside, origin: str) -> None:
        """Send late tuples to the late stream, and those without a usable time to the error stream."""
        if aside.late is not None:
            late = Port(source, Source.LATE)
            self._superbox.push(late, self._sequenced(late, tuples, aside.seq).filter(aside.late))
        if aside.unfit is not None:
            self._refuse(source, unfit_rejects(tuples.filter(aside.unfit), source, origin))


def too_late(source: Source, track: Track, number: int, smallest: int, stated: int) -> WorldError:
    """Why an input that was declared with late='error' is given up."""
    bound = "<=" if track.descending else ">="
    return WorldError(
        f"{number} late tuple{'s' if number > 1 else ''}, and the input was declared with late='error'",
        box=source.name,
        expected=f"{track.attribute} {bound} {track.text(stated)} ({track.policy.describe()})",
        found=f"{track.attribute} = {track.text(smallest)}",
        hint="declare a weaker progress policy, or late='route' to have late tuples set aside",
    )


def strongest(source: Source, stated: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The strongest of what punctuation in the data says, by mark."""
    said = [(track, stated[track.attribute]) for track in source.tracks if track.attribute in stated]
    return {track.mark: max(-tick if track.descending else tick for tick in ticks) for track, ticks in said}


def _values(ticks: Sequence[pa.ChunkedArray], keep: pa.Array | None) -> list[Values]:
    """The ticks of every attribute, of the tuples that are kept."""
    return [Values.of(each if keep is None else each.filter(keep)) for each in ticks]


def _stretches(shards: Mapping[str, Mapping[str, Gauge]]) -> dict[str, dict[str, object]]:
    """What the gauges of an input show, as JSON."""
    read = {shard: {a: gauge.stretch() for a, gauge in gauges.items()} for shard, gauges in shards.items()}
    return {shard: {a: asdict(s) for a, s in of_shard.items() if s is not None} for shard, of_shard in read.items()}


def _unfit(track: Track, ticks: pa.ChunkedArray, bounds: tuple[int | None, int | None]) -> pa.Array | None:
    """A mask of the tuples that lack an attribute, or have one that is out of range; None if there are none."""
    if not ticks.null_count and not pc.any(out_of_range(pa.array(bounds, pa.int64()), track.kind)).as_py():
        return None
    return pc.fill_null(out_of_range(ticks, track.kind), True).combine_chunks()


def _any(masks: Iterable[pa.Array | None]) -> pa.Array | None:
    """Where any of several masks holds."""
    found = [each for each in masks if each is not None]
    return reduce(pc.or_, found) if found else None


def unfit_rejects(tuples: pa.Table, source: Source, origin: str) -> pa.Table:
    return reject_table(tuples, origin, _reasons(source, tuples))


def _reasons(source: Source, tuples: pa.Table) -> pa.ChunkedArray:
    """What is wrong with each tuple: with the first attribute, where it is with several."""
    found = []
    for track in source.tracks:
        column = tuples.column(track.attribute)
        far = pc.fill_null(out_of_range(track.ticks(column), track.kind), False)
        for wrong, reason in ((pc.is_null(column), why_null(track)), (far, why_far(track))):
            found.append(pc.if_else(wrong, pa.scalar(reason), pa.scalar(None, pa.string())))
    return pc.coalesce(*found)


def why_null(track: Track) -> str:
    """Why a tuple without an attribute is refused."""
    return f"{track.attribute} is NULL: a tuple must have its progressing attribute"


def why_far(track: Track) -> str:
    """Why a tuple is refused of which an attribute is out of range."""
    return why_out_of_range(track.attribute)
