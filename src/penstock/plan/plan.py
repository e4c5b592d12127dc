"""The plan of a network: where each part of it runs on the path of a tuple.

Place 0 is the intake, place k >= 1 is stage k. Stateless boxes run wherever their tuples are. A stateful box is split:
its entry (for an Aggregate, the low-level half) runs where the tuples are, its holder at its stage, in the bucket of
the keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.algebra.box import Box, Stateful, Stateless
from penstock.algebra.network import Network

INTAKE = 0

OUT_OF_ORDER: Final = "out-of-order"
IN_ORDER: Final = "in-order"
ARCHITECTURES: Final = (OUT_OF_ORDER, IN_ORDER)


@dataclass(frozen=True)
class Step:
    """One thing that the optimizer does to a network."""

    rewrite: str
    """Which of `plan/rewrites`."""
    box: str
    """The box that it is done to."""


Arrangement = tuple[Step, ...]
"""What the optimizer does to a network, one step after the other."""


@dataclass(frozen=True)
class Plan:
    """What the rules have decided about a network."""

    network: Network
    architecture: str = OUT_OF_ORDER
    """Whether streams flow as they come, or are kept in order."""
    stages: int = 0
    """How many stages follow the intake."""
    stage_of: Mapping[str, int] = field(default_factory=dict)
    """The stage of every stateful box, by box name."""
    columns: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The columns that are needed of every port, by port name."""
    steps: Mapping[str, int] = field(default_factory=dict)
    """The smallest step, in ticks, of any window that a source or stateful box feeds, by box name."""
    pruned: tuple[str, ...] = ()
    """The boxes of the network that nobody reads, and that are no part of the plan."""
    arrangement: Arrangement = ()
    """What the optimizer has done to the network as the user has described it."""
    declared: Network | None = None
    """The network as the user has described it."""
    accounts: Mapping[str, str] = field(default_factory=dict)
    """Whose work boxes do that stand in for one of the user's, by name."""

    def account(self, box: str) -> str:
        """The box of the user's network that the work of a box is told of: itself, if it is one."""
        return self.accounts.get(box, box)

    def stands_for(self, box: Box) -> tuple[str, ...]:
        """The boxes of the user's network that a box does the work of."""
        several = box.several if isinstance(box, Stateless) else ()
        return several or (self.account(box.name),)

    def stateful(self, stage: int) -> tuple[Stateful, ...]:
        """The boxes that keep their state at a stage, in topological order."""
        return tuple(b for b in self.network.boxes if isinstance(b, Stateful) and self.stage_of[b.name] == stage)


def fresh_name(name: str, taken: set[str]) -> str:
    """A name for a box that a rule adds, which is taken from now on.

    >>> fresh_name("sorted", taken := {"sorted"}), sorted(taken)
    ('sorted2', ['sorted', 'sorted2'])
    """
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}{number}"
    taken.add(free)
    return free
