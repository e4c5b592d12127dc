"""Chunks that are added to a slot: from time to time they are made one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from penstock.operators.protocol import Slots

MERGE_CHUNKS: Final = 8
"""Chunks that a slot gathers before they are made one: bounds the state without rewriting it every batch."""
GATHER_CHUNKS: Final = 64
"""The same where that writes much again and makes it no less: it only saves opening many small chunks."""


def add_chunk(
    slots: Slots,
    slot: int,
    part: str,
    tuples: pa.Table,
    most: int = MERGE_CHUNKS,
    *,
    merge: Callable[[pa.Table], pa.Table] | None = None,
    at_once: bool = False,
) -> None:
    """Add tuples to a slot; if that makes `most` chunks, or `at_once`, all become one, merged if they can be."""
    if not at_once and slots.count(slot, part) + 1 < most:
        slots.append(slot, part, tuples)
        return
    whole = pa.concat_tables([*slots.chunks(slot, part), tuples])
    slots.replace(slot, part, (whole if merge is None else merge(whole)).combine_chunks())
