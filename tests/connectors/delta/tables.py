"""Small Delta tables, written by somebody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from tests.connectors.conftest import Drained

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])


def add(place: str, *stamps: int, **options: Any) -> None:
    rows = pa.table({"ts": list(stamps), "k": [f"k{ts}" for ts in stamps]}, schema=SCHEMA)
    deltalake.write_deltalake(place, rows, mode="append", **options)


def stamps(drained: Drained) -> list[int]:
    return [row["ts"] for row in drained.tuples]


def forget_commits(place: str, before: int) -> None:
    """What cutting a log short does, without waiting for a month."""
    for version in range(before):
        (Path(place) / "_delta_log" / f"{version:020d}.json").unlink()
