"""Maps side by side as one box, which asks the kernel once: the optimizer makes it of maps that never fail."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from penstock.boxes.map.box import Map

if TYPE_CHECKING:
    from penstock.operators.protocol import Operator


@dataclass(frozen=True)
class CombinedMap(Map):
    """What the last of several maps computes, of the tuples that come to the first."""

    parts: tuple[str, ...] = ()
    """The names that the work of each map is told of."""

    page: ClassVar[str] = "optimizer.md"

    @property
    def several(self) -> tuple[str, ...]:
        return self.parts

    def operator(self, needed: Collection[str]) -> Operator:
        from penstock.boxes.map.operator import CombinedMapOp

        return CombinedMapOp(self, needed)
