"""What a new version of a network takes over from the board's last record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from penstock.algebra.box import Box, Output
from penstock.algebra.source import Source
from penstock.runtime.board import Record
from penstock.runtime.job import Job
from penstock.runtime.next_record import marks_of

V = TypeVar("V")


def carried(record: Record, job: Job) -> Record:
    """The record as a version of the network sees it: parts that are gone, or begin with it, have done nothing yet."""
    if record.version == job.version:
        return record
    network = job.plan.network
    inputs = _staying(job, "input", network.sources)
    boxes = _staying(job, "box", (b for b in network.boxes if not isinstance(b, Source | Output)))
    outputs = _staying(job, "output", network.outputs)
    known = inputs | boxes
    shards, buckets = _only(record.shards, inputs), _only(record.buckets, boxes)
    return replace(
        record,
        version=job.version,
        shards=shards,
        # Where the same network is arranged in another way, a stream that leaves has been told what it was told before.
        marks=marks_of(network, shards, buckets) if job.inherited.same else record.marks,
        buckets=buckets,
        inputs=_only(record.inputs, inputs),
        refusals=_only(record.refusals, inputs),
        disorder=_only(record.disorder, inputs),
        boxes=_only(record.boxes, known),
        outputs=_only(record.outputs, outputs),
        committed=_only(record.committed, outputs),
        waiting=[need for need in record.waiting if need.box in boxes],
        behind=_only(record.behind, known),
    )


def _staying(job: Job, role: str, parts: Iterable[Box]) -> set[str]:
    names = [n for part in parts for n in ((part.name,) if role == "output" else job.plan.stands_for(part))]
    return {name for name in names if not job.is_new(role, name)}


def _only(values: Mapping[str, V], names: set[str]) -> dict[str, V]:
    return {name: value for name, value in values.items() if name in names}
