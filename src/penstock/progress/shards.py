"""What the shards of an input state, and what follows of it for the input as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from penstock.algebra.marks import SIDES, Mark, Marks, least, most
from penstock.algebra.source import Source, Track
from penstock.algebra.ticks import BEGINNING, END
from penstock.progress.extremes import NOTHING, Extremes, Reach
from penstock.progress.idle import Idle


def add_seen(known: dict[str, Extremes], seen: Mapping[str, Extremes]) -> None:
    """Add what a task has seen of shards to what is known of them."""
    for shard, extremes in seen.items():
        known[shard] = known.get(shard, NOTHING).merge(extremes)


def read_shards(document: Mapping[str, Mapping[str, Any]]) -> dict[str, Extremes]:
    """What is known of shards, from JSON."""
    return {shard: Extremes.from_json(extremes) for shard, extremes in document.items()}


def write_shards(shards: Mapping[str, Extremes]) -> dict[str, dict[str, Any]]:
    """What is known of shards, as JSON."""
    return {shard: extremes.to_json() for shard, extremes in shards.items()}


def extremes_of(source: Source, track: Track, seen: Extremes) -> Extremes:
    """What is known of one attribute of a shard."""
    return seen if track == source.tracks[0] else seen.of(track.attribute)


def shard_marks(source: Source, seen: Extremes) -> Marks:
    """The low-water marks that a shard states."""
    alone = ((t.mark, t.policy.low_water_mark(extremes_of(source, t, seen), t.kind)) for t in source.tracks)
    return Marks.made([*alone, *_joint_marks(source, seen)])


def _joint_marks(source: Source, seen: Extremes) -> Iterator[tuple[Mark, int]]:
    """The joint marks of an input that states any."""
    for part, names, stated in zip(SIDES, source.pairs, seen.joint, strict=True):
        for name in names:
            yield Mark(name, part), END if seen.ended else stated.get(name, BEGINNING)


def source_marks(source: Source, shards: Mapping[str, Extremes]) -> Marks:
    """The low-water marks of an input, the minimum over its open shards, those known but silent included; and its end.

    Where all shards have been closed, the furthest of them says where the input stands.
    """
    stated = [shard_marks(source, seen) for seen in shards.values() if not seen.gone]
    left = [shard_marks(source, seen) for seen in shards.values() if seen.gone]
    ended = any(s.ended for s in shards.values()) and all(s.ended or s.gone for s in shards.values())
    marks = least(stated) if stated else most(left) if left else source.shape(0)
    return marks.with_ended(ended)


def stating(source: Source, marks: Marks) -> Extremes:
    """A shard that states marks, and has delivered nothing."""
    first, *rest = source.tracks
    others = {track.attribute: Reach(stated=marks.of(track.mark)) for track in rest if marks.has(track.mark)}
    return Extremes(stated=marks.of(first.mark), others=others, joint=marks.joint)


def statement(source: Source, track: Track, seen: Extremes, idle: Idle, now: int) -> int | None:
    """What a silent shard states of an attribute; None where it has said as much."""
    known = extremes_of(source, track, seen)
    if track.policy.groups:
        # Each group makes progress of its own: the largest value is that of one of them alone.
        known = replace(known, largest=BEGINNING)
    tick = idle.statement(known, now, track.kind)
    return tick if tick > track.policy.low_water_mark(known, track.kind) else None
