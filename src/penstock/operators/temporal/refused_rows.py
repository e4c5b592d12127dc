"""Rows that a box refuses, as records of an error stream."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from penstock.algebra.error_records import reject_table
from penstock.algebra.hidden import ARRIVED, visible
from penstock.operators.arrays import Mask


def legal_rows(rows: int, refused: Mapping[int, str]) -> Mask:
    """Which of so many rows are not refused.

    >>> legal_rows(3, {1: "why"}).tolist()
    [True, False, True]
    """
    legal = np.ones(rows, np.bool_)
    legal[list(refused)] = False
    return legal


def refused_records(rows: pa.Table, refused: Mapping[int, str], origin: str) -> pa.Table:
    """The rows that are refused, by their number and with the reason."""
    aside = rows.take(pa.array(list(refused), pa.int64()))
    why = pa.array(list(refused.values()), pa.string())
    told = reject_table(aside.select(visible(aside.column_names)), origin, why)
    return told.append_column(ARRIVED, aside.column(ARRIVED))
