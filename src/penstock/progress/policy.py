"""What an input progress policy is: from what a shard has delivered to the low-water mark that it states.

A policy is frozen and pure; what it needs to remember is in the shard's `Extremes`. Each has a file in `policies/`;
those of silent inputs, which are policies too, are in `idle`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow as pa

from penstock.progress.extremes import Extremes

if TYPE_CHECKING:
    from penstock.progress.idle import Idle


@runtime_checkable
class Policy(Protocol):
    """States the low-water mark of one shard of an input. Policies derive from it, and say what they have of their own.

    A policy with `descending` set sees negative ticks.
    """

    @property
    def idle(self) -> Idle | None:
        """What the input states when it is silent."""
        return None

    @property
    def groups(self) -> tuple[str, ...]:
        """Where each value of these attributes makes progress of its own, tuples state nothing of the whole input."""
        return ()

    @property
    def in_order(self) -> bool:
        """Whether the tuples of a shard or group come in order, so that nobody need sort them."""
        return False

    @property
    def descending(self) -> bool:
        """Whether values decrease."""
        return False

    @property
    def where(self) -> str | None:
        """A predicate, in SQL, for records that are punctuation and no tuples."""
        return None

    @property
    def remembers(self) -> int:
        """How many of the largest values of a shard it needs to know; 0 if the largest alone will do."""
        return 0

    @abstractmethod
    def check(self, kind: pa.DataType) -> None:
        """Refuse parameters that do not fit the type of the progressing attribute."""

    @abstractmethod
    def low_water_mark(self, seen: Extremes, kind: pa.DataType) -> int:
        """The strongest punctuation that `seen` justifies, in ticks."""

    def bound(self, kind: pa.DataType) -> int | None:
        """How far behind the largest value of their shard or group tuples may be, in ticks; None if by no length."""
        return None

    def wants(self, seen: Extremes) -> str | None:
        """What must come before tuples state anything, in words; None if one tuple will do."""
        return None

    @abstractmethod
    def describe(self) -> str:
        """One phrase, for explain and status."""
