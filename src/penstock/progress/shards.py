"""What the shards of an input state, and what follows of it for the input as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.algebra.hidden import ENDED
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


def source_marks(source: Source, shards: Mapping[str, Extremes]) -> dict[str, int]:
    """The low-water marks of an input, the minimum over its open shards, those known but silent included; and its end.

    Where all shards have been closed, the furthest of them says where the input stands.
    """
    stated = [source.marks(seen) for seen in shards.values() if not seen.gone]
    left = [source.marks(seen) for seen in shards.values() if seen.gone]
    ended = any(s.ended for s in shards.values()) and all(s.ended or s.gone for s in shards.values())
    marks = {
        track.mark: (min if stated else max)((m[track.mark] for m in stated or left), default=BEGINNING)
        for track in source.tracks
    }
    return {**marks, ENDED: END if ended else BEGINNING}


def stating(source: Source, marks: Mapping[str, int]) -> Extremes:
    """A shard that states marks, and has delivered nothing."""
    first = source.tracks[0].mark
    others = {mark: Reach(stated=tick) for mark, tick in marks.items() if mark != first}
    return Extremes(stated=marks.get(first, BEGINNING), others=others)


def statement(source: Source, track: Track, seen: Extremes, idle: Idle, now: int) -> int | None:
    """What a silent shard states of an attribute; None where it has said as much."""
    known = source.extremes(track, seen)
    if track.policy.groups:
        # Each group makes progress of its own: the largest value is that of one of them alone.
        known = replace(known, largest=BEGINNING)
    tick = idle.statement(known, now, track.kind)
    return tick if tick > track.policy.low_water_mark(known, track.kind) else None
