"""Physical copies of a temporal database, and one LMerge over several buckets, fed batch by batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from random import Random
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from tests.algebra.temporal.prefixes import SCHEMA, Element, adjust, insert, table
from tests.operators.scripted import box_of, stamped

import penstock as pk
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks
from penstock.algebra.source import Source
from penstock.algebra.temporal.properties import NOTHING, Properties
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.lmerge.box import LMerge
from penstock.testing.memory_slots import MemorySlots

INF = math.inf
Event = tuple[str, int, float]
"""Payload, Vs and Ve."""


@dataclass(frozen=True)
class ElementSource(Source):
    """An input whose rows are elements."""

    known: Properties = NOTHING

    def temporal(self, port: int) -> bool:
        return port == 0

    def properties(self, port: int) -> Properties:
        return self.known if port == 0 else NOTHING


def element_source(
    net: pk.Network, name: str, script: Sequence[Any] = (), known: Properties = NOTHING, train: int | None = None
) -> pk.Stream:
    """An input of elements, such as `SCHEMA` has, and of punctuation."""
    connector = pk.memory(list(script), schema=SCHEMA, train=train)
    source = pk.Network("aside").source(name, connector, on="sync", progress=pk.punctuated())._port.box
    given = {f.name: getattr(source, f.name) for f in fields(Source)}
    return net._add(ElementSource(**given, known=known))


@dataclass
class Copy:
    """A physical stream: elements and, as numbers, stable points."""

    steps: list[Element | float]
    begins: float = -INF
    """How far another must be before it brings anything."""
    skipped: tuple[Event, ...] = ()
    """Events that were over by then."""


def synced(element: Element) -> float:
    kind, vs, ve, vold = element[1:5]
    ends = [INF if end is None else end for end in (ve, vold)]
    return float(vs) if kind == "insert" else min(ends)


def with_stables(elements: Sequence[Element], random: Random, often: float, *, end: bool = True) -> Copy:
    """Stable points wherever they are legal, some of them as late as they can be."""
    least = [INF] * (len(elements) + 1)
    for at in range(len(elements) - 1, -1, -1):
        least[at] = min(least[at + 1], synced(elements[at]))
    steps: list[Element | float] = []
    said = -INF
    for at, element in enumerate(elements):
        if random.random() < often and not math.isinf(least[at]):
            point = least[at] - random.choice([0, 0, 1, 3])
            if point > said:
                said = point
                steps.append(said)
        steps.append(element)
    return Copy([*steps, INF] if end else steps)


def revised(events: Sequence[Event], random: Random, spurious: Sequence[Event] = ()) -> list[Element]:
    """Elements for events in any order: each is inserted with some end, and adjusted on its way to its last."""
    chains: list[list[Element]] = []
    for p, vs, ve in [*events, *spurious]:
        ends = [random.choice([vs + 1, vs + 3, vs + 9, INF]) for _ in range(random.choice([0, 0, 1, 2]))]
        ends.append(ve)
        chain = [insert(p, vs, ends[0])]
        chain += [adjust(p, vs, a, b) for a, b in pairwise(ends) if a != b]
        chains.append(chain)
    gone = len(events)
    for at, (p, vs, ve) in enumerate(spurious):
        chains[gone + at].append(adjust(p, vs, ve, vs))
    return interleaved(chains, random)


def interleaved(chains: Sequence[list[Any]], random: Random) -> list[Any]:
    """All of several lists, each in its order."""
    places = [at for at, chain in enumerate(chains) for _ in chain]
    # Most of a chain stays near to where it begins, so that stable points come in between.
    places = [at for _, at in sorted((at + random.uniform(0, len(chains) / 2 + 1), at) for at in places)]
    left = [iter(chain) for chain in chains]
    return [next(left[at]) for at in places]


Batch = list[tuple[list[Element], float]]
"""Of every input: its elements, and its stable point behind them."""


def batches(copies: Sequence[Copy], random: Random, most: int) -> list[Batch]:
    """The copies cut into batches; some are ahead of others."""
    at, said = [0] * len(copies), [-INF] * len(copies)
    found: list[Batch] = []
    while any(a < len(c.steps) for a, c in zip(at, copies, strict=True)):
        batch: Batch = []
        reached = max(said)
        for number, copy in enumerate(copies):
            if reached < copy.begins:
                batch.append(([], -INF))
                continue
            taken = copy.steps[at[number] : at[number] + random.choice([0, 1, most, most])]
            at[number] += len(taken)
            said[number] = max([said[number], *(s for s in taken if not isinstance(s, tuple))])
            batch.append(([s for s in taken if isinstance(s, tuple)], said[number]))
        found.append(batch)
    return found


def random_copies(case: str, random: Random, inputs: int) -> tuple[list[Event], list[Copy]]:
    """A random database and copies of it as a case allows them: some begin later, and where it is allowed one that has
    gaps and never says how far it is."""
    times = range(0, 30)
    if case == "R0":
        keys = [(random.choice("ABCDE"), vs) for vs in sorted(random.sample(times, random.randrange(1, 14)))]
    else:
        keys = sorted({(random.choice("ABCDE"), random.choice(times)) for _ in range(random.randrange(1, 14))})
    if case in ("R1", "R4"):
        keys += random.choices(keys, k=random.randrange(8))
    events = [(p, vs, vs + random.choice([1, 2, 5, 20, INF])) for p, vs in keys]
    make = ordered_copy if case in ("R0", "R1", "R2") else revised_copy
    if case == "R1":
        events.sort(key=lambda event: event[1])
    copies = [make(case, events, random) for _ in range(inputs)]
    if random.random() < 0.5:
        copies.append(late_copy(make, case, events, random))
    if make is revised_copy and random.random() < 0.3:
        some = [event for event in events if random.random() < 0.7]
        copies.append(with_stables(revised(some, random), random, 0, end=False))
    return events, copies


def ordered_copy(case: str, events: Sequence[Event], random: Random) -> Copy:
    """Inserts in order; those of one Vs in any order, but for R1."""
    ties = {id(event): 0 if case == "R1" else random.random() for event in events}
    elements = sorted(events, key=lambda event: (event[1], ties[id(event)]))
    return with_stables([insert(*event) for event in elements], random, 0.3)


def revised_copy(case: str, events: Sequence[Event], random: Random) -> Copy:
    """In any order, with revisions, and with events that go away again."""
    keys = dict.fromkeys((random.choice("FG"), random.randrange(30)) for _ in range(random.randrange(3)))
    spurious = [(p, vs, vs + random.randrange(1, 9)) for p, vs in keys]
    shuffled = random.sample(events, len(events)) if random.random() < 0.5 else sorted(events, key=lambda e: e[1])
    return with_stables(revised(shuffled, random, spurious), random, 0.3)


def late_copy(make: Callable[..., Copy], case: str, events: Sequence[Event], random: Random) -> Copy:
    """One that begins at a time, and lacks what was over by then."""
    begins = random.randrange(5, 25)
    over = [event for event in events if (event[1] if make is ordered_copy else event[2]) < begins]
    copy = make(case, [event for event in events if event not in over], random)
    return Copy(copy.steps, begins + 5, tuple(over))


def mark_of(stable: float) -> int:
    return BEGINNING if stable == -INF else END if stable == INF else int(stable)


class Merge:
    """An LMerge in some buckets; each batch has operators of its own, as in a run."""

    def __init__(self, inputs: int, case: str, buckets: int = 1, policy: Any = None) -> None:
        net = pk.Network("net")
        streams = [element_source(net, f"in{at}") for at in range(inputs)]
        self.box: LMerge = box_of(pk.lmerge(*streams, case=case, policy=policy))
        self.slots = [MemorySlots() for _ in range(buckets)]
        self.out: list[pa.Table] = [SCHEMA.empty_table()]
        self.errors: list[dict[str, Any]] = []
        self.stable = BEGINNING
        self.number = 0

    def batch(self, batch: Batch) -> pa.Table:
        """The elements that leave."""
        marks = [Marks({"sync": mark_of(said)}, ended=said == INF) for _, said in batch]
        self.number += 1
        left = []
        for bucket, slots in enumerate(self.slots):
            operator = self.box.holder(slots, [frozenset(SCHEMA.names), frozenset()])
            for at, (elements, _) in enumerate(batch):
                own = [e for e in elements if crc32(str(e[5]).encode()) % len(self.slots) == bucket]
                if own:
                    train = table(own).append_column(SEQ, pa.array(np.arange(len(own))))
                    operator.receive(str(at), stamped(train, self.number))
            for port, tuples in operator.punctuate(marks, 0):
                assert ARRIVED in tuples.column_names
                if port == 0:
                    left.append(tuples.select(SCHEMA.names).cast(SCHEMA))
                else:
                    self.errors += tuples.to_pylist()
        found = pa.concat_tables([SCHEMA.empty_table(), *left])
        below = [e for e in found.column("sync").to_pylist() if e is not None and e < self.stable]
        assert not below, f"{below} below the output's stable point {self.stable}"
        self.out.append(found)
        self.stable = max(self.stable, self.box.progress(0, marks).of("sync"))
        return found

    def run(self, script: Sequence[Batch], look: Callable[[int], None] | None = None) -> pa.Table:
        for at, batch in enumerate(script):
            self.batch(batch)
            if look is not None:
                look(at)
        return self.elements

    @property
    def elements(self) -> pa.Table:
        return pa.concat_tables(self.out)

    @property
    def prefix(self) -> pk.Prefix:
        stable = None if self.stable == BEGINNING else INF if self.stable == END else self.stable
        return pk.Prefix(self.elements, stable)
