"""What is known of a shard: the extremes of what it has delivered.

`Extremes` is a monoid: the splits of a shard can be read by different tasks, in any order and any cut, and their
extremes merge to the same whole. A policy turns the whole into a low-water mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.algebra.marks import NO_PAIRS, Ticks
from penstock.algebra.ticks import BEGINNING, END


@dataclass(frozen=True)
class Highest:
    """The largest values delivered, the largest first, equal ones as often as they came; as many as there is room for.

    Each task reports what it has read, and no value twice: unlike the rest of `Extremes`, this counts.

    >>> Highest(3, (9, 4)).merge(Highest(3, (9, 7)))
    Highest(room=3, values=(9, 9, 7))
    """

    room: int = 0
    values: tuple[int, ...] = ()

    def merge(self, other: Highest) -> Highest:
        room = max(self.room, other.room)
        if not self.values or not other.values:
            return Highest(room, self.values or other.values) if room else self
        return Highest(room, tuple(sorted((*self.values, *other.values), reverse=True)[:room]))

    def to_json(self) -> dict[str, Any]:
        return {"room": self.room, "values": self.values}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Highest:
        return Highest(document["room"], tuple(document["values"]))


NONE = Highest()
"""Nobody asks."""


@dataclass(frozen=True)
class Reach:
    """How far one attribute of a shard has come: the largest value delivered, and the strongest punctuation stated."""

    largest: int = BEGINNING
    stated: int = BEGINNING
    highest: Highest = NONE

    def merge(self, other: Reach) -> Reach:
        return Reach(
            max(self.largest, other.largest), max(self.stated, other.stated), self.highest.merge(other.highest)
        )

    def to_json(self) -> dict[str, Any]:
        return {"largest": self.largest, "stated": self.stated, "highest": self.highest.to_json()}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Reach:
        return Reach(**{**document, **_highest(document)})


@dataclass(frozen=True)
class Extremes:
    """The largest value a shard has delivered, the strongest punctuation it has stated, whether it has ended, and when
    it last delivered anything (a clock reading in microseconds since the epoch).

    >>> Extremes(largest=3).merge(Extremes(largest=7)) == Extremes(largest=7).merge(Extremes(largest=3))
    True
    >>> Extremes(largest=3).merge(NOTHING) == Extremes(largest=3)
    True
    """

    largest: int = BEGINNING
    stated: int = BEGINNING
    ended: bool = False
    at: int = 0
    left: int = 0
    """The clock reading at which the shard was last closed."""
    others: Mapping[str, Reach] = field(default_factory=dict)
    """The same of further progressing attributes, by their names; values of those that decrease are negated."""
    highest: Highest = NONE
    """The largest values, where a policy counts tuples."""
    joint: tuple[Ticks, Ticks] = NO_PAIRS
    """The strongest joint punctuation stated, of an input whose data has such."""

    def merge(self, other: Extremes) -> Extremes:
        attributes = dict.fromkeys((*self.others, *other.others))
        return Extremes(
            max(self.largest, other.largest),
            max(self.stated, other.stated),
            self.ended or other.ended,
            max(self.at, other.at),
            max(self.left, other.left),
            {a: self.others.get(a, Reach()).merge(other.others.get(a, Reach())) for a in attributes},
            self.highest.merge(other.highest),
            _stronger(self.joint, other.joint),
        )

    @property
    def gone(self) -> bool:
        """Whether the shard was closed and has not come back: it holds nobody back."""
        return self.left > self.at

    def of(self, attribute: str) -> Extremes:
        """What is known of a further attribute."""
        reach = self.others.get(attribute, Reach())
        return replace(self, largest=reach.largest, stated=reach.stated, others={}, highest=reach.highest)

    def to_json(self) -> dict[str, Any]:
        return {
            "largest": self.largest,
            "stated": self.stated,
            "ended": self.ended,
            "at": self.at,
            "left": self.left,
            "others": {attribute: reach.to_json() for attribute, reach in self.others.items()},
            "highest": self.highest.to_json(),
            **({"joint": [dict(side) for side in self.joint]} if any(self.joint) else {}),
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Extremes:
        joint = {"joint": tuple(document["joint"])} if "joint" in document else {}
        others = {attribute: Reach.from_json(reach) for attribute, reach in document.get("others", {}).items()}
        return Extremes(**{**document, "others": others, **joint, **_highest(document)})


def _highest(document: Mapping[str, Any]) -> dict[str, Highest]:
    return {"highest": Highest.from_json(document["highest"])} if "highest" in document else {}


def _stronger(one: tuple[Ticks, Ticks], other: tuple[Ticks, Ticks]) -> tuple[Ticks, Ticks]:
    """The later of two pairs that a shard has stated. Both hold, but no pair that is made of sides of both.

    >>> _stronger(({"l": 3}, {"r": 5}), ({"l": 4}, {"r": 5}))
    ({'l': 4}, {'r': 5})
    """
    if not any(one) or not any(other):
        return one if any(one) else other
    names = [sorted({*mine, *theirs}) for mine, theirs in zip(one, other, strict=True)]

    def order(pair: tuple[Ticks, Ticks]) -> list[int]:
        # A pair that is further on either side and behind on none comes later by this order.
        return [side.get(name, BEGINNING) for side, own in zip(pair, names, strict=True) for name in own]

    return max(one, other, key=order)


NOTHING = Extremes()


@dataclass(frozen=True)
class Punctuation:
    """Every later tuple has `attribute >= value` (in ticks)."""

    attribute: str
    value: int

    @property
    def is_end(self) -> bool:
        return self.value == END
