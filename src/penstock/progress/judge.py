"""The one judge of what arrives: which records are punctuation, which have no time of use, and which are late.

```
 records ─┬─ for which a policy's `where` holds ──> punctuation: what it states
          ├─ NULL or out of range ───────────────> unfit: to the error stream
          ├─ below what their shard had stated ──> late: to the late stream; elements, to the error stream
          └─ all others are taken ───────────────> the extremes of their shard
```

The intake has it judge whole chunks, the stepper single tuples. A chunk in which nothing is wrong costs a look at its
bounds: masks are only made where these say that something will be found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.error_records import reject_table, why_out_of_range
from penstock.algebra.expressions.expression import mask
from penstock.algebra.marks import Mark, Marks
from penstock.algebra.source import Source, Track
from penstock.algebra.ticks import BEGINNING, out_of_range
from penstock.errors import WorldError
from penstock.progress.disorder import Values
from penstock.progress.extremes import NONE, Extremes, Highest, Reach

BEFORE_STABLE: Final = "comes before the stable point of its input"


@dataclass(frozen=True)
class Verdict:
    """What was found of the records of a chunk; masks are over its rows, and None where nothing was found."""

    arrived: Sequence[Values]
    """The ticks of each progressing attribute, of all tuples, late ones too."""
    largest: Sequence[int | None]
    """The largest tick of each, of the tuples that are taken."""
    stated: Marks
    """What records that are punctuation state."""
    highest: Sequence[Highest]
    """The largest values of each that tuples have brought, late ones too, where a policy counts tuples."""
    punctuation: pa.Array | None = None
    unfit: pa.Array | None = None
    late: pa.Array | None = None
    taken: pa.Array | None = None
    """None if all are."""

    def extremes(self, source: Source, now: int) -> Extremes | None:
        """What tuples add to their shard; None if they add nothing."""
        largest, counted = self.largest[0], any(each.values for each in self.highest)
        if largest is None and not counted:
            return None
        rest = zip(source.tracks[1:], self.largest[1:], self.highest[1:], strict=True)
        others = {
            track.attribute: Reach(BEGINNING if tick is None else tick, highest=highest)
            for track, tick, highest in rest
            if tick is not None or highest.values
        }
        if largest is None:
            return Extremes(others=others, highest=self.highest[0])
        return Extremes(largest, at=now, others=others, highest=self.highest[0])


def judge(source: Source, tuples: pa.Table, issued: Marks) -> Verdict:
    """Judge the records of a chunk by what their shard had stated before; raises if any is late that must not be."""
    ticks = [track.ticks(tuples.column(track.attribute)) for track in source.tracks]
    values = _values(ticks, None)
    bounds = [each.bounds for each in values]
    unfits = [_unfit(*each) for each in zip(source.tracks, ticks, bounds, strict=True)]
    punctuation, stated = _punctuation(source, tuples, ticks, unfits)
    unfit = _any(unfits)
    if unfit is not None and punctuation is not None:
        unfit = pc.and_not(unfit, punctuation)
    aside = _any((unfit, punctuation))
    taken = None if aside is None else pc.invert(aside)
    if taken is not None:
        values = _values(ticks, taken)
        bounds = [each.bounds for each in values]
    highest = [_highest(track, each, issued) for track, each in zip(source.tracks, values, strict=True)]
    late = _late(source, ticks, [smallest for smallest, _ in bounds], issued, taken)
    if late is not None:
        taken = pc.invert(late) if taken is None else pc.and_not(taken, late)
        bounds = [each.bounds for each in _values(ticks, taken)]
    return Verdict(values, [largest for _, largest in bounds], stated, highest, punctuation, unfit, late, taken)


def strongest(source: Source, stated: Mapping[str, Sequence[int]]) -> Marks:
    """The strongest of what punctuation elements in the data say, by attribute."""
    said = [(track, stated[track.attribute]) for track in source.tracks if track.attribute in stated]
    return Marks.made((track.mark, max(-tick if track.descending else tick for tick in ticks)) for track, ticks in said)


def unstable_rejects(tuples: pa.Table, origin: str) -> pa.Table:
    """Elements that come before a stable point of their input, for the error stream."""
    return reject_table(tuples, origin, pa.repeat(pa.scalar(BEFORE_STABLE), tuples.num_rows))


def unfit_rejects(tuples: pa.Table, source: Source, origin: str) -> pa.Table:
    """Tuples without a time of use, for the error stream."""
    return reject_table(tuples, origin, _reasons(source, tuples))


def _values(ticks: Sequence[pa.ChunkedArray], keep: pa.Array | None) -> list[Values]:
    """The ticks of every attribute, of the tuples that are kept."""
    return [Values.of(each if keep is None else each.filter(keep)) for each in ticks]


def _unfit(track: Track, ticks: pa.ChunkedArray, bounds: tuple[int | None, int | None]) -> pa.Array | None:
    """A mask of the tuples that lack an attribute, or have one that is out of range; None if there are none."""
    if not ticks.null_count and not pc.any(out_of_range(pa.array(bounds, pa.int64()), track.kind)).as_py():
        return None
    return pc.fill_null(out_of_range(ticks, track.kind), True).combine_chunks()


def _punctuation(
    source: Source, tuples: pa.Table, ticks: Sequence[pa.ChunkedArray], unfits: Sequence[pa.Array | None]
) -> tuple[pa.Array | None, Marks]:
    """A mask of the records that are punctuation, if a policy knows such records, and what they state."""
    found: pa.Array | None = None
    stated: list[tuple[Mark, int]] = []
    for track, values, unfit in zip(source.tracks, ticks, unfits, strict=True):
        where = track.policy.where
        if where is None:
            continue
        from penstock.algebra.expressions.binding import bind_predicate  # a parser, which others do without

        marked = pc.equal(mask((bind_predicate(where, source.tuples),), tuples), 0)
        marked = marked if unfit is None else pc.and_not(marked, unfit)
        largest = pc.max(values.filter(marked)).as_py()
        if largest is not None:
            stated.append((track.mark, largest))
        found = marked if found is None else pc.or_(found, marked)
    return found, Marks.made(stated)


def _highest(track: Track, values: Values, issued: Marks) -> Highest:
    """The largest values of a chunk, as many as a policy remembers.

    What is not above the mark of the shard cannot move it: so much is known already.
    """
    room = track.policy.remembers
    if not room:
        return NONE
    ticks = values.ticks[values.ticks > issued.of(track.mark)]
    if len(ticks) > room:
        ticks = np.partition(ticks, len(ticks) - room)[-room:]
    return Highest(room, tuple(np.sort(ticks)[::-1].tolist()))


def _late(
    source: Source,
    ticks: Sequence[pa.ChunkedArray],
    smallest: Sequence[int | None],
    issued: Marks,
    keep: pa.Array | None,
) -> pa.Array | None:
    """A mask of the tuples that are below what their shard has stated, of any attribute; None if there are none."""
    found: pa.Array | None = None
    for track, values, least in zip(source.tracks, ticks, smallest, strict=True):
        stated = issued.of(track.mark)
        if least is None or least >= stated:
            continue
        late = pc.less(values, stated).combine_chunks()
        late = late if keep is None else pc.and_(pc.fill_null(late, False), keep)
        if source.late == "error":
            raise _too_late(source, track, int(pc.sum(late).as_py()), least, stated)
        found = late if found is None else pc.or_(found, late)
    return found if not _states_pairs(issued) else _any((found, _late_pairs(source, ticks, issued, keep)))


def _states_pairs(issued: Marks) -> bool:
    """Whether anything was stated jointly: a pair says nothing until both of its sides have begun."""
    return all(any(tick > BEGINNING for tick in side.values()) for side in issued.joint)


def _late_pairs(
    source: Source, ticks: Sequence[pa.ChunkedArray], issued: Marks, keep: pa.Array | None
) -> pa.Array | None:
    """A mask of the tuples that are below both sides of what was stated jointly; None if there are none."""
    known = {track.attribute: values for track, values in zip(source.tracks, ticks, strict=True)}
    sides = [
        _any(pc.fill_null(pc.less(known[name], side[name]), False).combine_chunks() for name in side)
        for side in issued.joint
    ]
    late = reduce(pc.and_, [*sides, *([] if keep is None else [keep])])
    if not pc.any(late).as_py():
        return None
    if source.late == "error":
        raise _jointly_late(source, int(pc.sum(late).as_py()), issued)
    return late


def _jointly_late(source: Source, number: int, issued: Marks) -> WorldError:
    tracks = {track.attribute: track for track in source.tracks}
    bounds = [f"{name} >= {tracks[name].text(tick)}" for side in issued.joint for name, tick in side.items()]
    return WorldError(
        f"{number} late tuple{'s' if number > 1 else ''}, and the input was declared with late='error'",
        box=source.name,
        expected=f"{' or '.join(bounds)}, as was stated jointly",
        hint="late='route' has late tuples set aside",
    )


def _too_late(source: Source, track: Track, number: int, smallest: int, stated: int) -> WorldError:
    """Why an input that was declared with late='error' is given up."""
    bound = "<=" if track.descending else ">="
    return WorldError(
        f"{number} late tuple{'s' if number > 1 else ''}, and the input was declared with late='error'",
        box=source.name,
        expected=f"{track.attribute} {bound} {track.text(stated)} ({track.policy.describe()})",
        found=f"{track.attribute} = {track.text(smallest)}",
        hint="declare a weaker progress policy, or late='route' to have late tuples set aside",
    )


def _any(masks: Iterable[pa.Array | None]) -> pa.Array | None:
    """Where any of several masks holds."""
    found = [each for each in masks if each is not None]
    return reduce(pc.or_, found) if found else None


def _reasons(source: Source, tuples: pa.Table) -> pa.ChunkedArray:
    """What is wrong with each tuple: with the first attribute, where it is with several."""
    found = []
    for track in source.tracks:
        column = tuples.column(track.attribute)
        far = pc.fill_null(out_of_range(track.ticks(column), track.kind), False)
        missing = f"{track.attribute} is NULL: a tuple must have its progressing attribute"
        for wrong, reason in ((pc.is_null(column), missing), (far, why_out_of_range(track.attribute))):
            found.append(pc.if_else(wrong, pa.scalar(reason), pa.scalar(None, pa.string())))
    return pc.coalesce(*found)
