"""Joint punctuation: the pair (b_l, b_r), of a join's results, says that each later one has `l >= b_l` or `r >= b_r`.

```
 r  │ . . . . . ┊ later          a pair leaves when the later of its tuples arrives: that one is not below the
    │ . . . . . ┊ later          low-water mark of its own input, b_l or b_r. The band does not matter, so the pair
 b_r├┄┄┄┄┄┄┄┄┄┄┄┄ later          is known earlier than what each attribute alone can reach (oop.md 7)
    │   done    ┊ later
    └───────────b_l──── l
```

The two marks travel beside those of single attributes, as hidden ones. A side goes by several names where a Map
computes several attributes of it: if `l >= b` then `f(l) >= f(b)` for every f that never decreases, so any name of the
one side makes a pair with any name of the other. They follow from the marks of the join's inputs by rules alone,
wherever those are known: nothing is sent from stage to stage for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.algebra.ticks import BEGINNING

if TYPE_CHECKING:
    from penstock.algebra.box import Marks, Port

_PREFIX: Final = "#joint:"
SIDES: Final = (0, 1)


def joint_mark(side: int, attribute: str) -> str:
    """The name of a joint mark, of an attribute that stands for one side of the pairs.

    >>> joint_mark(0, "l_ts")
    '#joint:0:l_ts'
    """
    return f"{_PREFIX}{side}:{attribute}"


def joint_attribute(mark: str) -> str:
    """The attribute that a mark is of, joint or not.

    >>> joint_attribute("#joint:0:l_ts"), joint_attribute("ts")
    ('l_ts', 'ts')
    """
    return next((mark.removeprefix(_side(side)) for side in SIDES if mark.startswith(_side(side))), mark)


def shortest(ways: Iterable[Mapping[str, int]]) -> list[dict[str, int]]:
    """Of several sets of ticks, all of the same marks, those that no other is below or equal to.

    >>> shortest([{"r": 5, "l": 1}, {"r": 2, "l": 9}, {"r": 3, "l": 9}, {"r": 2, "l": 9}])
    [{'r': 2, 'l': 9}, {'r': 5, 'l': 1}]
    """
    found: list[dict[str, int]] = []
    for way in sorted(ways, key=lambda way: [*way.values()]):
        if not any(all(other[mark] <= tick for mark, tick in way.items()) for other in found):
            found.append(dict(way))
    return found


def joint_only(marks: Marks) -> dict[str, int]:
    """The joint ones among marks."""
    return {mark: tick for mark, tick in marks.items() if mark.startswith(_PREFIX)}


def renamed(marks: Marks, name_of: Callable[[str], str]) -> dict[str, int]:
    """The joint ones among marks, of attributes that have other names now."""
    found = {}
    for mark, tick in joint_only(marks).items():
        side = SIDES[mark.startswith(_side(1))]
        found[joint_mark(side, name_of(mark.removeprefix(_side(side))))] = tick
    return found


@dataclass(frozen=True)
class JointUse:
    """How an Aggregate can use joint punctuation: its window is on one side of the pairs, a column of `by` the other.

    A group leaves once the window's end has been reached on the one side and its value of `column` passed on the other.
    """

    own: str
    """The mark of the window's attribute."""
    other: str
    """The mark of `column`."""
    column: str


def joint_use(port: Port, on: str, by: Sequence[str]) -> JointUse | None:
    """How a window on `on`, in groups of `by`, can use the joint punctuation of a stream; None if it cannot."""
    stated = _stated(port, {})
    for side in SIDES:
        if joint_mark(side, on) in stated:
            for column in by:
                if joint_mark(1 - side, column) in stated:
                    return JointUse(joint_mark(side, on), joint_mark(1 - side, column), column)
    return None


def joint_names(port: Port) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The attributes that stand for each side of the pairs of a stream, for explain."""
    stated = _stated(port, {})
    left, right = (tuple(m.removeprefix(p) for m in stated if m.startswith(p)) for p in map(_side, SIDES))
    return left, right


def _stated(port: Port, known: dict[str, dict[str, int]]) -> Mapping[str, int]:
    """The joint marks that a port could state, whatever their values."""
    if port.name not in known:
        inputs = []
        for upstream in port.box.inputs:
            nothing = dict.fromkeys(upstream.box.marked(upstream.index), BEGINNING)
            inputs.append({**nothing, **_stated(upstream, known)})
        known[port.name] = port.box.joint_marks(port.index, inputs)
    return known[port.name]


def _side(side: int) -> str:
    return joint_mark(side, "")
