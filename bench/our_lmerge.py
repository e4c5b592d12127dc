"""Copies of a temporal stream with the parameters of lmerge.md VI-B, and the operators of LMerge alone on them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import penstock as pk
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.source import Source
from penstock.algebra.temporal.elements import ADJUST, INSERT, element_schema
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.lmerge.box import LMerge
from penstock.operators.groups import number
from penstock.operators.protocol import Holder
from penstock.testing.memory_slots import MemorySlots

Numbers = npt.NDArray[np.int64]

MAX_GAP_MS: Final = 20_000
LARGEST: Final = 400
DISPLACED: Final = 100
"""A disordered element comes at most so many elements later; so does an adjust behind its insert."""
A_SECOND: Final = 5_000
"""Elements that an input brings in a second, where lag is given in seconds."""
PAYLOAD: Final = (pa.field("n", pa.int64()), pa.field("s", pa.string()))
SCHEMA: Final = element_schema(PAYLOAD, pa.int64())
CLEANSED: Final = "C+R1"


@dataclass(frozen=True)
class Load:
    """What the copies are like."""

    events: int
    inputs: int
    payload: int = 1000
    """Bytes of its text."""
    disorder: float = 0.0
    """The share of elements that come late."""
    adjusts: float = 0.0
    """The share of elements that are adjusts."""
    stable_freq: float = 0.01
    """How many of a hundred elements are stable points, over a hundred."""
    lag: float = 0.0
    """Seconds that all copies but the first are behind."""
    lifetime: int | None = None
    """In ms; without it a twentieth of all events is active at a time: 10,000 of 200,000."""
    train: int = 4096


@dataclass
class Reached:
    """What an operator has reached on a load."""

    elements: int = 0
    seconds: float = 0.0
    state_bytes: int = 0
    """The most Arrow bytes in its slots between two batches."""
    inserts: int = 0
    adjusts: int = 0
    adjusts_in: int = 0
    """Adjusts of one copy."""
    wrong: str = ""

    def told(self) -> dict[str, float]:
        rate = self.elements / max(self.seconds, 1e-9)
        return {name: value for name, value in vars(self).items() if name != "wrong"} | {"rate": rate}


@dataclass(frozen=True)
class Elements(Source):
    """An input of elements."""

    def temporal(self, port: int) -> bool:
        return port == 0


class Stream:
    """The events that all copies stand for."""

    def __init__(self, load: Load) -> None:
        random = np.random.default_rng(7)
        self.load = load
        self.vs = np.cumsum(random.integers(1, MAX_GAP_MS, load.events))
        lifetime = load.lifetime or load.events // 20 * MAX_GAP_MS // 2
        self.ve = self.vs + np.maximum(2, lifetime)
        texts = random.integers(33, 127, load.events * load.payload, np.uint8)
        offsets = np.arange(load.events + 1, dtype=np.int32) * load.payload
        column = pa.Array.from_buffers(pa.string(), load.events, [None, pa.py_buffer(offsets), pa.py_buffer(texts)])
        self.payload = pa.table([pa.array(random.integers(0, LARGEST + 1, load.events)), column], ["n", "s"])


class Copy:
    """One physical copy: events in its own order, with its own revisions and stable points."""

    def __init__(self, stream: Stream, at: int) -> None:
        load, random = stream.load, np.random.default_rng(at + 100)
        self._stream = stream
        events = np.arange(load.events)
        late = random.random(load.events) < load.disorder
        place = events + np.where(late, random.uniform(0, DISPLACED, load.events), 0)
        revised = np.flatnonzero(random.random(load.events) < load.adjusts / (1 - load.adjusts))
        early = stream.ve.copy()
        early[revised] = stream.vs[revised] + (
            (stream.ve - stream.vs)[revised] * random.uniform(0.5, 1.5, len(revised))
        )
        order = np.argsort(np.concatenate([place, place[revised] + random.uniform(0, DISPLACED, len(revised)) + 0.5]))
        self.event = np.concatenate([events, revised])[order]
        self.adjust = order >= load.events
        self.ve = np.concatenate([early, stream.ve[revised]])[order]
        self.vold = np.concatenate([early, early[revised]])[order]
        sync = np.where(self.adjust, np.minimum(self.ve, self.vold), stream.vs[self.event])
        self.sync = sync
        self._least = np.append(np.minimum.accumulate(sync[::-1])[::-1], END)
        self._stable = random.random(len(sync)) < load.stable_freq

    def train(self, start: int, stop: int) -> pa.Table:
        """Some elements, in memory of their own."""
        part = slice(max(start, 0), max(stop, 0))
        event, adjust = self.event[part], self.adjust[part]
        taken = self._stream.payload.take(pa.array(event))
        columns = [
            pa.array(self.sync[part]),
            pc.if_else(pa.array(adjust), pa.scalar(ADJUST), pa.scalar(INSERT)),
            pa.array(self._stream.vs[event]),
            pa.array(self.ve[part]),
            pa.array(self.vold[part], mask=~adjust),
            *taken.columns,
            pa.array(np.arange(len(event))),
            pa.array(np.zeros(len(event), np.int64)),
        ]
        return pa.table(columns, [*SCHEMA.names, SEQ, ARRIVED])

    def mark(self, stop: int) -> int:
        """The last stable point before a place; the end behind all elements."""
        if stop >= len(self.event):
            return END
        said = np.flatnonzero(self._stable[: max(stop, 0)])
        return int(self._least[said[-1] + 1]) if len(said) else BEGINNING


@dataclass
class Cleanser:
    """Puts one copy in order (lmerge.md VI-D): an event leaves when it is fully frozen, and all before it are."""

    held: pa.Table = field(default_factory=lambda: pa.table({}))

    def nbytes(self) -> int:
        return int(self.held.nbytes)

    def process(self, train: pa.Table, mark: int) -> tuple[pa.Table, int]:
        """The events, as inserts in order, that are complete with this train; and how far these are stable."""
        inserts = train.filter(pc.equal(train.column("kind"), INSERT))
        self.held = pa.concat_tables([self.held, inserts]) if self.held.num_rows else inserts
        adjusts = train.filter(pc.equal(train.column("kind"), ADJUST)).drop_columns(["sync"])
        if adjusts.num_rows:
            groups, (own, other) = number([self.held, adjusts], ["vs", "n", "s"])
            place = np.zeros(groups.count, np.int64)
            place[own] = np.arange(len(own))
            ve = self.held.column("ve").to_numpy().copy()
            ve[place[other]] = adjusts.column("ve").to_numpy()
            self.held = self.held.set_column(self.held.column_names.index("ve"), "ve", pa.array(ve))
        vs, ve = self.held.column("vs").to_numpy(), self.held.column("ve").to_numpy()
        open_ones = vs[ve >= mark]
        bound = mark if not len(open_ones) else min(mark, int(open_ones.min()))
        leaves = (ve < mark) & (vs < bound)
        out = self.held.filter(pa.array(leaves))
        out = out.take(pa.array(np.argsort(out.column("vs").to_numpy(), kind="stable")))
        self.held = self.held.filter(pa.array(~leaves)).combine_chunks()
        at = out.column_names.index(SEQ)
        return out.set_column(at, SEQ, pa.array(np.arange(out.num_rows))), bound


def box_of(inputs: int, case: str) -> LMerge:
    """An LMerge of elements."""
    net = pk.Network("bench")
    streams = []
    for at in range(inputs):
        made = pk.Network("aside").source(
            f"copy {at}", pk.memory([], schema=SCHEMA), on="sync", progress=pk.punctuated()
        )
        source = made._port.box
        streams.append(net._add(Elements(**{each.name: getattr(source, each.name) for each in fields(Source)})))
    found = pk.lmerge(*streams, case=case)._port.box
    assert isinstance(found, LMerge)
    return found


def drive(load: Load, algorithm: str) -> Reached:
    """Feed the copies to an algorithm, train by train, one bucket; only its own work is timed."""
    stream = Stream(load)
    copies = [Copy(stream, at) for at in range(load.inputs)]
    reached = Reached(adjusts_in=int(copies[0].adjust.sum()))
    cleansers = [Cleanser() for _ in copies] if algorithm == CLEANSED else []
    box, slots = box_of(load.inputs, "R1" if cleansers else algorithm), MemorySlots()
    behind = [0, *[int(load.lag * A_SECOND)] * (load.inputs - 1)]
    last = max(len(copy.event) + lag for copy, lag in zip(copies, behind, strict=True))
    answer = Answer(stream)
    for start in range(0, last, load.train):
        spans = [(start - lag, start - lag + load.train) for lag in behind]
        trains = [copy.train(*span) for copy, span in zip(copies, spans, strict=True)]
        marks = [copy.mark(stop) for copy, (_, stop) in zip(copies, spans, strict=True)]
        reached.elements += sum(train.num_rows for train in trains)
        began = time.perf_counter()
        for at, cleanser in enumerate(cleansers):
            trains[at], marks[at] = cleanser.process(trains[at], marks[at])
        operator: Holder = box.holder(slots, [frozenset(SCHEMA.names), frozenset()])
        for at, train in enumerate(trains):
            if train.num_rows:
                operator.receive(str(at), train)
        leaving = list(operator.punctuate([Marks({"sync": mark}, ended=mark == END) for mark in marks], 0))
        reached.seconds += time.perf_counter() - began
        reached.state_bytes = max(reached.state_bytes, slots.nbytes() + sum(each.nbytes() for each in cleansers))
        answer.add(leaving)
    reached.inserts, reached.adjusts, reached.wrong = answer.inserts, answer.adjusts, answer.wrong()
    return reached


class Answer:
    """Compares what leaves with the events; texts at once, so that they need not be kept."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._kept: list[pa.Table] = []
        self._broken = ""
        self.inserts = self.adjusts = 0

    def add(self, leaving: Sequence[tuple[int, pa.Table]]) -> None:
        for port, elements in leaving:
            if port:
                self._broken = f"refused: {elements.column('reason')[0]}"
                continue
            rows = np.searchsorted(self._stream.vs, elements.column("vs").to_numpy())
            texts = self._stream.payload.column("s").take(pa.array(rows))
            if not pc.all(pc.equal(texts, elements.column("s"))).as_py():
                self._broken = "a text is not that of its event"
            adjusts = int(pc.sum(pc.equal(elements.column("kind"), ADJUST)).as_py() or 0)
            self.adjusts += adjusts
            self.inserts += elements.num_rows - adjusts
            self._kept.append(elements.select(["kind", "vs", "ve", "vold", "n"]))

    def wrong(self) -> str:
        """What is not right; nothing if all is."""
        if self._broken or not self._kept:
            return self._broken or "nothing left"
        found = pk.tdb(pa.concat_tables(self._kept)).sort_by("vs")
        columns = [found.column(name).to_numpy() for name in ("vs", "ve", "n")]
        expected = self._stream.vs, self._stream.ve, self._stream.payload.column("n").to_numpy()
        same = all(np.array_equal(one, other) for one, other in zip(columns, expected, strict=True))
        return "" if same else "another temporal database"


def warmed(load: Load, algorithm: str) -> None:
    """Load all that an algorithm needs before it is measured."""
    drive(replace(load, events=max(100, min(load.events, 2_000)), train=500), algorithm)


def loads(case: str, events: int, most: int) -> Mapping[str, Load]:
    """The loads of a figure, by the value of its parameter."""
    inputs = [n for n in (2, 4, 6, 8, 10) if n <= most] or [most]
    base = Load(events, inputs=3)
    if case == "ordered":
        return {str(n): replace(base, inputs=n) for n in inputs}
    if case == "small":
        return {str(n): replace(base, inputs=n, payload=16, train=65_536) for n in inputs}
    if case == "disorder":
        return {str(n): replace(base, inputs=n, disorder=0.2) for n in inputs}
    if case == "output":
        # In the paper half of the elements are disordered where 36 of a hundred are adjusts.
        shares = (0.0, 0.2, 0.4, 0.6, 0.8)
        return {f"{d:.0%}": replace(base, disorder=d, adjusts=0.72 * d, stable_freq=0.001) for d in shares}
    if case == "lag":
        lagging = replace(base, disorder=0.2, stable_freq=0.001, lifetime=40_000)
        return {f"{lag} s": replace(lagging, lag=lag) for lag in (0, 1, 2, 3, 4, 5)}
    if case == "stable":
        shares = (0.00001, 0.0001, 0.001, 0.01)
        return {f"{share:.3%}": replace(base, disorder=0.0, stable_freq=share) for share in shares}
    return {str(n): replace(base, inputs=n, disorder=0.5, adjusts=0.36, stable_freq=0.001) for n in inputs}
