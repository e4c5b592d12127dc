"""What is known of every stream that a port can bring: the properties by which copies are merged (lmerge.md III-C).

Of an ordinary stream the time Vs is the attribute it makes progress on, and all of its tuples are inserts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Properties:
    """Each is a promise; False means that nobody knows."""

    insert_only: bool = False
    """No element revises another."""
    ordered: bool = False
    """Vs never falls."""
    strict: bool = False
    """Vs rises with every element: no two have the same."""
    unique: bool = False
    """No two events at a time have the same Vs and payload."""
    deterministic: bool = False
    """Elements with the same Vs come in the same order in every copy of the stream."""

    def words(self) -> str:
        """The promises that hold, for explain.

        >>> Properties(insert_only=True, ordered=True).words(), Properties().words()
        ('insert only, ordered', 'nothing known')
        """
        held = [name.replace("_", " ") for name, holds in vars(self).items() if holds]
        return ", ".join(held) or "nothing known"


NOTHING: Final = Properties()


def common(several: tuple[Properties, ...]) -> Properties:
    """What holds of each of several streams.

    >>> common((Properties(ordered=True, unique=True), Properties(ordered=True))).words()
    'ordered'
    """
    return Properties(*(all(held) for held in zip(*(vars(each).values() for each in several), strict=True)))
