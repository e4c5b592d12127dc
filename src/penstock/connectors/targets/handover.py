"""Targets that get their tuples on the driver: read from where workers staged them, once for each batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import pyarrow as pa

from penstock.connectors.targets.target import (
    SILENT,
    Markers,
    OutputProgress,
    Receipt,
    Target,
    enrol,
    enrolled_schema,
    read_staged,
    stage_arrow,
    writer,
)
from penstock.storage.folder import Folder


class HandedOver(Target):
    """Hands the tuples of each batch over, on the driver; after a crash the last batch may come again."""

    @abstractmethod
    def deliver(self, output: str, batch: int, tuples: pa.Table) -> None:
        """Hand the tuples of a batch over."""

    @property
    def outside(self) -> bool:
        return True

    def check(self, name: str, schema: pa.Schema, scratch: Folder) -> None:
        enrol(name, schema, scratch, self.describe())

    def stage(self, batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
        return stage_arrow(batch, part, table, scratch)

    def commit(
        self, batch: int, receipts: Sequence[Receipt], scratch: Folder, progress: OutputProgress = SILENT
    ) -> None:
        if not receipts:
            return
        files = [file for receipt in sorted(receipts, key=lambda r: r.part) for file in receipt.files]
        markers = Markers(scratch)
        if batch > markers.last():
            parts = [read_staged(scratch, file.name, file.bytes, file.crc) for file in files]
            tuples = pa.concat_tables([enrolled_schema(scratch).empty_table(), *parts])
            self._hand_over(batch, tuples, scratch, progress)
            markers.put(batch)
        for file in files:
            scratch.delete(file.name)

    def _hand_over(self, batch: int, tuples: pa.Table, scratch: Folder, progress: OutputProgress) -> None:
        self.deliver(writer(scratch).output, batch, tuples)

    def last_committed(self, scratch: Folder) -> int:
        return Markers(scratch).last()
