"""How a network is run: what may differ between two runs without changing their answers."""

from __future__ import annotations

import os
from dataclasses import dataclass

from penstock.errors import QueryError

TRAIN_ROWS = 8_000_000
TRAIN_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True)
class Settings:
    """The size of a train bounds memory; buckets and tasks are the parallelism of stages and intake."""

    train_rows: int = TRAIN_ROWS
    train_bytes: int = TRAIN_BYTES
    buckets: int = 0
    tasks: int = 0

    def __post_init__(self) -> None:
        for name in ("train_rows", "train_bytes"):
            if getattr(self, name) < 1:
                raise QueryError(f"{name} must be at least 1", found=str(getattr(self, name)))
        cores = os.cpu_count() or 1
        for name in ("buckets", "tasks"):
            value = getattr(self, name)
            if value < 0:
                raise QueryError(f"{name} must be at least 1", found=str(value))
            if value == 0:
                object.__setattr__(self, name, cores)
