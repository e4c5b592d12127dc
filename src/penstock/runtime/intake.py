"""The intake: where tuples enter. Its tasks read what the planner has assigned to them.

```
 read_assignment: decode ─> refuse NULLs ─> route late tuples ─> skip useless ones ─> stateless boxes
                  ─> low-level aggregates
                  ─> trains by bucket, and a note with the extremes of every shard
```
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.box import Port
from penstock.algebra.floors import Floors
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.source import Source
from penstock.algebra.ticks import BEGINNING, to_ticks
from penstock.connectors.connector import Chunk, Split
from penstock.connectors.targets.target import OpenPart, Receipt
from penstock.errors import WorldError
from penstock.plan.plan import INTAKE
from penstock.progress.disorder import Gauge, Stretch, Values
from penstock.progress.extremes import NOTHING, Extremes
from penstock.progress.issued import Issued
from penstock.progress.judge import Verdict, judge, strongest, unfit_rejects, unstable_rejects
from penstock.progress.shards import add_seen, stating
from penstock.progress.usefulness import only_useful
from penstock.runtime import traces
from penstock.runtime.allotment import columns_to_read
from penstock.runtime.coded_columns import coded_columns
from penstock.runtime.control import Control
from penstock.runtime.doubtful import in_doubt_below
from penstock.runtime.job import Job, part_number
from penstock.runtime.notes import Note, Report
from penstock.runtime.offsets import Said
from penstock.runtime.planner import Assignment
from penstock.runtime.prepared_rows import prepared_rows
from penstock.runtime.promises import measured
from penstock.runtime.refusals import Refusals
from penstock.runtime.superbox import Superbox
from penstock.runtime.table_versions import tables_of
from penstock.runtime.train import Row, trains
from penstock.runtime.work import InputCount

MOST_ROWS = 1 << 32
MOST_SPLITS = 1 << 20
"""Arrival numbers are (input, split, row): a split has fewer rows, and a batch fewer splits of an input, than these."""
BEFORE_ALL = 1 << 62
LEAVING_BYTES = 128 * 1024 * 1024
"""What a task lets gather at its outputs before it stages a piece of it."""
PIECE_BYTES = 4 * 1024 * 1024
"""What it lets gather before it hands it to those outputs that take a part piece by piece."""


def read_assignment(job: Job, assignment: Assignment, batch: int) -> Iterator[Row]:
    """On a worker: read the splits of a task into rows for Spark, or take what was read ahead."""
    if (prepared := prepared_rows(job, assignment)) is not None:
        yield from prepared
        return
    intake = Intake(job, batch, assignment.index, assignment.issued, assignment.control)
    intake.said = assignment.said
    intake.floors = assignment.floors
    by_name = {s.name: s for s in job.plan.network.sources}
    for seen, shards_of in ((NOTHING, assignment.open), (Extremes(ended=True), assignment.ended)):
        for name, shards in shards_of.items():
            for shard in shards:
                intake.report(name, shard, seen)
    intake.known = assignment.known
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
    doubtful: pa.Array | None = None
    """Which may be late, so that they go on with all columns."""
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
        self._receipts: dict[str, list[Receipt]] = {}
        self._staged = 0
        self._begun: dict[str, OpenPart] = {}
        """Parts of outputs that have taken some of their tuples."""
        self._begun_bytes = 0
        self._arrived = time.time_ns() // 1000
        # Tuples with and without it do not go together: where some bring it along, all have it.
        self._brings = any(s.connector.brings_arrival for s in job.plan.network.sources)
        self.known: Mapping[str, Mapping[str, Extremes]] = {}
        """What all shards had delivered before, where the stages are those of a new version of the network."""
        self.said: Said = ()
        """What this batch says in the place of silent inputs, for traces."""
        self.floors: Mapping[str, Floors] = {}
        """Tuples below these are left out."""

    def report(self, source: str, shard: str, seen: Extremes) -> None:
        add_seen(self._seen.setdefault(source, {}), {shard: seen})

    def state(self, source: Source, shard: str, marks: Marks) -> None:
        """A shard states marks."""
        self.report(source.name, shard, stating(source, marks))

    def take_split(self, source: Source, split: Split, number_of_split: int) -> None:
        """Take one split; its number is its place in the batch."""
        aside: dict[int, SetAside] = {}
        seq = self.first_seq(source, number_of_split)
        columns = columns_to_read(self._job, source)
        connector = source.connector.coding(coded_columns(self._job.plan, source))
        for number, chunk in enumerate(connector.read(split, source.delivered, columns)):
            found = self.take_chunk(source, split.shard, chunk, seq)
            seq += chunk.tuples.num_rows
            if found is not None:
                aside[number] = found
        if not aside:
            return
        # They leave whole: the split, of which only some columns were read, is read once more with all of them.
        origin = split.found_in or source.name
        for number, chunk in enumerate(source.connector.read(split, source.delivered, source.delivered.names)):
            if number in aside:
                self._route(source, chunk, aside[number], origin)

    def first_seq(self, source: Source, split: int) -> int:
        """The arrival number of a split's first tuple: inputs in order of declaration, then splits, then rows."""
        first = (self._order[source.name] * MOST_SPLITS + split) * MOST_ROWS
        # What an arc has brought before comes before all that it brings now, whatever box that stems from.
        return first - BEFORE_ALL if source.connector.catches_up else first

    def take_whole(self, source: Source, shard: str, tuples: pa.Table, seq: int) -> None:
        """Take tuples that have all their columns, so that late ones can be routed at once."""
        for batch in tuples.to_batches():
            chunk = Chunk(batch)
            aside = self.take_chunk(source, shard, chunk, seq)
            seq += batch.num_rows
            if aside is not None:
                self._route(source, chunk, aside, source.name)

    def take_chunk(self, source: Source, shard: str, chunk: Chunk, seq: int = 0) -> SetAside | None:
        """Take one chunk; which of its rows are to be set aside, if there are any. `seq` numbers its first row."""
        if chunk.rejects is not None and chunk.rejects.num_rows:
            rejects = pa.Table.from_batches([chunk.rejects])
            refused = int(pc.sum(pc.fill_null(rejects.column("rows"), 1)).as_py() or 0)
            self._count(source, InputCount(read=refused, refused=refused))
            self._refuse(source, rejects)
        issued = self._stated_by(source, shard)
        self.state(source, shard, strongest(source, chunk.stated).with_joint(chunk.joint))
        tuples = self._with_hidden(Port(source), chunk, seq)
        if source.stamped:
            tuples = self._stamped(source, shard, tuples)
        try:
            verdict = judge(source, tuples, issued)
        except WorldError as error:
            raise error.located(network=self._job.plan.network.name) from None
        if verdict.stated.says_anything:
            self.state(source, shard, verdict.stated)
        self._measure(source, shard, verdict.arrived)
        if (seen := verdict.extremes(source, self._control.now)) is not None:
            self.report(source.name, shard, seen)
        fit = tuples if verdict.taken is None else tuples.filter(verdict.taken)
        # How far the input has come, all of its tuples have said.
        taken = self._useful(source, fit)
        late, refused, told = map(_number, (verdict.late, verdict.unfit, verdict.punctuation))
        if source.refuses_late:
            late, refused = 0, refused + late
        skipped = fit.num_rows - taken.num_rows
        self._count(source, InputCount(tuples.num_rows, taken.num_rows, late, refused, told, skipped))
        doubtful = self._doubtful(source, tuples, verdict)
        sure = None if doubtful is None else pc.invert(doubtful)
        self._superbox.push(Port(source), taken if sure is None else self._useful(source, _both(tuples, verdict, sure)))
        if chunk.groups is not None and source.group_marks:
            self._hear_groups(source, chunk.groups)
        self._hand_over(self._superbox.leaving_bytes())
        routed = verdict.late if source.late == "route" else None
        found = SetAside(routed, verdict.unfit, doubtful, seq)
        return None if routed is None and verdict.unfit is None and doubtful is None else found

    def _useful(self, source: Source, tuples: pa.Table) -> pa.Table:
        return only_useful(tuples, self.floors[source.name]) if source.name in self.floors else tuples

    def _doubtful(self, source: Source, tuples: pa.Table, verdict: Verdict) -> pa.Array | None:
        """A mask of the tuples that lack columns, and may be late where their group is known; or None."""
        if set(self._job.plan.columns[source.name]) - {SEQ} <= set(tuples.column_names):
            return None
        bound = in_doubt_below(self._job, source, self._issued.get(source.name, Issued()))
        smallest, _ = verdict.arrived[0].bounds
        if smallest is None or smallest >= bound:
            return None
        below = pc.fill_null(pc.less(to_ticks(tuples.column(source.on)), bound), False).combine_chunks()
        return below if verdict.taken is None else pc.and_(below, verdict.taken)

    def _hear_groups(self, source: Source, marks: pa.RecordBatch) -> None:
        """Marks of groups that the data states: they have arrived with this batch. Those of others say nothing here."""
        port, rows = Port(source, Source.MARKS), pa.Table.from_batches([marks])
        if rows.column_names != port.schema.names:
            return
        try:
            rows = rows.cast(port.schema)
        except pa.ArrowException as error:
            raise WorldError(
                "the marks of groups in its data do not fit its schema",
                network=self._job.plan.network.name,
                box=source.name,
                found=str(error),
            ) from error
        now = pa.scalar(self._control.now, pa.int64())
        self._superbox.push(port, rows.append_column(ARRIVED, pa.repeat(now, rows.num_rows)))

    def _stamped(self, source: Source, shard: str, tuples: pa.Table) -> pa.Table:
        """Tuples with the clock reading of their batch. No later batch reads the same, so the next tick is stated."""
        if tuples.num_rows:
            self.report(source.name, shard, Extremes(stated=self._control.now + 1))
        stamp = pa.scalar(self._control.now, pa.int64()).cast(source.on_type)
        return tuples.add_column(0, source.on, pa.repeat(stamp, tuples.num_rows))

    def _with_hidden(self, port: Port, chunk: Chunk, seq: int) -> pa.Table:
        """Tuples with their arrival numbers, where a box downstream asks for them, and with QoS timestamps, where some
        input brings its own."""
        tuples = pa.Table.from_batches([chunk.tuples])
        if SEQ in self._job.plan.columns.get(port.name, ()):
            places = np.arange(tuples.num_rows, dtype=np.int64) if chunk.places is None else chunk.places.to_numpy()
            tuples = tuples.append_column(SEQ, pa.array(places + seq))
        if self._brings:
            now = pa.scalar(self._control.now, pa.int64())
            arrived = chunk.arrived if chunk.arrived is not None else pa.repeat(now, tuples.num_rows)
            tuples = tuples.append_column(ARRIVED, arrived)
        return tuples

    def _stated_by(self, source: Source, shard: str) -> Marks:
        """What a shard had stated before this batch; one that was not open states it with this batch."""
        known = self._issued.get(source.name, Issued())
        before = known.before(shard)
        if shard not in known.shards:
            self.state(source, shard, before)
        return before

    def rows(self, *, tell: bool) -> Iterator[Row]:
        """What leaves the task, for the stages and for the outlet; `tell` them what the offset says, too."""
        sender, job = f"intake {self._index:04d}", self._job
        for seq, leaving in enumerate(self._superbox.departures()):
            box, stage = leaving.box, job.plan.stage_of[leaving.box.name]
            yield from trains(
                stage, box.name, leaving.part, sender, seq, leaving.tuples, leaving.keys, job.settings.buckets
            )
        control = self._control if tell else None
        if job.plan.stages:
            yield from Note(sender, self._seen, self.known, control).rows(1, job.settings.buckets)
        if tell:
            for stage in range(2, job.plan.stages + 1):
                yield from Note(sender, control=control).rows(stage, job.settings.buckets)
        self._stage_leaving()
        report = Report(
            sender,
            self._control.now,
            shards=self._seen,
            inputs=self._counts,
            refusals=self._refusals,
            disorder={name: _stretches(shards) for name, shards in self._gauges.items()},
            said=self.said,
            boxes=self._superbox.work,
            hops={traces.INTAKE: (self._arrived, time.time_ns() // 1000)},
            receipts=self._receipts,
        )
        yield report.row(self._index % job.settings.buckets)

    def _hand_over(self, gathered: int) -> None:
        """Let go of what has reached an output, so that a long train needs no more memory than a short one."""
        if gathered + self._begun_bytes > LEAVING_BYTES:
            self._stage_leaving()
        elif gathered > PIECE_BYTES:
            leaving, part = self._superbox.leaving, part_number(INTAKE, self._index, self._staged)
            self._job.begin_outputs(self._batch, part, leaving, self._control.now, self._begun)
            self._begun_bytes += gathered - self._superbox.leaving_bytes()

    def _stage_leaving(self) -> None:
        """Hand over what has reached an output."""
        part = part_number(INTAKE, self._index, self._staged)
        leaving, marks = self._superbox.leaving, self._superbox.leaving_marks
        staged = self._job.stage_outputs(self._batch, part, leaving, self._control.now, marks, self._begun)
        for output, receipt in staged.items():
            self._receipts.setdefault(output, []).append(receipt)
        self._staged += 1
        self._begun, self._begun_bytes = {}, 0
        leaving.clear()
        marks.clear()

    def _measure(self, source: Source, shard: str, values: Sequence[Values]) -> None:
        """Note how far the tuples of a chunk, late ones too, are behind those before them."""
        known = self._issued.get(source.name, Issued()).reached.get(shard, {})
        gauges = self._gauges.setdefault(source.name, {}).setdefault(shard, {})
        for track, each in zip(source.tracks, values, strict=True):
            if measured(source, track):
                gauges.setdefault(track.attribute, Gauge(known.get(track.attribute, BEGINNING))).take(each)

    def _count(self, source: Source, more: InputCount) -> None:
        self._counts[source.name] = self._counts.get(source.name, InputCount()) + more

    def _refuse(self, source: Source, rejects: pa.Table) -> None:
        """Send rejects to the error stream, and note their reasons."""
        self._refusals[source.name] = self._refusals.get(source.name, Refusals()).add(rejects)
        self._superbox.push(Port(source, Source.ERRORS), rejects)

    def _route(self, source: Source, chunk: Chunk, aside: SetAside, origin: str) -> None:
        """Send late tuples to the late stream, and those without a usable time to the error stream; those that may be
        late go on as the others did."""
        if aside.late is not None and source.refuses_late:
            self._refuse(source, unstable_rejects(pa.Table.from_batches([chunk.tuples]).filter(aside.late), origin))
        elif aside.late is not None:
            late = Port(source, Source.LATE)
            self._superbox.push(late, self._with_hidden(late, chunk, aside.seq).filter(aside.late))
        if aside.unfit is not None:
            tuples = pa.Table.from_batches([chunk.tuples])
            self._refuse(source, unfit_rejects(tuples.filter(aside.unfit), source, origin))
        if aside.doubtful is not None:
            whole = self._with_hidden(Port(source), chunk, aside.seq).filter(aside.doubtful)
            self._superbox.push(Port(source), self._useful(source, whole))


def _stretches(shards: Mapping[str, Mapping[str, Gauge]]) -> dict[str, dict[str, Stretch]]:
    """What the gauges of an input show."""
    read = {shard: {a: gauge.stretch() for a, gauge in gauges.items()} for shard, gauges in shards.items()}
    return {shard: {a: s for a, s in of_shard.items() if s is not None} for shard, of_shard in read.items()}


def _both(tuples: pa.Table, verdict: Verdict, chosen: pa.Array) -> pa.Table:
    """The tuples that are taken, and chosen."""
    return tuples.filter(chosen if verdict.taken is None else pc.and_(chosen, verdict.taken))


def _number(mask: pa.Array | None) -> int:
    """How many rows a mask holds for."""
    return 0 if mask is None else int(pc.sum(mask).as_py() or 0)
