"""The board's record of a batch: it follows from the record before and the reports of the batch alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from penstock.algebra.joint_punctuation import Way, shortest
from penstock.algebra.marks import Marks, least
from penstock.algebra.network import Network
from penstock.algebra.source import Source
from penstock.progress.disorder import Disorder, Stretch, joined
from penstock.progress.extremes import Extremes
from penstock.progress.propagation import propagate
from penstock.progress.shards import add_seen, source_marks
from penstock.runtime.board import Need, Record
from penstock.runtime.notes import Report
from penstock.runtime.refusals import Refusals
from penstock.runtime.work import BoxWork, InputCount

Counts = TypeVar("Counts", BoxWork, InputCount)


def next_record(
    network: Network, batch: int, before: Record, reports: Sequence[Report], left: Mapping[str, int]
) -> Record:
    """The record of a batch; `left` says how many tuples left by each output. Who commits the batch adds its own."""
    now = max((report.now for report in reports), default=before.now)
    boxes, shards, buckets = _boxes(before, reports), _shards(before, reports), _buckets(before, reports)
    return replace(
        before,
        batch=batch,
        shards=shards,
        marks=marks_of(network, shards, buckets),
        buckets=buckets,
        inputs=_inputs(network, before, reports),
        boxes=boxes,
        outputs={**before.outputs, **{name: before.outputs.get(name, 0) + rows for name, rows in left.items()}},
        wake=min((report.wake for report in reports if report.wake is not None), default=None),
        waiting=_waiting(before, reports, boxes, now),
        now=now,
        began=before.began or now,
        behind={box: text for report in reports for box, text in report.behind.items()},
        refusals=_refusals(before, reports),
        disorder=_disorder(network, before, reports),
    )


def _shards(before: Record, reports: Iterable[Report]) -> dict[str, dict[str, Extremes]]:
    known = {source: dict(shards) for source, shards in before.shards.items()}
    for report in reports:
        for source, seen in report.shards.items():
            add_seen(known.setdefault(source, {}), seen)
    return known


def _buckets(before: Record, reports: Iterable[Report]) -> dict[str, dict[str, Marks]]:
    known = {port: dict(by_bucket) for port, by_bucket in before.buckets.items()}
    for report in reports:
        for port, marks in report.marks.items():
            known.setdefault(port, {})[str(report.bucket)] = marks
    return known


def marks_of(
    network: Network, shards: Mapping[str, Mapping[str, Extremes]], buckets: Mapping[str, Mapping[str, Marks]]
) -> dict[str, Marks]:
    """The low-water marks of every port, from those of the inputs and of what leaves a stage."""
    known = {s.name: source_marks(s, shards.get(s.name, {})) for s in network.sources}
    known |= {port: least([*by_bucket.values()]) for port, by_bucket in buckets.items()}
    return propagate(network, known)


def _boxes(before: Record, reports: Iterable[Report]) -> dict[str, BoxWork]:
    """Work since the start; what boxes hold is what they hold now."""
    earlier = {box: replace(work, held_rows=0, open_windows=0) for box, work in before.boxes.items()}
    return _added(earlier, (report.boxes for report in reports))


def _inputs(network: Network, before: Record, reports: Sequence[Report]) -> dict[str, InputCount]:
    """All that was read, with zeros for inputs of which no batch has brought anything yet."""
    counts = _added(before.with_inputs(network.sources).inputs, (report.inputs for report in reports))
    for box in network.boxes:
        if box.speaks_for is not None:
            # Judged behind the intake, which has taken them.
            done = [report.boxes[box.name] for report in reports if box.name in report.boxes]
            late, refused = sum(work.late for work in done), sum(work.refused for work in done)
            judged = InputCount(taken=-late - refused, late=late, refused=refused)
            counts[box.speaks_for] = counts.get(box.speaks_for, InputCount()) + judged
    return counts


def _added(before: Mapping[str, Counts], more: Iterable[Mapping[str, Counts]]) -> dict[str, Counts]:
    total = dict(before)
    for counts in more:
        for name, count in counts.items():
            total[name] = total[name] + count if name in total else count
    return total


def _refusals(before: Record, reports: Iterable[Report]) -> dict[str, Refusals]:
    known = dict(before.refusals)
    for report in reports:
        for source, refused in report.refusals.items():
            known[source] = known.get(source, Refusals()).merge(refused)
    return known


def _disorder(network: Network, before: Record, reports: Sequence[Report]) -> dict[str, Mapping[str, Disorder]]:
    whole = dict(before.disorder)
    for source in network.sources:
        if more := _measured(source, reports):
            known = whole.get(source.name, {})
            whole[source.name] = {**known, **{a: known.get(a, Disorder()).merge(d) for a, d in more.items()}}
    return whole


def _measured(source: Source, reports: Iterable[Report]) -> dict[str, Disorder]:
    """What the tasks of a batch have measured of an input, in the order in which they have read."""
    stretches: dict[tuple[str, str], list[Stretch]] = {}
    for report in reports:
        for shard, seen in report.disorder.get(source.name, {}).items():
            for attribute, stretch in seen.items():
                stretches.setdefault((attribute, shard), []).append(stretch)
    whole: dict[str, Disorder] = {}
    for (attribute, _), of_shard in sorted(stretches.items()):
        more = joined(of_shard, in_sequence=source.connector.in_sequence)
        whole[attribute] = whole.get(attribute, Disorder()).merge(more)
    return whole


def _waiting(before: Record, reports: Sequence[Report], boxes: Mapping[str, BoxWork], now: int) -> tuple[Need, ...]:
    """What boxes wait for, over all buckets; who waited for it before has waited since then."""
    found: dict[tuple[str, int, str], int] = {}
    ways: dict[str, list[Way]] = {}
    for report in reports:
        for box, needs in report.needs.items():
            for slot, attribute, tick in needs:
                key = (box, slot, attribute)
                found[key] = min(tick, found.get(key, tick))
        for box, out in report.ways.items():
            ways.setdefault(box, []).extend(out)
    since = {(n.box, n.slot, n.attribute, n.tick): n.since for n in before.waiting}
    return tuple(
        Need(*key, tick, boxes[key[0]].held_rows, since.get((*key, tick), now), tuple(shortest(ways.get(key[0], ()))))
        for key, tick in sorted(found.items())
    )
