"""Who is waiting for whom: what boxes hold, which input and shard hold them back, and what would release them.

A box that waits has a *need*: the low-water mark of one of its inputs must pass a value. How far a mark would come, if
some input stated more, follows from the rules of the boxes in between; so it can be asked of the network itself, with
other marks at its sources.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.algebra.box import Port
from penstock.algebra.joint_punctuation import Way
from penstock.algebra.marks import Mark, Marks
from penstock.algebra.network import Network
from penstock.algebra.source import Source
from penstock.algebra.ticks import BEGINNING, tick_text
from penstock.progress.extremes import Extremes
from penstock.progress.propagation import propagate
from penstock.progress.shards import extremes_of, shard_marks
from penstock.runtime.board import Need, Record


def met(network: Network, need: Need, way: Way, sources: Mapping[str, Marks]) -> bool:
    """Whether marks at the sources would meet a need in one of its ways."""
    box = next(b for b in network.boxes if b.name == need.box and b.ports)
    marks = propagate(network, sources)[box.inputs[need.slot].name]
    return all(marks.reached(mark, tick) for mark, tick in way.items())


def culprits(
    network: Network, need: Need, way: Way, shards: Mapping[str, Mapping[str, Extremes]]
) -> list[tuple[Source, str]]:
    """The inputs and shards that hold a box back on a way out: each would, even if all others had ended."""
    found = []
    ends = {source.name: source.shape(0).at_end() for source in network.sources}
    for source in network.sources:
        for shard, seen in shards.get(source.name, {}).items():
            if seen.gone:
                continue
            if not met(network, need, way, {**ends, source.name: shard_marks(source, seen).with_ended(True)}):
                found.append((source, shard))
    return found


@dataclass(frozen=True)
class Waiting:
    """One box that waits, in words."""

    box: str
    holds: str
    since: dt.datetime
    culprits: tuple[tuple[str, str], ...]
    """The inputs and shards that hold it back."""
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def waiting(network: Network, record: Record) -> list[Waiting]:
    """Every box that waits: what it holds, since when, for which input and shard, and what would release it."""
    return [_explained(network, record, need) for need in record.waiting]


def _explained(network: Network, record: Record, need: Need) -> Waiting:
    box = next(b for b in network.boxes if b.name == need.box and b.ports)
    port = box.inputs[need.slot]
    way = need.ways[0]
    blamed = culprits(network, need, way, record.shards)
    since = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=need.since)
    holds = f"{need.held:,} row{'' if need.held == 1 else 's'}"
    waits = " and ".join(_blame(network, record, source, shard) for source, shard in blamed) or "its own inputs"
    first, *others = (_target(port, mark, tick) for mark, tick in way.items())
    together = "".join(f", jointly with {attribute} {target}" for attribute, target in others)
    place = "" if any(s.name == port.name for s, _ in blamed) else f" at '{port.name}'"
    return Waiting(
        need.box,
        holds,
        since,
        tuple((source.name, shard) for source, shard in blamed),
        f"{box.kind} '{need.box}' holds {holds} since {since:%Y-%m-%d %H:%M:%S} UTC and waits for {waits}: "
        f"{first[0]}{place} must reach {first[1]}{together}. {_release(blamed)}",
    )


def _target(port: Port, mark: Mark, tick: int) -> tuple[str, str]:
    return mark.attribute, tick_text(tick, port.schema.field(mark.attribute).type)


def _blame(network: Network, record: Record, source: Source, shard: str) -> str:
    seen = record.shards[source.name][shard]
    track = source.tracks[0]
    mark = shard_marks(source, seen).of(track.mark)
    of_shard = f", shard '{shard}'" if len(record.shards[source.name]) > 1 else ""
    groups = [b.name for b in network.boxes if b.speaks_for == source.name]
    if groups and groups[0] in record.behind:
        return f"input '{source.name}'{of_shard}, where {record.behind[groups[0]]}"
    if seen.largest == BEGINNING and mark == BEGINNING:
        return f"input '{source.name}'{of_shard}, which has delivered nothing yet"
    wanted = track.policy.wants(extremes_of(source, track, seen))
    if wanted is not None and mark == BEGINNING:
        return f"input '{source.name}'{of_shard}, whose tuples state nothing yet: {wanted}"
    silent = (record.now - seen.at) / 1_000_000 if seen.at else 0.0
    quiet = f", silent for {silent:.1f} s" if silent >= 1 else ""
    return f"input '{source.name}'{of_shard}, which stands at {_stands(source, seen)}{quiet}"


def _release(blamed: list[tuple[Source, str]]) -> str:
    speechless = sorted({s.name for s, _ in blamed if not any(t.policy.idle for t in s.tracks)})
    most = max((s.tracks[0].policy.remembers for s, _ in blamed), default=0)
    what = f"{most:,} tuples" if most > 1 else "A tuple"
    if not speechless:
        return f"{what} or punctuation beyond that releases it, or the clock does: the input has a policy for silence."
    named = " and ".join(f"'{name}'" for name in speechless)
    return (
        f"{what} or punctuation beyond that, or the end of the input, releases it; with a policy for silence "
        f"(idle=pk.on_demand(...)) {named} would not hold it back."
    )


def _stands(source: Source, seen: Extremes) -> str:
    """How far a shard has come, on every attribute that it makes progress on."""
    marks = shard_marks(source, seen)
    texts = {track.attribute: track.text(marks.of(track.mark)) for track in source.tracks}
    return ", ".join(f"{attribute} {text}" if len(texts) > 1 else text for attribute, text in texts.items())
