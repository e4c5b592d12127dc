"""A superbox: all the boxes of a network that can work at one place, hosted together.

Tuples enter at a port, run through every stateless box in reach, and end in an output or in the entry of a stateful
box. At the stage of that box its holder takes what the entry has sent; what it lets go of runs on in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.algebra.box import Box, Marks, Output, Port, Stateful
from penstock.errors import PenstockError
from penstock.operators.base import Entry, Operator, Slots
from penstock.operators.catalog import entry, holder, operator
from penstock.plan.plan import Plan


@dataclass
class BoxWork:
    """What a box did in one batch at one place; counts add up over places and batches."""

    tuples_in: int = 0
    tuples_out: int = 0
    seconds: float = 0.0
    released: int = 0
    """For a stateful box: tuples that it has let go of for good."""
    held_rows: int = 0
    """For a stateful box: rows in its state, such as partial aggregates."""
    open_windows: int = 0


@dataclass(frozen=True)
class Departure:
    """A part on its way to the stage of its box."""

    box: Stateful
    part: str
    tuples: pa.Table
    keys: tuple[str, ...]


class Superbox:
    """The operators of one place, for the length of one batch."""

    def __init__(self, plan: Plan, place: int, slots: Callable[[str], Slots] | None = None) -> None:
        self._plan = plan
        self._network = plan.network
        self._operators: dict[str, Operator] = {}
        self._stateful = {b.name: b for b in plan.network.boxes if isinstance(b, Stateful)}
        self._entries: dict[str, Entry] = {}
        self._holders = {b.name: holder(b, slots(b.name)) for b in plan.stateful(place)} if slots else {}
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

    def receive(self, box: str, part: str, tuples: pa.Table) -> None:
        """A part arrives at the stage of its box."""
        self._holders[box].receive(part, tuples)

    def punctuate(self, marks: Mapping[str, Marks]) -> None:
        """Close what the low-water marks complete, upstream first, so that results pass through in the same batch."""
        for name, worker in self._holders.items():
            box = self._stateful[name]
            inputs = [marks[p.name] for p in box.inputs]
            with _Doing(self, box) as work:
                if name in self._entries:
                    for part, tuples in self._entries.pop(name).flush():
                        worker.receive(part, tuples)
                results = list(worker.punctuate(inputs))
                work.tuples_out += sum(t.num_rows for _, t in results)
                work.released += worker.released
                work.held_rows += self._slots(name).rows() if self._slots else 0
                work.open_windows += worker.open_windows(inputs)
            for index, departing in results:
                self.push(Port(box, index), departing)

    def departures(self) -> Iterator[Departure]:
        """What is bound for later stages."""
        for name, worker in self._entries.items():
            box = self._stateful[name]
            with _Doing(self, box):
                parts = list(worker.flush())
            yield from (Departure(box, part, tuples, box.keys(box.slot_of(part))) for part, tuples in parts)

    def _enter(self, box: Box, slot: int, tuples: pa.Table) -> None:
        if isinstance(box, Output):
            self.leaving.setdefault(box.name, []).append(tuples)
            return
        with _Doing(self, box) as work:
            work.tuples_in += tuples.num_rows
            if isinstance(box, Stateful):
                if box.name not in self._entries:
                    self._entries[box.name] = entry(box)
                self._entries[box.name].process(slot, tuples)
                return
            results = list(self._operator(box).process(slot, tuples))
            work.tuples_out += sum(t.num_rows for _, t in results)
        for index, departing in results:
            self.push(Port(box, index), departing)

    def _operator(self, box: Box) -> Operator:
        if box.name not in self._operators:
            self._operators[box.name] = operator(box, self._plan.columns.get(box.name, frozenset()))
        return self._operators[box.name]


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
