"""A stage: per bucket, all boxes that can work on one partitioning, with their state.

A task of batch n opens state version n - 1, takes the trains of its bucket in a fixed order, learns the low-water
marks, closes what they complete, writes version n, and sends on what leaves: partial aggregates for later stages,
progress for the next one, receipts and statistics for the outlet. Rows for later places pass through untouched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from penstock.algebra.box import Box
from penstock.algebra.marks import UNKNOWN, Marks, most
from penstock.algebra.source import Source
from penstock.errors import WorldError
from penstock.progress.between_stages import heard, rolled_up
from penstock.progress.shards import add_seen, source_marks
from penstock.runtime.control import Control
from penstock.runtime.job import Job, part_number
from penstock.runtime.memo import Memo
from penstock.runtime.notes import Note, Report
from penstock.runtime.superbox import Superbox
from penstock.runtime.table_versions import tables_of
from penstock.runtime.train import Row, trains
from penstock.storage.sealed import RESTORE
from penstock.storage.state import State


def run_stage(job: Job, stage: int, bucket: int, batch: int, rows: Iterable[Row]) -> Iterator[Row]:
    """On a worker: one bucket of one stage in one batch."""
    arrived: list[Row] = []
    notes: list[Note] = []
    for row in rows:
        if row.stage != stage:
            yield row
        elif row.is_train:
            arrived.append(row)
        else:
            notes.append(Note.from_row(row))
    notes.sort(key=lambda note: note.sender)
    job.check_claim()  # who has lost the checkpoint is told so, and not of versions that are not there for it
    state, memo, anew = _open(job, stage, bucket, batch, notes)
    memo = _told(memo, notes)
    read = tuple(sorted({name for control in _controls(notes) for name in control.read}))
    floors = {box: each for control in _controls(notes) for box, each in control.floors.items()}
    control = Control(memo.now, memo.tables, read=read, floors=floors)
    superbox = Superbox(job.plan, stage, control, tables_of(job), state.slots, bucket)
    for row in sorted(arrived, key=lambda r: r.order):
        superbox.receive(row.header["box"], row.header["part"], row.tuples())
    memo = _with_shards(memo, notes, anew=anew) if stage == 1 else _with_marks(memo, notes)
    marks = superbox.punctuate(_source_marks(job, memo) if stage == 1 else _heard_marks(job, stage, memo))
    sender = f"stage {stage} bucket {bucket:04d}"
    for seq, leaving in enumerate(superbox.departures()):
        box, target = leaving.box, job.plan.stage_of[leaving.box.name]
        yield from trains(
            target, box.name, leaving.part, sender, seq, leaving.tuples, leaving.keys, job.settings.buckets
        )
    if stage < job.plan.stages:
        rolled = _rolled_marks(job, stage, memo, marks, anew=anew)
        if anew or rolled != memo.sent:  # else it would only repeat itself
            memo = replace(memo, sent=rolled)
            yield from Note(sender, marks=rolled).rows(stage + 1, job.settings.buckets)
    receipts = job.stage_outputs(batch, part_number(stage, bucket), superbox.leaving, memo.now, superbox.leaving_marks)
    job.check_claim()
    state.memo = memo.to_json()
    state.save()
    report = Report(
        sender,
        memo.now,
        boxes=superbox.work,
        refusals=superbox.refusals,
        bucket=bucket,
        marks={b.name: marks[b.name] for b in job.plan.stateful(stage)},
        wake=superbox.wake(),
        needs=superbox.needs,
        ways=superbox.ways,
        behind=superbox.behind,
        hops=superbox.hops,
        receipts={output: (receipt,) for output, receipt in receipts.items()},
    )
    yield report.row(bucket)


def _open(job: Job, stage: int, bucket: int, batch: int, notes: Sequence[Note]) -> tuple[State, Memo, bool]:
    """The state that the batch before has left, its memo, and whether the stage begins anew.

    It does where the batch before ran another version of the network: then it is what is kept of the state.
    """
    folder, inherited = job.state(stage, bucket), job.inherited
    if all(control.before in (0, job.version) for control in _controls(notes)):
        state = State(folder, batch)
        return state, Memo.from_json(state.memo), False
    state = State(folder, batch, empty=stage > inherited.stages)
    here = [box.name for box in job.plan.stateful(stage)]
    for name in [*state.boxes(), *here]:
        if name not in here or name not in inherited.boxes:
            state.drop(name)
    for name in here:
        if inherited.boxes.get(name, stage) != stage:
            state.adopt(name, State(job.state(inherited.boxes[name], bucket), batch))
    # Whoever stands before or behind this stage now may be another one: everything is said once more.
    return state, replace(Memo.from_json(state.memo), heard={}), True


def _controls(notes: Sequence[Note]) -> list[Control]:
    return [note.control for note in notes if note.control is not None]


def _told(memo: Memo, notes: Sequence[Note]) -> Memo:
    """A memo with what the intake says of this batch; tables stay as they were when it says nothing."""
    for control in _controls(notes):
        if control.start and memo.offset and memo.offset != control.start:
            raise WorldError(
                "the state of a stage was made for another plan of the batch before this one",
                expected=f"the offset that comes to {control.start}",
                found=f"one that comes to {memo.offset}",
                hint=RESTORE,
            )
        memo = replace(
            memo,
            offset=control.end or memo.offset,
            now=max(control.now, memo.now),
            tables={**memo.tables, **control.tables},
        )
    return memo


def _with_shards(memo: Memo, notes: Sequence[Note], *, anew: bool) -> Memo:
    """What shards have delivered, with what the intake has seen of them in this batch."""
    # With a new version of the network the intake says all that is known of the inputs that stay.
    known = [note.known for note in notes]
    shards = {name: dict(each) for told in ({} if anew else memo.shards, *known) for name, each in told.items()}
    for note in notes:
        for name, seen in note.shards.items():
            add_seen(shards.setdefault(name, {}), seen)
    return replace(memo, shards=shards)


def _with_marks(memo: Memo, notes: Sequence[Note]) -> Memo:
    """What the stages before have told, with what they tell in this batch."""
    told = dict(memo.heard)
    for note in notes:
        if note.marks:
            told[note.sender] = {**told.get(note.sender, {}), **note.marks}
    return replace(memo, heard=told)


def _source_marks(job: Job, memo: Memo) -> dict[str, Marks]:
    """The low-water marks at the entrance of the first stage."""
    return {s.name: source_marks(s, memo.shards.get(s.name, {})) for s in job.plan.network.sources}


def _heard_marks(job: Job, stage: int, memo: Memo) -> dict[str, Marks]:
    """The low-water marks at the entrance of a later stage: the minimum over the buckets before it, once all spoke."""
    told, buckets = memo.heard.values(), job.settings.buckets
    return {
        box.name: heard(
            box.shape(0), [said.get(box.name, UNKNOWN) for said in told], buckets, jointly=isinstance(box, Source)
        )
        for box in _producers(job, before=stage)
    }


def _rolled_marks(job: Job, stage: int, memo: Memo, marks: Mapping[str, Marks], *, anew: bool) -> dict[str, Marks]:
    """How far this stage has come, for every bucket of the next one."""
    rolled = {
        box.name: rolled_up(marks[box.name], job.plan.steps[box.name], jointly=isinstance(box, Source))
        for box in _producers(job, before=stage + 1)
    }
    if anew:
        # What a new version rolls up more coarsely must not take back what was said.
        for name in rolled.keys() & memo.sent.keys() & {*job.inherited.boxes, *_staying_inputs(job)}:
            rolled[name] = most([rolled[name], memo.sent[name]]).shaped(rolled[name])
    return rolled


def _staying_inputs(job: Job) -> list[str]:
    return [s.name for s in job.plan.network.sources if not job.is_new("input", s.name)]


def _producers(job: Job, *, before: int) -> list[Box]:
    """The boxes whose progress enters a stage from outside: all sources, and the stateful boxes of earlier stages."""
    return [*job.plan.network.sources, *(b for stage in range(1, before) for b in job.plan.stateful(stage))]
