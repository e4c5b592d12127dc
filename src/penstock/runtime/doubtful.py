"""Which tuples of an input may turn out to be late where each group has a mark of its own.

A stage judges them, and late ones leave whole. But hardly any is late, and to read all columns for the sake of these
takes longer than everything else. No group can have a mark above the largest value that the input had delivered before
the batch, less its delay; nor can the stream, but for what the input itself has stated. So only tuples below that are
in doubt: they are read once more, with all columns.
"""

from __future__ import annotations

from penstock.algebra.box import Port
from penstock.algebra.source import Source
from penstock.algebra.ticks import BEGINNING
from penstock.boxes.group_marks.box import GroupMarks
from penstock.progress.issued import Issued
from penstock.runtime.job import Job


def columns_surely_needed(job: Job, source: Source) -> frozenset[str]:
    """The columns of an input that are needed of tuples which are not in doubt; where there is none, of all."""
    columns = job.plan.columns
    box = _judge(job, source)
    return frozenset(columns[source.name]) if box is None else box.passed(frozenset(columns.get(box.name, ())))


def in_doubt_below(job: Job, source: Source, issued: Issued) -> int:
    """The tick below which tuples of an input are in doubt, if they lack columns."""
    box = _judge(job, source)
    if box is None:
        return BEGINNING
    (track,) = source.tracks
    largest = max((reached.get(box.on, BEGINNING) for reached in issued.reached.values()), default=BEGINNING)
    stated = [issued.stands, *issued.shards.values()]
    return max(
        largest - box.delay if largest > BEGINNING + box.delay else BEGINNING, *(m.of(track.mark) for m in stated)
    )


def _judge(job: Job, source: Source) -> GroupMarks | None:
    """The box that judges an input's tuples by their groups, if they can be read again, and are known by one time.

    What a history has delivered before is not told to who reads it ahead. And where a change has brought another input
    before a box that was there already, the box knows of marks that this input has not brought.
    """
    if source.connector.catches_up or source.stamped or len(source.tracks) > 1 or source.tracks[0].descending:
        return None
    boxes = [arc.consumer for arc in job.plan.network.consumers(Port(source))]
    if len(boxes) != 1 or not isinstance(boxes[0], GroupMarks):
        return None
    return boxes[0] if job.birth("input", source.name) <= job.birth("box", boxes[0].name) else None
