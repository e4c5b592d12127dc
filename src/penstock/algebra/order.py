"""Order specifications (aurora.md 5.2.2): how tuples are expected to arrive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.errors import QueryError

TUPLE_NUMBER: Final = "Tup#"
"""The virtual attribute that numbers the tuples of a stream, or of each group, 1, 2, 3 ... in order of arrival."""

ARRIVAL: Final = "#arrival"
"""The order of arrival, in the place of an attribute that a stream is in order of."""
ANY: Final = "#any"
"""Whatever order is there."""


@dataclass(frozen=True)
class Order:
    """Tuples of a group arrive in ascending order of `on`, but for at most `slack` larger ones before them.

    A tuple before which more than `slack` tuples of its group with a larger value have arrived is out of order.
    """

    on: str
    slack: int = 0
    by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.slack, bool) or not isinstance(self.slack, int) or self.slack < 0:
            raise QueryError("slack is a number of tuples", expected="an integer of 0 or more", found=repr(self.slack))

    def describe(self) -> str:
        by = f" by {', '.join(self.by)}" if self.by else ""
        return f"ordered on {self.on}, slack {self.slack}{by}"


def order(on: str, slack: int = 0, by: Sequence[str] | str = ()) -> Order:
    """How tuples are expected to arrive, in ascending order but for a slack: Aurora's order specification.

    For `assuming=`. An attribute that decreases is turned round before, with `map(turned="-left", ...)`.
    """
    return Order(on, slack, (by,) if isinstance(by, str) else tuple(by))
