"""The entry of a join of temporal streams: elements go to their stage as they are, with their order of arrival."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.algebra.hidden import ARRIVED, carried
from penstock.boxes.temporal_join.box import TemporalJoin


class TemporalJoinEntryOp:
    """Sends the elements of each side, by the side's name. It keeps those of the running batch only."""

    def __init__(self, box: TemporalJoin) -> None:
        self._names = box.SIDES
        self._columns = [side.schema.names for side in box.inputs]
        self._gathered: tuple[list[pa.Table], list[pa.Table]] = ([], [])

    def process(self, slot: int, tuples: pa.Table) -> None:
        self._gathered[slot].append(tuples.select([*self._columns[slot], *carried(tuples)]))

    def flush(self) -> Iterator[tuple[str, pa.Table]]:
        for side, gathered in enumerate(self._gathered):
            # Elements may come from behind a stage, with a QoS timestamp, and from the intake, without.
            for stamped in (False, True):
                alike = [table for table in gathered if (ARRIVED in table.column_names) == stamped]
                if alike:
                    yield self._names[side], pa.concat_tables(alike)
            gathered.clear()
