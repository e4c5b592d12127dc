"""What a connection point of a network holds, as an input of the same network: for a query that is attached to it.

It is read up to the batch before the one that is planned. When a train reaches that far the input has ended, and the
arc itself goes on from there, with the tuples of the very same batch: whoever plans a batch finds in the table what all
batches before it have brought, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.connectors.connector import Advance, Journal, Limit, Position
from penstock.connectors.delta.input_position import TablePlace
from penstock.connectors.points.point_feed import PointFeed
from penstock.connectors.points.point_input import PointInput

SHARE: Final = 0.5
"""How much of the time batches of a history may take, if nobody says otherwise."""
PIECE_ROWS: Final = 1 << 22
"""Long histories are read ahead in pieces of at most so many rows: counts by group hardly grow with more of them."""


@dataclass(frozen=True)
class PointHistory(PointInput):
    """The past of an arc; `follow` is true, for the table grows until the end of it has been reached."""

    follow: bool = True
    point: str = ""
    share: float = SHARE
    piece_rows: int = PIECE_ROWS

    @property
    def bounded(self) -> bool:
        return True

    @property
    def catches_up(self) -> bool:
        return True

    @property
    def past_of(self) -> str:
        return self.point

    def describe(self) -> str:
        # The folder is that of the checkpoint, which may be moved; the point is the same.
        return f"what the connection point '{self.point}' holds"

    def open(self, schema: pa.Schema, journal: Journal) -> HistoryFeed:
        return HistoryFeed(self, schema, journal)


class HistoryFeed(PointFeed):
    """What a connection point holds, until that is all there is."""

    def advance(self, position: Position, limit: Limit) -> Advance:
        step = super().advance(position, limit)
        return Advance(step.position, self._all_read(step.position), step.clock, step.rows, step.bytes)

    def _all_read(self, position: Position) -> bool:
        place = TablePlace.of(position)
        inside = place.file > 0 or place.row > 0
        return not self._is_there() or (not inside and place.version > self._log.versions()[-1])
