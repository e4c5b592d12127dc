"""One step, as it is shown: which box ran, which rule chose it, what it took and gave, and how things stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

FORWARD: Final = "Forward"
"""The box before it has output: the next box takes it."""
ENCORE: Final = "Encore"
"""There is no output, but more input: the same box again."""
BACKTRACK: Final = "Backtrack"
"""Neither: back along the empty buffers to a box that has input."""
ON_DEMAND: Final = "ETS"
"""Backtracking has come to a source with an empty buffer, and it states how far it must be."""
CLOCK: Final = "Clock"
"""The clock has reached the moment that the box had asked for."""


@dataclass(frozen=True)
class Step:
    """What happened in one step. Elements are texts: `(1, a)` is a tuple, `[ts >= 5]` punctuation."""

    number: int
    box: str
    rule: str
    took: str | None
    """The element that was consumed; None for a box that could only wait, and for a source."""
    took_from: str | None
    gave: tuple[tuple[str, str], ...]
    """(port, element) of everything that was produced."""
    tsm: Mapping[str, str]
    """The registers of an idle-waiting box, by input."""
    queues: Mapping[str, int]
    """How many elements are in each buffer, after the step."""
    waits_for: tuple[str, ...] = ()
    """The inputs that an idle-waiting box could not go on without."""

    def __str__(self) -> str:
        took = self.took if self.took is not None else ""
        if self.waits_for:
            took = f"waits for {' and '.join(self.waits_for)}"
        # Who leaves by another port than the first, such as that of late tuples, has not gone on as the others do.
        apart = any(port != self.box for port, _ in self.gave)
        gave = " ".join(f"{port}{element}" if apart else element for port, element in self.gave)
        # A filter that drops a tuple gives nothing, and that is worth seeing.
        moved = took if self.waits_for else f"{took} -> {gave or 'nothing'}".strip()
        parts = [f"{self.number:>4}  {self.rule:<9}  {self.box:<12}  {moved}"]
        if self.tsm:
            parts.append(f"TSM {' '.join(f'{name}={value}' for name, value in self.tsm.items())}")
        waiting = {label: length for label, length in self.queues.items() if length}
        if waiting:
            parts.append(f"queued {', '.join(f'{label}: {length}' for label, length in waiting.items())}")
        return "  |  ".join(parts)
