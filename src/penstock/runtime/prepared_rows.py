"""Taking what was read ahead of a piece of a history, in the batch that takes the piece (`runtime/reading_ahead.py`).

The rows are those that the batch would read itself, but for the clock reading and the place of the piece in the batch,
which are known only now. If the file is not there, or something of the piece is late by now, the batch reads it itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from penstock.progress.extremes import Extremes
from penstock.progress.issued import Issued
from penstock.runtime import traces
from penstock.runtime.job import Job
from penstock.runtime.notes import Note, Report
from penstock.runtime.planner import Assignment
from penstock.runtime.train import OUTLET, Row, from_batches

OF_THE_BATCH: Final = 1
"""Stands for the clock reading of the batch that takes a piece, which nobody knows when it is read ahead."""


def prepared_rows(job: Job, piece: Assignment) -> list[Row] | None:
    """The rows of a piece that was read ahead; None if it must be read now."""
    if piece.prepared is None or any(name in piece.floors for name, _ in piece.splits):
        return None
    try:
        with pa.memory_map(piece.prepared) as file:
            found = pa.ipc.open_file(file)
            rows = list(from_batches(found.get_batch(at) for at in range(found.num_record_batches)))
    except (OSError, pa.ArrowException):
        return None  # it lies on another machine, or has been taken before
    reports = [Report.from_row(row) for row in rows if row.stage == OUTLET]
    if any(_has_late(job, piece, report) for report in reports):
        return None
    return list(_told_now(job, piece, rows))


def _has_late(job: Job, piece: Assignment, report: Report) -> bool:
    """Whether a piece has tuples below what its input had stated before the batch."""
    by_name = {source.name: source for source in job.plan.network.sources}
    return any(
        track.attribute in stretches
        and stretches[track.attribute].smallest < piece.issued.get(name, Issued()).before(shard).of(track.mark)
        for name, shards in report.disorder.items()
        for shard, stretches in shards.items()
        for track in by_name[name].tracks
    )


def _told_now(job: Job, piece: Assignment, rows: list[Row]) -> Iterator[Row]:
    """The rows as they are if the batch itself reads the piece."""
    sender, now, arrived = f"intake {piece.index:04d}", piece.control.now, time.time_ns() // 1000
    for row in rows:
        if row.is_train:
            yield Row(row.bucket, {**row.header, "from": sender}, row.body)
        elif row.stage == OUTLET:
            report = Report.from_row(row)
            hops = {traces.INTAKE: (arrived, time.time_ns() // 1000)}
            told = replace(report, sender=sender, now=now, shards=_read_at(report.shards, now), hops=hops)
            yield told.row(piece.index % job.settings.buckets)
        else:
            note = Note.from_row(row)
            note = replace(note, sender=sender, shards=_read_at(note.shards, now))
            yield replace(row, header={**row.header, "from": sender, "content": note.to_json()})


def _read_at(shards: Mapping[str, Mapping[str, Extremes]], now: int) -> dict[str, dict[str, Extremes]]:
    return {
        name: {shard: replace(seen, at=now if seen.at else 0) for shard, seen in own.items()}
        for name, own in shards.items()
    }
