"""A stage: per bucket, all boxes that can work on one partitioning, with their state.

A task of batch n opens state version n - 1, takes the trains of its bucket in a fixed order, learns the low-water
marks, closes what they complete, writes version n, and sends on what leaves: partial aggregates for later stages,
progress for the next one, receipts and statistics for the outlet. Rows for later places pass through untouched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from penstock.algebra.box import Box, Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.errors import WorldError
from penstock.progress.shards import add_seen, read_shards, source_marks
from penstock.runtime.control import Control
from penstock.runtime.job import Job, part_number
from penstock.runtime.superbox import Superbox
from penstock.runtime.table_versions import tables_of
from penstock.runtime.train import OUTLET, Row, note, trains
from penstock.storage.sealed import RESTORE
from penstock.storage.state import State


def run_stage(job: Job, stage: int, bucket: int, batch: int, rows: Iterable[Row]) -> Iterator[Row]:
    """On a worker: one bucket of one stage in one batch."""
    arrived: list[Row] = []
    notes: list[Row] = []
    for row in rows:
        if row.stage != stage:
            yield row
        elif row.header["kind"] == "train":
            arrived.append(row)
        else:
            notes.append(row)
    job.check_claim()  # who has lost the checkpoint is told so, and not of versions that are not there for it
    state = _open(job, stage, bucket, batch, notes)
    control = _control(state.memo, notes)
    superbox = Superbox(job.plan, stage, control, tables_of(job), state.slots, bucket)
    for row in sorted(arrived, key=lambda r: r.order):
        superbox.receive(row.header["box"], row.header["part"], row.tuples())
    notes.sort(key=lambda r: str(r.header["from"]))
    marks = superbox.punctuate(_known_marks(job, stage, state.memo, notes))
    sender = f"stage {stage} bucket {bucket:04d}"
    for seq, leaving in enumerate(superbox.departures()):
        box, target = leaving.box, job.plan.stage_of[leaving.box.name]
        yield from trains(
            target, box.name, leaving.part, sender, seq, leaving.tuples, leaving.keys, job.settings.buckets
        )
    yield from _progress_notes(job, stage, bucket, sender, state.memo, marks)
    receipts = job.stage_outputs(batch, part_number(stage, bucket), superbox.leaving, control.now)
    job.check_claim()
    state.save()
    content = {
        "boxes": {name: asdict(w) for name, w in superbox.work.items()},
        "receipts": [receipts],
        "marks": {b.name: marks[b.name] for b in job.plan.stateful(stage)},
        "bucket": bucket,
        "wake": superbox.wake(),
        "needs": superbox.needs,
        "ways": superbox.ways,
        "hops": superbox.hops,
        "behind": superbox.behind,
        "now": control.now,
    }
    yield note(OUTLET, bucket, sender, content)


def _open(job: Job, stage: int, bucket: int, batch: int, notes: list[Row]) -> State:
    """The state that the batch before has left; where that ran another version of the network, what is kept of it."""
    folder, inherited = job.state(stage, bucket), job.inherited
    if all(each["before"] in (0, job.version) for each in _controls(notes)):
        return State(folder, batch)
    state = State(folder, batch, empty=stage > inherited.stages)
    here = [box.name for box in job.plan.stateful(stage)]
    for name in [*state.boxes(), *here]:
        if name not in here or name not in inherited.boxes:
            state.drop(name)
    for name in here:
        if inherited.boxes.get(name, stage) != stage:
            state.adopt(name, State(job.state(inherited.boxes[name], bucket), batch))
    # Whoever stands before or behind this stage now may be another one: everything is said once more.
    state.memo.pop("heard", None)
    state.memo["again"] = True
    return state


def _controls(notes: list[Row]) -> list[dict[str, Any]]:
    return [row.header["content"]["control"] for row in notes if "control" in row.header["content"]]


def _control(memo: dict[str, Any], notes: list[Row]) -> Control:
    """What the intake says of this batch; its tables stay as they were when it says nothing."""
    for each in _controls(notes):
        if each["start"] and memo.get("offset", each["start"]) != each["start"]:
            raise WorldError(
                "the state of a stage was made for another plan of the batch before this one",
                expected=f"the offset that comes to {each['start']}",
                found=f"one that comes to {memo['offset']}",
                hint=RESTORE,
            )
        if each["end"]:
            memo["offset"] = each["end"]
        memo["now"] = max(each["now"], memo.get("now", 0))
        memo["tables"] = {**memo.get("tables", {}), **each["tables"]}
    return Control(memo.get("now", 0), memo.get("tables", {}))


def _known_marks(job: Job, stage: int, memo: dict[str, Any], notes: list[Row]) -> dict[str, Marks]:
    """The low-water marks at the entrance of a stage, from what its memo and the notes of this batch say."""
    if stage == 1:
        return _source_marks(job, memo, notes)
    heard: dict[str, dict[str, dict[str, int]]] = memo.setdefault("heard", {})
    for row in (r for r in notes if "marks" in r.header["content"]):
        heard.setdefault(row.header["from"], {}).update(row.header["content"]["marks"])
    silent = len(heard) < job.settings.buckets
    known: dict[str, Marks] = {}
    for box in _producers(job, before=stage):
        known[box.name] = {
            a: BEGINNING if silent else min(said.get(box.name, {}).get(a, BEGINNING) for said in heard.values())
            for a in box.marked(0)
        }
    return known


def _source_marks(job: Job, memo: dict[str, Any], notes: list[Row]) -> dict[str, Marks]:
    # With a new version of the network the intake says all that is known of the inputs that stay.
    told = [row.header["content"]["known"] for row in notes if "known" in row.header["content"]]
    before = {} if memo.get("again") else memo.get("shards", {})
    shards = {source: read_shards(known) for each in (before, *told) for source, known in each.items()}
    for row in notes:
        for source, seen in row.header["content"].get("shards", {}).items():
            add_seen(shards.setdefault(source, {}), read_shards(seen))
    memo["shards"] = {source: {shard: asdict(e) for shard, e in known.items()} for source, known in shards.items()}
    return {s.name: source_marks(s, shards.get(s.name, {})) for s in job.plan.network.sources}


def _progress_notes(
    job: Job, stage: int, bucket: int, sender: str, memo: dict[str, Any], marks: Mapping[str, Marks]
) -> Iterator[Row]:
    """Tell every bucket of the next stage how far this one has come; nothing when it would only repeat itself."""
    if stage == job.plan.stages:
        memo.pop("again", None)
        return
    rolled = {
        b.name: {a: _rolled_up(mark, job.plan.steps[b.name]) for a, mark in marks[b.name].items()}
        for b in _producers(job, before=stage + 1)
    }
    sent = memo.get("sent", {})
    if memo.pop("again", False):
        # What a new version rolls up more coarsely must not take back what was said.
        for name in rolled.keys() & sent.keys() & {*job.inherited.boxes, *_staying_inputs(job)}:
            rolled[name] = {a: max(mark, sent[name].get(a, mark)) for a, mark in rolled[name].items()}
    elif sent == rolled:
        return
    memo["sent"] = rolled
    for to in range(job.settings.buckets):
        yield note(stage + 1, to, sender, {"marks": rolled})


def _staying_inputs(job: Job) -> list[str]:
    return [s.name for s in job.plan.network.sources if not job.is_new("input", s.name)]


def _producers(job: Job, *, before: int) -> list[Box]:
    """The boxes whose progress enters a stage from outside: all sources, and the stateful boxes of earlier stages."""
    return [*job.plan.network.sources, *(b for stage in range(1, before) for b in job.plan.stateful(stage))]


def _rolled_up(mark: int, step: int) -> int:
    return mark if mark in (BEGINNING, END) else mark // step * step
