"""Promises: what inputs were declared to keep to, and how far out of order their tuples have come.

`progress=` is a promise that nobody can check before the data has been read. A wrong one makes tuples late, and which
ones depends on how the input is cut into trains; so it is said what was seen, and what would have been kept.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.algebra.network import Network
from penstock.algebra.source import Source, Track
from penstock.algebra.ticks import span_text, tick_ns
from penstock.errors import PromiseWarning
from penstock.runtime.board import Record

MOST: Final = 0.999
"""The share of tuples whose disorder is told besides the largest: what a few strays do not move."""
_UNITS_NS: Final = {
    "day": 86_400 * 10**9,
    "hour": 3_600 * 10**9,
    "minute": 60 * 10**9,
    "second": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
}
_FINE: Final = 10
"""A length is rounded up to a unit of which it has so many: by a tenth at most."""


@dataclass(frozen=True)
class Promise:
    """One progressing attribute of an input: what was declared, what was seen, and what would have been kept."""

    input: str
    attribute: str
    declared: str
    bound: int | None
    """How far behind tuples may be, in ticks; None where the tuples promise nothing."""
    largest: int
    """How far behind one was, in ticks."""
    most: int
    """How far behind 99.9 % of them were, at most."""
    suggestion: str | None
    """What to declare, if the promise was broken."""
    sentence: str

    @property
    def kept(self) -> bool:
        return self.suggestion is None

    def __str__(self) -> str:
        return self.sentence


def measured(source: Source, track: Track) -> bool:
    """Whether disorder says anything of an attribute: not where the intake sets it, or each group has its own order."""
    return not source.stamped and not track.policy.groups


def promises(network: Network, record: Record) -> list[Promise]:
    """The attributes of inputs of which tuples were out of order, in order of declaration."""
    return [
        _promise(source, track, record)
        for source in network.sources
        for track in source.tracks
        if _seen(record, source, track)
    ]


def warn_of_disorder(network: Network, before: Record, record: Record) -> None:
    """Say it of inputs without `progress=`, in the batch in which the first of their tuples is out of order."""
    for source in network.sources:
        track = source.tracks[0]
        if source.assumed and _seen(record, source, track) and not _seen(before, source, track):
            promise = _promise(source, track, record)
            warnings.warn(
                f"input '{source.name}' is out of order, and no progress= was given: {track.attribute} is up to "
                f"{length_text(promise.largest, track.kind)} behind so far, and such tuples are late or not as trains "
                f"happen to be cut; {promise.suggestion} would keep them",
                PromiseWarning,
                stacklevel=2,
            )


def _seen(record: Record, source: Source, track: Track) -> bool:
    found = record.disorder.get(source.name, {}).get(track.attribute)
    return found is not None and found.largest > 0


def _promise(source: Source, track: Track, record: Record) -> Promise:
    seen = record.disorder[source.name][track.attribute]
    bound, most = track.policy.bound(track.kind), seen.within(MOST)
    declared = "nothing, so ordered" if source.assumed else track.policy.describe()
    late = record.inputs[source.name].late if track.policy.remembers and len(source.tracks) == 1 else 0
    broken = bool(late) if bound is None else seen.largest > bound
    suggestion = suggested(source, track, seen.largest) if broken else None
    verdict = "" if bound is None else ", which they keep"
    if broken:
        verdict = (f", which {late:,} did not keep" if late else "") + f"; {suggestion} would be kept"
    return Promise(
        source.name,
        track.attribute,
        declared,
        bound,
        seen.largest,
        most,
        suggestion,
        f"input '{source.name}': {track.attribute} is up to {length_text(seen.largest, track.kind)} behind the largest "
        f"before it, 99.9% of the tuples up to {length_text(most, track.kind)}; declared: {declared}{verdict}",
    )


def suggested(source: Source, track: Track, behind: int) -> str:
    """A declaration that would have been kept."""
    length = length_text(behind, track.kind)
    arguments = [length if tick_ns(track.kind) is None else f'"{length}"']
    arguments += ["descending=True"] if track.descending else []
    arguments += ["idle=…"] if track.policy.idle is not None else []
    policy = f"pk.delayed({', '.join(arguments)})"
    return f"progress={policy}" if len(source.tracks) == 1 else f'progress={{"{track.attribute}": {policy}, …}}'


def length_text(ticks: int, kind: pa.DataType) -> str:
    """A length as people would write it, rounded up; `pk.delayed` takes it.

    >>> length_text(94_203_117, pa.timestamp("us")), length_text(7200, pa.timestamp("s")), length_text(95, pa.int64())
    ('95 seconds', '2 hours', '95')
    """
    unit = tick_ns(kind)
    if unit is None or not ticks:
        return span_text(ticks, kind)
    length = ticks * unit
    least = _UNITS_NS["day"] if pa.types.is_date(kind) else unit
    for size in _UNITS_NS.values():
        if size <= least or length >= _FINE * size:
            length = -(-length // size) * size
            break
    word, size = next((word, size) for word, size in _UNITS_NS.items() if length % size == 0)
    number = length // size
    return f"{number} {word}" + ("s" if number != 1 and size >= _UNITS_NS["second"] else "")
