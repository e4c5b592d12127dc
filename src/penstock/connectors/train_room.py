"""What the next train of an input still has room for."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.connectors.connector import Limit


@dataclass
class TrainRoom:
    """The limit of a train, and what it has taken so far."""

    limit: Limit
    rows: int = 0
    bytes: float = 0.0
    begun: bool = False

    @property
    def rows_left(self) -> int:
        return self.limit.rows - self.rows

    @property
    def long_enough(self) -> bool:
        """Whether it may end before its limit, where that spares somebody to decode a part in pieces."""
        return self.begun and (2 * self.rows >= self.limit.rows or 2 * self.bytes >= self.limit.bytes)

    def room(self, width: float) -> int:
        """The rows of a width that the bytes have room for; the first is always taken."""
        return max(0 if self.begun else 1, int((self.limit.bytes - self.bytes) / width))

    def add(self, rows: int, width: float) -> None:
        self.rows, self.bytes, self.begun = self.rows + rows, self.bytes + rows * width, True
