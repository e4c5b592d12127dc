"""A superbox: all the boxes of a network that can work at one place, hosted together.

Tuples enter at a port or as partial aggregates, run through every stateless box in reach, and end in an output, in the
low-level half of an Aggregate, or, at its stage, in the high-level half, from where results go on in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.algebra.box import Aggregate, Box, Filter, Map, Marks, Output, Port, Union
from penstock.errors import InternalError, PenstockError
from penstock.operators.aggregate import AggregateOp
from penstock.operators.base import Operator, Slots
from penstock.operators.filter import FilterOp
from penstock.operators.map import MapOp
from penstock.operators.subaggregate import SubAggregateOp
from penstock.operators.union import UnionOp
from penstock.plan.plan import Plan


@dataclass
class BoxWork:
    """What a box did in one batch at one place; counts add up over places and batches."""

    tuples_in: int = 0
    tuples_out: int = 0
    seconds: float = 0.0
    released: int = 0
    """For an Aggregate: tuples whose last window has closed."""
    held_rows: int = 0
    """For an Aggregate: partial aggregates and values in its state."""
    open_windows: int = 0


@dataclass(frozen=True)
class Departure:
    """Partial aggregates on their way to the stage of their box."""

    box: Aggregate
    part: str
    tuples: pa.Table


class Superbox:
    """The operators of one place, for the length of one batch."""

    def __init__(self, plan: Plan, place: int, slots: Callable[[str], Slots] | None = None) -> None:
        self._plan = plan
        self._network = plan.network
        self._operators: dict[str, Operator] = {}
        self._low: dict[str, SubAggregateOp] = {}
        self._high = {b.name: AggregateOp(b, slots(b.name)) for b in plan.aggregates(place)} if slots else {}
        self._slots = slots
        self.leaving: dict[str, list[pa.Table]] = {}
        """Tuples that have reached an output, by the output's name."""
        self.work: dict[str, BoxWork] = {}

    def push(self, port: Port, tuples: pa.Table) -> None:
        """Tuples appear at a port: every arc that begins there takes them."""
        if not tuples.num_rows:
            return
        for arc in self._network.consumers(port):
            self._enter(arc.consumer, arc.slot, tuples)

    def leaving_bytes(self) -> int:
        """How much has gathered at the outputs."""
        return sum(t.nbytes for tables in self.leaving.values() for t in tables)

    def receive(self, box: str, part: str, partials: pa.Table) -> None:
        """Partial aggregates arrive at the stage of their box."""
        self._high[box].receive(part, partials)

    def punctuate(self, marks: Mapping[str, Marks]) -> None:
        """Close what the low-water marks complete, upstream first, so that results pass through in the same batch."""
        for name, operator in self._high.items():
            box = next(b for b in self._network.boxes if b.name == name and isinstance(b, Aggregate))
            with _Doing(self, box) as work:
                if name in self._low:
                    for part, partials in self._low.pop(name).flush():
                        operator.receive(part, partials)
                results = list(operator.punctuate([marks[p.name] for p in box.inputs]))
                work.tuples_out += sum(t.num_rows for _, t in results)
                work.released += operator.released
                work.held_rows += self._slots(name).rows() if self._slots else 0
                work.open_windows += operator.open_windows(marks[box.inputs[0].name][box.on])
            for index, tuples in results:
                self.push(Port(box, index), tuples)

    def departures(self) -> Iterator[Departure]:
        """The partial aggregates that are bound for later stages."""
        for name, operator in self._low.items():
            box = next(b for b in self._network.boxes if b.name == name and isinstance(b, Aggregate))
            with _Doing(self, box):
                parts = list(operator.flush())
            yield from (Departure(box, part, tuples) for part, tuples in parts)

    def _enter(self, box: Box, slot: int, tuples: pa.Table) -> None:
        if isinstance(box, Output):
            self.leaving.setdefault(box.name, []).append(tuples)
            return
        with _Doing(self, box) as work:
            work.tuples_in += tuples.num_rows
            if isinstance(box, Aggregate):
                if box.name not in self._low:
                    self._low[box.name] = SubAggregateOp(box)
                self._low[box.name].process(tuples)
                return
            results = list(self._operator(box).process(slot, tuples))
            work.tuples_out += sum(t.num_rows for _, t in results)
        for index, departing in results:
            self.push(Port(box, index), departing)

    def _operator(self, box: Box) -> Operator:
        if box.name not in self._operators:
            self._operators[box.name] = self._make(box)
        return self._operators[box.name]

    def _make(self, box: Box) -> Operator:
        match box:
            case Filter():
                return FilterOp(box)
            case Map():
                return MapOp(box, self._plan.columns[box.name])
            case Union():
                return UnionOp(box, self._plan.columns[box.name])
        raise InternalError(f"there is no operator for a {box.kind}", box=box.name)


class _Doing:
    """Accounts the time of a box, and tells an error where it happened."""

    def __init__(self, host: Superbox, box: Box) -> None:
        self._work = host.work.setdefault(box.name, BoxWork())
        self._place = {"network": host._network.name, "box": box.name}

    def __enter__(self) -> BoxWork:
        self._began = time.perf_counter()
        return self._work

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._work.seconds += time.perf_counter() - self._began
        if isinstance(error, PenstockError):
            error.located(**self._place)
