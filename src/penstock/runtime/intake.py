"""The intake: where tuples enter. Its tasks read what the planner has assigned to them.

```
 read_assignment: decode ─> refuse NULLs ─> route late tuples ─> stateless boxes ─> low-level aggregates
                  ─> trains by bucket, and a note with the extremes of every shard
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra import kernel
from penstock.algebra.box import Port, Source
from penstock.algebra.expression import bind_predicate, mask
from penstock.algebra.hidden import SEQ
from penstock.algebra.rejects import REJECT_SCHEMA
from penstock.algebra.ticks import BEGINNING, tick_text, to_ticks
from penstock.connectors.base import Chunk, Split
from penstock.errors import WorldError
from penstock.plan.plan import INTAKE
from penstock.progress.extremes import NOTHING, Extremes
from penstock.runtime.allotment import columns_to_read
from penstock.runtime.board import InputCount
from penstock.runtime.control import Control
from penstock.runtime.job import Job, part_number
from penstock.runtime.planner import Assignment
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
    by_name = {s.name: s for s in job.plan.network.sources}
    for seen, shards_of in ((NOTHING, assignment.open), (Extremes(ended=True), assignment.ended)):
        for name, shards in shards_of.items():
            for shard in shards:
                intake.report(name, shard, seen)
    for name, ticks in assignment.stated.items():
        for shard, tick in ticks.items():
            intake.report(name, shard, Extremes(stated=tick))
    for number, (name, split) in enumerate(assignment.splits, assignment.first):
        intake.take_split(by_name[name], split, number)
    yield from intake.rows(tell=assignment.index == 0)


@dataclass(frozen=True)
class SetAside:
    """Masks over the rows of a chunk: which are late, and which have no progressing attribute."""

    late: pa.Array | None = None
    null: pa.Array | None = None
    seq: int = 0
    """The arrival number of the chunk's first row."""


class Intake:
    """One task's way from chunks to rows."""

    def __init__(
        self, job: Job, batch: int, index: int, issued: Mapping[str, Mapping[str, int]], control: Control
    ) -> None:
        self._job = job
        self._batch = batch
        self._index = index
        self._issued = issued
        self._control = control
        self._superbox = Superbox(job.plan, INTAKE, control, tables_of(job))
        self._order = {s.name: number for number, s in enumerate(job.plan.network.sources)}
        self._seen: dict[str, dict[str, Extremes]] = {}
        self._counts: dict[str, InputCount] = {}
        self._receipts: list[dict[str, object]] = []

    def report(self, source: str, shard: str, seen: Extremes) -> None:
        shards = self._seen.setdefault(source, {})
        shards[shard] = shards.get(shard, NOTHING).merge(seen)

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
            self._refuse(source, count, pa.Table.from_batches([chunk.rejects]))
        issued = self._stated_by(source, shard)
        self.report(source.name, shard, Extremes(stated=chunk.stated))
        tuples = self._sequenced(Port(source), pa.Table.from_batches([chunk.tuples]), seq)
        if source.stamped:
            tuples = self._stamped(source, shard, tuples)
        count.read += tuples.num_rows
        keep: pa.Array | None = None
        null: pa.Array | None = None
        if tuples.column(source.on).null_count:
            null = pc.is_null(tuples.column(source.on)).combine_chunks()
            count.refused += tuples.column(source.on).null_count
            keep = pc.invert(null)
        marked = self._punctuation(source, shard, tuples, count)
        if marked is not None:
            keep = pc.invert(marked) if keep is None else pc.and_not(keep, marked)
        ticks = to_ticks(tuples.column(source.on))
        bounds = pc.min_max(ticks if keep is None else ticks.filter(keep))
        smallest, largest = bounds["min"].as_py(), bounds["max"].as_py()
        if largest is None:
            return SetAside(null=null, seq=seq) if null is not None else None
        late = None
        if smallest < issued:
            late = pc.less(ticks, issued).combine_chunks()
            late = late if keep is None else pc.and_(pc.fill_null(late, False), keep)
            self._count_late(source, count, late, smallest, issued)
            keep = pc.invert(late) if keep is None else pc.and_not(keep, late)
        if largest >= issued:
            self.report(source.name, shard, Extremes(largest=largest, at=self._control.now))
        taken = tuples if keep is None else tuples.filter(keep)
        count.taken += taken.num_rows
        self._superbox.push(Port(source), taken)
        if self._superbox.leaving_bytes() > LEAVING_BYTES:
            self._stage_leaving()
        if source.late != "route":
            late = None
        return SetAside(late, null, seq) if late is not None or null is not None else None

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

    def _stated_by(self, source: Source, shard: str) -> int:
        """What a shard had stated before this batch. One that has just appeared starts where its input stands:
        windows below have left, and what would belong there is late."""
        known = self._issued.get(source.name, {})
        if shard not in known:
            stands = min(known.values(), default=BEGINNING)
            self.report(source.name, shard, Extremes(stated=stands))
            return stands
        return known[shard]

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
            "boxes": {name: asdict(w) for name, w in self._superbox.work.items()},
            "now": self._control.now,
            "receipts": self._receipts,
        }
        yield note(OUTLET, self._index % job.settings.buckets, sender, content)

    def _stage_leaving(self) -> None:
        """Hand over what has reached an output, so that a long train needs no more memory than a short one."""
        part = part_number(INTAKE, self._index, len(self._receipts))
        self._receipts.append(self._job.stage_outputs(self._batch, part, self._superbox.leaving, self._control.now))
        self._superbox.leaving.clear()

    def _refuse(self, source: Source, count: InputCount, rejects: pa.Table) -> None:
        refused = int(pc.sum(pc.fill_null(rejects.column("rows"), 1)).as_py() or 0)
        count.refused += refused
        count.read += refused
        self._superbox.push(Port(source, Source.ERRORS), rejects)

    def _punctuation(self, source: Source, shard: str, tuples: pa.Table, count: InputCount) -> pa.Array | None:
        """A mask of the records that are punctuation, not tuples, if the policy knows such records."""
        where = getattr(source.policy, "where", None)
        if where is None:
            return None
        marked = pc.equal(mask((bind_predicate(where, source.tuples),), tuples), 0)
        marked = pc.and_(marked, pc.is_valid(tuples.column(source.on)).combine_chunks())
        values = to_ticks(tuples.column(source.on).filter(marked))
        if len(values):
            count.punctuation += len(values)
            self.report(source.name, shard, Extremes(stated=pc.max(values).as_py()))
        return marked

    def _count_late(self, source: Source, count: InputCount, late: pa.Array, smallest: int, issued: int) -> None:
        number = int(pc.sum(late).as_py())
        if source.late == "error":
            raise WorldError(
                f"{number} late tuple{'s' if number > 1 else ''}, and the input was declared with late='error'",
                network=self._job.plan.network.name,
                box=source.name,
                expected=f"{source.on} >= {tick_text(issued, source.on_type)} ({source.policy.describe()})",
                found=f"{source.on} = {tick_text(smallest, source.on_type)}",
                hint="declare a weaker progress policy, or late='route' to have late tuples set aside",
            )
        count.late += number

    def _route(self, source: Source, tuples: pa.Table, aside: SetAside, origin: str) -> None:
        """Send late tuples to the late stream, and those without a progressing attribute to the error stream."""
        if aside.late is not None:
            late = Port(source, Source.LATE)
            self._superbox.push(late, self._sequenced(late, tuples, aside.seq).filter(aside.late))
        if aside.null is not None:
            self._superbox.push(Port(source, Source.ERRORS), _null_rejects(tuples.filter(aside.null), source, origin))


def _null_rejects(tuples: pa.Table, source: Source, origin: str) -> pa.Table:
    records = kernel.run("SELECT to_json(tuples) AS record FROM tuples", tuples=tuples).column("record")
    rows = tuples.num_rows
    reason = f"{source.on} is NULL: a tuple must have its progressing attribute"
    return pa.table(
        [
            pa.repeat(pa.scalar(origin), rows),
            pa.nulls(rows, pa.int64()),
            records.cast(pa.string()),
            pa.repeat(pa.scalar(reason), rows),
            pa.repeat(pa.scalar(1, pa.int64()), rows),
        ],
        schema=REJECT_SCHEMA,
    )
