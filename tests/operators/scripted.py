"""Boxes to put under an operator."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import penstock as pk
from penstock.algebra.box import Box
from penstock.algebra.hidden import ARRIVED


def box_of(stream: pk.Stream) -> Any:
    """The box whose output a stream is."""
    found: Box = stream._port.box
    return found


def source(schema: dict[str, str]) -> pk.Stream:
    return pk.Network("net").source("in", pk.memory([], schema=schema))


def stamped(tuples: pa.Table, arrived: int = 0) -> pa.Table:
    """Tuples as a holder receives them: with the time of their arrival."""
    return tuples.append_column(ARRIVED, pa.repeat(pa.scalar(arrived, pa.int64()), tuples.num_rows))
