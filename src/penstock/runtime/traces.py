"""Traces: the way of a heartbeat or an ETS through the network, and where it waited (heartbeat.md 6.2).

Whatever is said in the place of a silent input travels with a batch, through the same queues as its tuples. Every place
notes when it got there and when it left, so a trace shows which box is behind; what each box did in that batch rides
along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.algebra.box import Box
from penstock.algebra.marks import Marks
from penstock.algebra.network import Network
from penstock.algebra.source import Source
from penstock.runtime.work import BoxWork

if TYPE_CHECKING:
    from penstock.runtime.notes import Report

HEARTBEAT: Final = "heartbeat"
ETS: Final = "ETS"
LATENT: Final = "latent timestamp"
INTAKE: Final = "intake"
OUTLET: Final = "outlet"

Moment = tuple[int, int]
"""When something came to a place and when it left, in microseconds since the epoch."""


@dataclass(frozen=True)
class Hop:
    """One place on the way: the intake, a box that keeps state, or the outlet."""

    place: str
    arrived: int
    left: int
    tuples_in: int = 0
    tuples_out: int = 0
    seconds: float = 0.0
    held_rows: int = 0

    @property
    def selectivity(self) -> float | None:
        """Tuples that left for each that came, in this batch."""
        return self.tuples_out / self.tuples_in if self.tuples_in else None

    @property
    def cost(self) -> float | None:
        """Microseconds of work for each tuple that came, in this batch."""
        return self.seconds * 1e6 / self.tuples_in if self.tuples_in else None


@dataclass(frozen=True)
class Trace:
    """A heartbeat, an ETS or a latent timestamp, and its way."""

    id: str
    kind: str
    input: str
    shard: str
    states: str
    batch: int
    made: int
    """The clock reading at which it was decided on."""
    hops: tuple[Hop, ...]

    @property
    def milliseconds(self) -> float:
        """From the decision to the end of its way."""
        return max(0, self.hops[-1].left - self.made) / 1000 if self.hops else 0.0

    @property
    def waits(self) -> list[tuple[str, float]]:
        """Milliseconds that it waited in front of each place."""
        before = [self.made, *(hop.left for hop in self.hops)]
        return [(hop.place, max(0, hop.arrived - at) / 1000) for at, hop in zip(before, self.hops, strict=False)]

    def __str__(self) -> str:
        way = " -> ".join(
            f"{hop.place} {max(0, hop.left - hop.arrived) / 1000:.1f} ms (after {wait:.1f} ms)"
            for hop, (_, wait) in zip(self.hops, self.waits, strict=True)
        )
        where = f"input '{self.input}', shard '{self.shard}'"
        return f"{self.kind} {self.id} of {where}: {self.states}; {self.milliseconds:.1f} ms in all: {way}"

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "hops": [dict(vars(hop)) for hop in self.hops]}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Trace:
        return Trace(**{**document, "hops": tuple(Hop(**hop) for hop in document["hops"])})


def collect(network: Network, batch: int, now: int, reports: Sequence[Report], commit: Moment) -> tuple[Trace, ...]:
    """The traces of a batch, from the reports of its places; none if nothing was said for silent inputs."""
    said = [each for report in reports for each in report.said]
    if not said:
        return ()
    moments: dict[str, Moment] = {}
    for report in reports:
        for place, (arrived, left) in report.hops.items():
            first, last = moments.get(place, (arrived, left))
            moments[place] = (min(first, arrived), max(last, left))
    sources = {s.name: s for s in network.sources}
    found = []
    for number, (kind, name, shard, marks) in enumerate(sorted(said, key=lambda s: (s[1], s[2], s[0]))):
        way = [INTAKE, *(b.name for b in _downstream(network, sources[name]) if b.name in moments)]
        hops = [_hop(place, moments[place], reports) for place in way if place in moments]
        hops.append(Hop(OUTLET, *commit))
        states = _states(sources[name], marks)
        found.append(Trace(f"{batch}.{number}", kind, name, shard, states, batch, now, tuple(hops)))
    return tuple(found)


def _hop(place: str, moment: Moment, reports: Sequence[Report]) -> Hop:
    """When a batch was at a place, and what the box there did, over all buckets."""
    did = sum((report.boxes[place] for report in reports if place in report.boxes), BoxWork())
    return Hop(place, *moment, did.tuples_in, did.tuples_out, did.seconds, did.held_rows)


def _downstream(network: Network, source: Source) -> list[Box]:
    """The boxes that an input feeds, in topological order."""
    reached = {source.name}
    found = []
    for box in network.boxes:
        if box.ports and any(port.box.name in reached for port in box.inputs):
            reached.add(box.name)
            found.append(box)
    return found


def _states(source: Source, marks: Marks) -> str:
    return ", ".join(
        f"{track.attribute} {'<=' if track.descending else '>='} {track.text(marks.of(track.mark))}"
        for track in source.tracks
        if marks.has(track.mark)
    )
