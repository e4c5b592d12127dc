"""What boxes cost and let through, smoothed over batches: from the board's records, and from nothing else.

A batch counts for a half, the one before it for a quarter, and so on. So a change of the data shows within a few
batches. A call of a box costs something, however few tuples it is given, and nobody can tell that from the cost of the
tuples. It is taken to be what a fixed number of tuples cost. Where that matters, because a box gets few tuples now,
what was measured on many still counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final

from penstock.plan.optimize import BoxCost, Statistics
from penstock.runtime.board import Record
from penstock.runtime.work import BoxWork, InputCount

NEWEST: Final = 0.5
"""How much the newest batch counts for."""
SURE_TUPLES: Final = 1_000
"""From so many tuples on a batch says what it can of the selectivity of a box."""
CALL_TUPLES: Final = 10_000
"""A call is taken to cost by itself as much as so many tuples of the box."""
FEW: Final = 0.25
"""Calls with less than this share of the tuples that its cost was measured on say nothing new of a box."""
FORGETTING: Final = 0.98
"""How calls with many tuples, on which the cost of a box was measured, lose weight from batch to batch."""
NOTABLE: Final = 0.1
"""By how much a number must have changed to be worth another look."""


@dataclass(frozen=True)
class Measured:
    """What is known of a box."""

    seconds: float
    """For each tuple, calls not counted."""
    selectivity: float
    tuples: float
    """That it takes in a batch."""
    at_once: float
    """Tuples of a call, where its cost was measured best."""

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Measured:
        return Measured(*(float(document[key]) for key in ("seconds", "selectivity", "tuples", "at_once")))


@dataclass(frozen=True)
class BoxStatistics:
    """What is known of all boxes and inputs after a batch."""

    batch: int
    boxes: Mapping[str, Measured]
    inputs: Mapping[str, float]
    """Tuples of a batch, by input."""
    call: float = 0.0
    """Seconds that a call of a box costs, whatever it is given."""
    calls: float = 0.0
    """Calls of a box in a batch."""
    spent: float | None = None
    """Seconds that all boxes take for each tuple of the inputs, since the network was last arranged."""

    def after(self, before: Record, record: Record, disturbed: Collection[str] = ()) -> BoxStatistics:
        """What is known after another batch; the selectivity of `disturbed` boxes is not their own for now."""
        if record.batch != before.batch + 1:
            return replace(self, batch=record.batch)
        # Workers load a new version of the network in its first batch.
        fresh = record.version != before.version or record.batch == 0
        done = {name: _since(before.boxes.get(name, BoxWork()), work) for name, work in record.boxes.items()}
        done = {name: work for name, work in done.items() if work.tuples_in > 0 and work.calls > 0}
        taken = {name: n for name, n in taken_since(before, record).items() if n > 0}
        tuples = sum(taken.values())
        call, calls, spent = self.call, self.calls, None if record.version != before.version else self.spent
        if done and not fresh:
            call = _towards(call or None, median(_cost(work) * CALL_TUPLES for work in done.values()), NEWEST)
            calls = _towards(calls or None, max(work.calls for work in done.values()), NEWEST)
            spent = _towards(spent, sum(work.seconds for work in done.values()) / tuples, NEWEST) if tuples else spent
        boxes = dict(self.boxes)
        for name, work in done.items():
            boxes[name] = _measured(boxes.get(name), work, fresh=fresh, own=name not in disturbed)
        inputs = {name: _towards(self.inputs.get(name), float(n), NEWEST) for name, n in taken.items()}
        return BoxStatistics(record.batch, boxes, {**self.inputs, **inputs}, call, calls, spent)

    def known(self) -> Statistics:
        """For the optimizer."""
        boxes = {name: BoxCost(box.seconds, box.selectivity) for name, box in self.boxes.items()}
        return Statistics(boxes, self.inputs, self.call * self.calls)

    def differs(self, other: BoxStatistics | None) -> bool:
        """Whether something has changed that could make another arrangement better."""
        if other is None or other.boxes.keys() != self.boxes.keys():
            return True
        pairs = [(box, other.boxes[name]) for name, box in self.boxes.items()]
        return any(
            abs(a.selectivity - b.selectivity) > NOTABLE * max(a.selectivity, b.selectivity)
            or abs(a.seconds - b.seconds) > NOTABLE * max(a.seconds, b.seconds)
            for a, b in pairs
        )

    def to_json(self) -> dict[str, Any]:
        boxes = {name: box.to_json() for name, box in self.boxes.items()}
        return {**vars(self), "boxes": boxes, "inputs": dict(self.inputs)}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> BoxStatistics:
        spent = document["spent"]
        return BoxStatistics(
            int(document["batch"]),
            {str(name): Measured.from_json(box) for name, box in document["boxes"].items()},
            {str(name): float(n) for name, n in document["inputs"].items()},
            float(document["call"]),
            float(document["calls"]),
            None if spent is None else float(spent),
        )


NOTHING_YET: Final = BoxStatistics(-1, {}, {})


def taken_since(before: Record, record: Record) -> dict[str, int]:
    """How many tuples inputs have brought between two records."""
    return {name: count.taken - before.inputs.get(name, InputCount()).taken for name, count in record.inputs.items()}


def _measured(known: Measured | None, work: BoxWork, *, fresh: bool, own: bool) -> Measured:
    tuples, at_once, cost = work.tuples_in, work.tuples_in / work.calls, _cost(work)
    let_through = work.tuples_out / tuples
    if known is None:
        return Measured(cost, let_through, tuples, at_once if not fresh else 1.0)
    share = 0.0 if fresh else at_once / known.at_once
    weight = min(1.0, NEWEST * share) if share >= FEW else 0.0
    enough = min(1.0, tuples / SURE_TUPLES) if own else 0.0
    return Measured(
        _towards(known.seconds, cost, weight),
        _towards(known.selectivity, let_through, NEWEST * enough),
        _towards(known.tuples, tuples, NEWEST),
        max(known.at_once * FORGETTING, 1.0 if fresh else at_once),
    )


def _cost(work: BoxWork) -> float:
    """What a tuple costs."""
    return work.seconds / (work.tuples_in + work.calls * CALL_TUPLES)


def _since(before: BoxWork, after: BoxWork) -> BoxWork:
    """What a box did between two records."""
    return BoxWork(
        tuples_in=after.tuples_in - before.tuples_in,
        tuples_out=after.tuples_out - before.tuples_out,
        seconds=max(0.0, after.seconds - before.seconds),
        calls=after.calls - before.calls,
    )


def _towards(known: float | None, new: float, weight: float) -> float:
    return new if known is None else known + weight * (new - known)
