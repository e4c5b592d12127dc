"""Tuples that are handed over on the driver: read from where workers staged them, once for each batch."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.connectors.targets.target import Markers, Receipt, enrolled_schema, read_staged
from penstock.storage.folder import Folder


def pending(batch: int, receipts: Sequence[Receipt], scratch: Folder) -> pa.Table | None:
    """The tuples of a batch on the driver; None if there are none, or they were delivered before."""
    if not receipts or batch <= Markers(scratch).last():
        return None
    files = [file for receipt in sorted(receipts, key=lambda r: r.part) for file in receipt.files]
    parts = [read_staged(scratch, file.name, file.bytes, file.crc) for file in files]
    return pa.concat_tables([enrolled_schema(scratch).empty_table(), *parts])


def settle(batch: int, receipts: Sequence[Receipt], scratch: Folder) -> None:
    """The batch is delivered: remember it, and clear what carried it here."""
    markers = Markers(scratch)
    if receipts and batch > markers.last():
        markers.put(batch)
    for name in (file.name for receipt in receipts for file in receipt.files):
        scratch.delete(name)
