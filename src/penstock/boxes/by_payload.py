"""What boxes have in common that keep events of temporal streams: an event goes to the bucket of its payload."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from penstock.algebra.box import Stateful
from penstock.algebra.temporal.elements import SYNC
from penstock.algebra.temporal.properties import NOTHING, Properties


@dataclass(frozen=True)
class ByPayload(Stateful):
    """Keeps events until stable points let go of them."""

    page: ClassVar[str] = "temporal-streams.md"

    @property
    @abstractmethod
    def payload(self) -> tuple[str, ...]:
        """The columns that tell events apart, besides their start."""

    def keys(self, slot: int) -> tuple[str, ...]:
        return self.payload

    @property
    def partition(self) -> tuple[str, ...]:
        return self.payload

    def time_of(self, slot: int) -> str:
        return SYNC


@dataclass(frozen=True)
class JudgesInput(ByPayload):
    """Stands behind an input, and lets elements pass; what it refuses leaves for the error stream of the input."""

    source: str
    """The input that it speaks for."""

    passes_at_once: ClassVar[bool] = True
    ERRORS: ClassVar[int] = 1

    @property
    def ports(self) -> tuple[str, ...]:
        return ("", "errors")

    @property
    @abstractmethod
    def promised(self) -> Properties:
        """What is known of the elements that pass."""

    def temporal(self, port: int) -> bool:
        return port == 0

    def properties(self, port: int) -> Properties:
        return self.promised if port == 0 else NOTHING

    @property
    def speaks_for(self) -> str:
        return self.source
