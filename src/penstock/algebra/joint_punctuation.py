"""Joint punctuation: the pair (b_l, b_r), of a join's results, says that each later one has `l >= b_l` or `r >= b_r`.

```
 r  │ . . . . . ┊ later          a pair leaves when the later of its tuples arrives: that one is not below the
    │ . . . . . ┊ later          low-water mark of its own input, b_l or b_r. The band does not matter, so the pair
 b_r├┄┄┄┄┄┄┄┄┄┄┄┄ later          is known earlier than what each attribute alone can reach (oop.md 7)
    │   done    ┊ later
    └───────────b_l──── l
```

The two marks travel beside those of single attributes. A side goes by several names where a Map computes several
attributes of it: if `l >= b` then `f(l) >= f(b)` for every f that never decreases, so any name of the one side makes a
pair with any name of the other. They follow from the marks of the join's inputs by rules alone, wherever those are
known: nothing is sent from stage to stage for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.algebra.marks import PARTS, SIDES, Mark, is_tick
from penstock.errors import WorldError

if TYPE_CHECKING:
    from penstock.algebra.box import Port

Way = Mapping[Mark, int]
"""A way out for a box that waits: ticks that marks of its input must reach, all of them, to release something."""


def shortest(ways: Iterable[Way]) -> list[Way]:
    """Of several ways, all of the same marks, those that no other is below or equal to.

    >>> r, l = Mark("r", "right"), Mark("l", "left")
    >>> found = shortest([{r: 5, l: 1}, {r: 2, l: 9}, {r: 3, l: 9}, {r: 2, l: 9}])
    >>> [(way[r], way[l]) for way in found]
    [(2, 9), (5, 1)]
    """
    found: list[Way] = []
    for way in sorted(ways, key=lambda way: [*way.values()]):
        if not any(all(other[mark] <= tick for mark, tick in way.items()) for other in found):
            found.append(way)
    return found


def write_ways(ways: Iterable[Way]) -> list[list[list[Any]]]:
    """Ways as JSON.

    >>> write_ways([{Mark("r", "right"): 5, Mark("l", "left"): 1}])
    [[['r', 'right', 5], ['l', 'left', 1]]]
    """
    return [[[mark.attribute, mark.part, tick] for mark, tick in way.items()] for way in ways]


def read_ways(document: object) -> tuple[Way, ...]:
    """Read what `write_ways` has written; refuses everything else."""
    if not isinstance(document, list):
        raise _damaged(document)
    return tuple(_read_way(way) for way in document)


def _read_way(document: object) -> Way:
    found: dict[Mark, int] = {}
    for entry in document if isinstance(document, list) and document else [None]:
        match entry:
            case [str(attribute), str(part), int(tick)] if part in PARTS and is_tick(tick):
                found[Mark(attribute, PARTS[part])] = tick
            case _:
                raise _damaged(document)
    return found


def _damaged(found: object) -> WorldError:
    return WorldError(
        "what a box waits for is not written as such",
        expected="[[[attribute, part, tick], ...], ...]",
        found=repr(found)[:200],
    )


@dataclass(frozen=True)
class JointUse:
    """How an Aggregate can use joint punctuation: its window is on one side of the pairs, a column of `by` the other.

    A group leaves once the window's end has been reached on the one side and its value of `column` passed on the other.
    """

    own: Mark
    """The mark of the window's attribute."""
    other: Mark
    """The mark of `column`."""
    column: str


def joint_use(port: Port, on: str, by: Sequence[str]) -> JointUse | None:
    """How a window on `on`, in groups of `by`, can use the joint punctuation of a stream; None if it cannot."""
    for own, other in (SIDES, SIDES[::-1]):
        if port.shape.has(Mark(on, own)):
            for column in by:
                if port.shape.has(Mark(column, other)):
                    return JointUse(Mark(on, own), Mark(column, other), column)
    return None
