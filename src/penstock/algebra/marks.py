"""Low-water marks: what is known of the tuples that can still come on a stream.

```
 rising    ts: 7                  every later tuple has ts >= 7
 falling   left: -40              every later tuple has left <= 40: the mark is of its negative ticks, so that it grows
 joint     l_ts: 7 | r_ts: 3      every later pair has l_ts >= 7 or r_ts >= 3 (joint_punctuation.py)
 ended                            no tuple will follow; known of streams that make no progress on anything, too
```

Marks are values: nobody changes them. Only this module knows how they are written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from penstock.algebra.ticks import BEGINNING, END
from penstock.errors import WorldError

Part = Literal["rising", "falling", "left", "right"]
"""Where a mark stands among those of its stream; the last two are the sides of joint pairs."""
RISING: Final = "rising"
FALLING: Final = "falling"
SIDES: Final[tuple[Part, Part]] = ("left", "right")
PARTS: Final[Mapping[str, Part]] = {part: part for part in (RISING, FALLING, *SIDES)}

Ticks = Mapping[str, int]
"""Marks of one part, by attribute."""
NO_PAIRS: Final[tuple[Ticks, Ticks]] = ({}, {})
_FORM: Final = '{"rising": {attribute: tick}, "falling": {...}, "joint": [{...}, {...}], "ended": true or false}'


@dataclass(frozen=True, slots=True)
class Mark:
    """The name of one mark of a stream."""

    attribute: str
    part: Part = RISING


@dataclass(frozen=True, slots=True)
class Marks:
    """The low-water marks of a stream, in ticks.

    >>> Marks({"ts": 7}).of("ts"), Marks({"ts": 7}).has("at")
    (7, False)
    """

    rising: Ticks = field(default_factory=dict)
    """Of attributes that increase."""
    falling: Ticks = field(default_factory=dict)
    """Of the negative ticks of attributes that decrease."""
    joint: tuple[Ticks, Ticks] = NO_PAIRS
    """Of attributes that stand for either side of joint pairs."""
    ended: bool = False
    """Whether nothing will follow."""

    @staticmethod
    def made(ticks: Iterable[tuple[Mark, int]], *, ended: bool = False) -> Marks:
        """Single marks, put together.

        >>> Marks.made([(Mark("ts"), 7), (Mark("left", FALLING), -40)])
        Marks(rising={'ts': 7}, falling={'left': -40}, joint=({}, {}), ended=False)
        """
        parts: dict[Part, dict[str, int]] = {RISING: {}, FALLING: {}, "left": {}, "right": {}}
        for mark, tick in ticks:
            parts[mark.part][mark.attribute] = tick
        return Marks(parts[RISING], parts[FALLING], (parts["left"], parts["right"]), ended)

    def __hash__(self) -> int:
        return hash((*(frozenset(part.items()) for part in self._parts()), self.ended))

    def of(self, mark: Mark | str) -> int:
        """How far a mark has come, or that of an attribute that increases; `BEGINNING` where it is not stated."""
        return self._part(mark).get(mark if isinstance(mark, str) else mark.attribute, BEGINNING)

    def has(self, mark: Mark | str) -> bool:
        """Whether a mark is stated, whatever its value."""
        return (mark if isinstance(mark, str) else mark.attribute) in self._part(mark)

    def reached(self, mark: Mark | str, tick: int) -> bool:
        """Whether a mark has come as far as a tick. For one that is not stated nobody can wait."""
        return self.of(mark) >= tick or not self.has(mark)

    @property
    def end(self) -> int:
        """The mark of what is only known to end."""
        return END if self.ended else BEGINNING

    @property
    def says_anything(self) -> bool:
        """Whether more is known than which marks there are."""
        return self.ended or any(tick != BEGINNING for part in self._parts() for tick in part.values())

    @property
    def alone(self) -> Marks:
        """Without joint ones."""
        return self.with_joint(NO_PAIRS) if any(self.joint) else self

    def ticks(self) -> dict[Mark, int]:
        """Its marks one by one."""
        parts = zip(PARTS.values(), self._parts(), strict=True)
        return {Mark(attribute, name): tick for name, part in parts for attribute, tick in part.items()}

    def unknown(self) -> Marks:
        """The same marks, of a stream of which nothing is known yet."""
        return self.each(lambda _: BEGINNING).with_ended(False)

    def at_end(self) -> Marks:
        """The same marks, of a stream that has ended."""
        return self.each(lambda _: END).with_ended(True)

    def each(self, change: Callable[[int], int]) -> Marks:
        """With other ticks.

        >>> Marks({"ts": 17}, ended=True).each(lambda tick: tick // 10 * 10)
        Marks(rising={'ts': 10}, falling={}, joint=({}, {}), ended=True)
        """
        return self._with_parts({name: change(tick) for name, tick in part.items()} for part in self._parts())

    def renamed(self, name_of: Callable[[str], str]) -> Marks:
        """The same marks, of attributes that have other names now."""
        return self._with_parts({name_of(name): tick for name, tick in part.items()} for part in self._parts())

    def shaped(self, shape: Marks) -> Marks:
        """Just the marks that another has; those of which nothing was said are at the beginning."""
        pairs = zip(self._parts(), shape._parts(), strict=True)
        return self._with_parts({name: own.get(name, BEGINNING) for name in wanted} for own, wanted in pairs)

    def with_mark(self, mark: Mark | str, tick: int) -> Marks:
        """With one more mark, or in the place of what it was."""
        return Marks.made(
            [*self.ticks().items(), (Mark(mark) if isinstance(mark, str) else mark, tick)], ended=self.ended
        )

    def with_rising(self, ticks: Ticks) -> Marks:
        return Marks({**self.rising, **ticks}, self.falling, self.joint, self.ended)

    def with_joint(self, joint: tuple[Ticks, Ticks]) -> Marks:
        return Marks(self.rising, self.falling, joint, self.ended)

    def with_ended(self, ended: bool) -> Marks:
        return self if self.ended == ended else Marks(self.rising, self.falling, self.joint, ended)

    def to_json(self) -> dict[str, Any]:
        """A JSON document; what says nothing is left out.

        >>> Marks({"ts": 7}).to_json(), Marks(ended=True).to_json()
        ({'rising': {'ts': 7}}, {'ended': True})
        """
        told: dict[str, Any] = {} if not self.rising else {"rising": dict(self.rising)}
        if self.falling:
            told["falling"] = dict(self.falling)
        if any(self.joint):
            told["joint"] = [dict(side) for side in self.joint]
        if self.ended:
            told["ended"] = True
        return told

    @staticmethod
    def from_json(document: object) -> Marks:
        """Read what `to_json` has written; refuses everything else."""
        match document:
            case dict() if document.keys() <= {"rising", "falling", "joint", "ended"}:
                rising, falling = document.get("rising", {}), document.get("falling", {})
                joint, ended = document.get("joint", [*NO_PAIRS]), document.get("ended", False)
                sides = joint if isinstance(joint, list) and len(joint) == 2 else (None,)
                if isinstance(ended, bool) and all(map(_is_ticks, (rising, falling, *sides))):
                    return Marks(rising, falling, (joint[0], joint[1]), ended)
        raise WorldError("low-water marks are not written as such", expected=_FORM, found=repr(document)[:200])

    def _part(self, mark: Mark | str) -> Ticks:
        if isinstance(mark, str) or mark.part == RISING:
            return self.rising
        return self.falling if mark.part == FALLING else self.joint[SIDES.index(mark.part)]

    def _parts(self) -> tuple[Ticks, Ticks, Ticks, Ticks]:
        return self.rising, self.falling, *self.joint

    def _with_parts(self, parts: Iterable[Ticks]) -> Marks:
        rising, falling, left, right = parts
        return Marks(rising, falling, (left, right), self.ended)


UNKNOWN: Final = Marks()
"""Of a stream that states nothing."""


def least(several: Sequence[Marks]) -> Marks:
    """What is known of several streams as one: the marks that all of them state, and of each the smallest.

    >>> least([Marks({"ts": 7, "at": 2}, ended=True), Marks({"ts": 5})])
    Marks(rising={'ts': 5}, falling={}, joint=({}, {}), ended=False)
    """
    if len(several) == 1:
        return several[0]
    columns = zip(*(marks._parts() for marks in several), strict=True)
    parts = ({name: min(p[name] for p in part) for name in part[0] if all(name in p for p in part)} for part in columns)
    return several[0]._with_parts(parts).with_ended(all_ended(several))


def most(several: Sequence[Marks]) -> Marks:
    """All that was ever said of a stream: the marks that any states, and of each the largest.

    >>> most([Marks({"ts": 3}), Marks({"ts": 2, "at": 1}, ended=True)])
    Marks(rising={'ts': 3, 'at': 1}, falling={}, joint=({}, {}), ended=True)
    """
    parts: tuple[dict[str, int], ...] = ({}, {}, {}, {})
    for marks in several:
        for found, part in zip(parts, marks._parts(), strict=True):
            for name, tick in part.items():
                found[name] = max(tick, found.get(name, tick))
    return UNKNOWN._with_parts(parts).with_ended(any(marks.ended for marks in several))


def all_ended(several: Sequence[Marks]) -> bool:
    """Whether what is made of several streams has ended: when all of them have."""
    return all(marks.ended for marks in several)


def only_end(several: Sequence[Marks]) -> Marks:
    """Of what is made of several streams: nothing but whether it has ended."""
    return Marks(ended=all_ended(several))


def is_tick(value: object) -> bool:
    """Whether a value that was read can be a tick."""
    return type(value) is int and BEGINNING <= value <= END


def _is_ticks(part: object) -> bool:
    return isinstance(part, dict) and all(isinstance(n, str) and is_tick(t) for n, t in part.items())
