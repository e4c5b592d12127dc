"""A superbox: all the boxes of a network that can work at one place, hosted together.

Tuples enter at a port, run through every stateless box in reach, and end in an output or in the entry of a stateful
box. At the stage of that box its holder takes what the entry has sent; what it lets go of runs on in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.box import Box, Output, Port, Stateful, Stateless
from penstock.algebra.error_records import REJECT_SCHEMA
from penstock.algebra.expressions.overflow import completed
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.joint_punctuation import Way
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import to_ticks
from penstock.boxes.table_join.box import TableJoin
from penstock.boxes.table_join.known_rows import KnownRows
from penstock.errors import InternalError, PenstockError, QueryError
from penstock.operators.protocol import Entry, Operator, PartedOperator, Slots
from penstock.plan.plan import Plan
from penstock.progress.propagation import advance
from penstock.progress.usefulness import only_useful
from penstock.runtime.coded_columns import coded_behind
from penstock.runtime.control import Control
from penstock.runtime.refusals import Refusals
from penstock.runtime.traces import Moment
from penstock.runtime.work import BoxWork


@dataclass(frozen=True)
class Departure:
    """A part on its way to the stage of its box."""

    box: Stateful
    part: str
    tuples: pa.Table
    keys: tuple[str, ...] | None


Tables = Callable[[TableJoin, str | None], KnownRows]
"""The rows of a box's static table in the version that the offset names."""


class Superbox:
    """The operators of one place, for the length of one batch."""

    def __init__(
        self,
        plan: Plan,
        place: int,
        control: Control,
        tables: Tables,
        slots: Callable[[str], Slots] | None = None,
        bucket: int = 0,
    ) -> None:
        self._plan = plan
        self._control = control
        self._tables = tables
        self._network = plan.network
        self._operators: dict[str, Operator] = {}
        self._stateful = {b.name: b for b in plan.network.boxes if isinstance(b, Stateful)}
        self._entries: dict[str, Entry] = {}
        self._holders = (
            {b.name: b.holder(slots(b.name), self._needed(b)) for b in plan.stateful(place)} if slots else {}
        )
        self._slots = slots
        self._bucket = bucket
        self.leaving: dict[str, list[pa.Table]] = {}
        """Tuples that have reached an output, by the output's name."""
        self.leaving_marks: dict[str, list[pa.Table]] = {}
        """Marks of groups that have, for targets that keep them."""
        self.work: dict[str, BoxWork] = {}
        self.behind: dict[str, str] = {}
        """Which part of the input of a box is furthest behind, in words."""
        self.hops: dict[str, Moment] = {}
        """When punctuation came to the boxes here, and when it left them."""
        self.refusals: dict[str, Refusals] = {}
        """Why boxes here have refused tuples in the place of an input, by the input's name."""
        self.needs: dict[str, list[tuple[int, str, int]]] = {}
        """What the boxes here wait for: (input, attribute, tick), by the box's name."""
        self.ways: dict[str, Sequence[Way]] = {}
        """Other ways to release them."""

    def push(self, port: Port, tuples: pa.Table) -> None:
        """Tuples appear at a port: every arc that begins there takes them."""
        if not tuples.num_rows:
            return
        for arc in self._network.consumers(port):
            if arc.consumer.takes(arc.slot, self._control.read):
                self._enter(arc.consumer, arc.slot, tuples)

    def leaving_bytes(self) -> int:
        """How much has gathered at the outputs."""
        return sum(t.nbytes for tables in self.leaving.values() for t in tables)

    def receive(self, box: str, part: str, tuples: pa.Table) -> None:
        """A part arrives at the stage of its box."""
        self._holders[box].receive(part, tuples)

    def punctuate(self, known: Mapping[str, Marks]) -> dict[str, Marks]:
        """Close what the low-water marks complete, upstream first, so that results pass through in the same batch.

        The low-water marks of every port, from those known at the entrance of this place.
        """
        marks: dict[str, Marks] = dict(known)
        for box in self._network.boxes:
            # An output may have the name of a box.
            if isinstance(box, Stateful) and box.name in self._holders:
                self._punctuate(box, marks)
            advance(self._network, box, marks)
        return marks

    def _punctuate(self, box: Stateful, marks: dict[str, Marks]) -> None:
        worker, inputs, late = self._holders[box.name], [marks[p.name] for p in box.inputs], box.late_port()
        arrived = time.time_ns() // 1000
        with _Doing(self, box):
            if box.name in self._entries:
                for part, tuples in self._entries.pop(box.name).flush():
                    worker.receive(part, self._stamped(box, part, tuples))
            floors = self._control.floors.get(box.name)
            purged = 0 if floors is None else worker.purge(floors)
            results = list(worker.punctuate(inputs, self._control.now))
            self.work[box.name] += BoxWork(
                tuples_out=sum(t.num_rows for port, t in results if box.delivers(port)),
                late=sum(t.num_rows for port, t in results if port == late),
                refused=sum(t.num_rows for port, t in results if port == box.errors_port()),
                released=worker.released,
                held_rows=self._held(box),
                open_windows=worker.open_windows(inputs),
                purged=purged,
            )
            needs = [(at, on, tick) for at, on, tick in worker.needs(inputs) if not inputs[at].reached(on, tick)]
            if needs:
                self.needs[box.name] = needs
            if ways := worker.ways(inputs):
                self.ways[box.name] = ways
            if (behind := worker.behind()) is not None:
                self.behind[box.name] = behind
            stated = worker.output_marks(inputs)
            if stated is not None:
                marks[box.name] = stated.with_ended(box.has_ended(inputs))
                if self._bucket and all(box.keys(slot) == () for slot in range(len(box.inputs))):
                    # A box without keys lives in bucket 0: here nothing ever leaves it, which holds nobody back.
                    marks[box.name] = stated.at_end()
        if (source := box.speaks_for) is not None:
            for rejects in (t for port, t in results if port == box.errors_port()):
                self.refusals[source] = self.refusals.get(source, Refusals()).add(rejects.select(REJECT_SCHEMA.names))
        self.hops[box.name] = (arrived, time.time_ns() // 1000)
        for index, departing in results:
            self.push(Port(box, index), self._sequenced(Port(box, index), departing))

    def _held(self, box: Stateful) -> int:
        """How many rows a box holds: as it says itself, or all in its slots."""
        held = self._holders[box.name].held()
        return self._slots(box.name).rows() if held is None and self._slots else held or 0

    def wake(self) -> int | None:
        """The clock reading at which a box here wants to be run again, whatever arrives."""
        times = [time for worker in self._holders.values() if (time := worker.wake()) is not None]
        return min(times, default=None)

    def departures(self) -> Iterator[Departure]:
        """What is bound for later stages."""
        for name, worker in self._entries.items():
            box = self._stateful[name]
            with _Doing(self, box):
                parts = list(worker.flush())
            yield from (
                Departure(box, part, self._stamped(box, part, tuples), box.keys(box.slot_of(part)))
                for part, tuples in parts
            )

    def _enter(self, box: Box, slot: int, tuples: pa.Table) -> None:
        if isinstance(box, Output):
            (self.leaving_marks if slot == Output.MARKS else self.leaving).setdefault(box.name, []).append(tuples)
            return
        if box.name in self._control.floors and not (tuples := self._of_use(box, slot, tuples)).num_rows:
            return
        if isinstance(box, Stateless) and box.several:
            self._enter_combined(box, tuples)
            return
        with _Doing(self, box):
            self.work[self._plan.account(box.name)] += BoxWork(tuples_in=tuples.num_rows, calls=1)
            if isinstance(box, Stateful):
                if box.name not in self._entries:
                    self._entries[box.name] = box.entry(self._needed(box))
                self._entries[box.name].process(slot, tuples)
                return
            if not isinstance(box, Stateless):
                raise InternalError(f"nobody does the work of a {box.kind}", box=box.name)
            results = list(self._operator(box).process(slot, tuples))
            self.work[self._plan.account(box.name)] += BoxWork(
                tuples_out=sum(t.num_rows for port, t in results if box.delivers(port)),
                refused=sum(t.num_rows for port, t in results if port == box.errors_port()),
            )
        for index, departing in results:
            self.push(Port(box, index), departing)

    def _of_use(self, box: Box, slot: int, tuples: pa.Table) -> pa.Table:
        """The tuples that are not below the floors of an input of a box; the others are counted."""
        useful = only_useful(tuples, self._control.floors[box.name][slot])
        if skipped := tuples.num_rows - useful.num_rows:
            name = self._plan.stands_for(box)[0]
            self.work[name] = self.work.get(name, BoxWork()) + BoxWork(skipped=skipped)
        return useful

    def _enter_combined(self, box: Stateless, tuples: pa.Table) -> None:
        """Several boxes of the user's in one: its work is told of each of them."""
        operator = cast(PartedOperator, self._operator(box))
        results = list(operator.process(0, tuples))
        for part in operator.parts_done():
            done = BoxWork(tuples_in=part.taken, tuples_out=part.left, seconds=part.seconds, calls=1)
            self.work[part.name] = self.work.get(part.name, BoxWork()) + done
        for index, departing in results:
            self.push(Port(box, index), departing)

    def _stamped(self, box: Stateful, part: str, tuples: pa.Table) -> pa.Table:
        """Tuples with their QoS timestamp: what has none yet has arrived with this batch."""
        if ARRIVED in tuples.column_names or not box.timed(part):
            return tuples
        return tuples.append_column(ARRIVED, pa.repeat(pa.scalar(self._control.now, pa.int64()), tuples.num_rows))

    def _sequenced(self, port: Port, tuples: pa.Table) -> pa.Table:
        return sequenced(port, tuples) if SEQ in self._plan.columns.get(port.name, ()) else tuples

    def _needed(self, box: Stateful) -> tuple[frozenset[str], ...]:
        """The columns that are needed of each output of a box."""
        return tuple(self._plan.columns.get(Port(box, i).name, frozenset()) for i in range(len(box.ports)))

    def _operator(self, box: Stateless) -> Operator:
        if box.name not in self._operators:
            needed = self._plan.columns.get(box.name, frozenset())
            if isinstance(box, TableJoin):
                known = self._tables(box, self._control.tables.get(box.name))
                operator = box.operator(needed, known, coded_behind(self._plan, Port(box)))
            else:
                operator = box.operator(needed)
            self._operators[box.name] = operator
        return self._operators[box.name]


def sequenced(port: Port, tuples: pa.Table) -> pa.Table:
    """Tuples that a box has made, with an arrival order: their attribute's, unless the box has decided on one."""
    if SEQ in tuples.column_names:
        return tuples
    along = [a for a in port.progressing if a in tuples.column_names]
    order = pc.fill_null(to_ticks(tuples.column(along[0])), 0) if along else np.zeros(tuples.num_rows, np.int64)
    return tuples.append_column(SEQ, order if along else pa.array(order))


class _Doing:
    """Accounts the time of a box, and tells an error where it happened."""

    def __init__(self, host: Superbox, box: Box) -> None:
        self._name = host._plan.account(box.name)
        host.work.setdefault(self._name, BoxWork())
        self._work = host.work
        self._box, self._place = box, {"network": host._network.name, "box": self._name}

    def __enter__(self) -> None:
        # The time of this thread on a core: on a busy machine a box waits longer, but costs no more.
        self._began = time.thread_time()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._work[self._name] += BoxWork(seconds=time.thread_time() - self._began)
        if isinstance(error, QueryError):
            completed(error, self._box.describe())
        if isinstance(error, PenstockError):
            error.located(**self._place)
