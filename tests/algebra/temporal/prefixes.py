"""Elements and events, written as the paper writes them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

import penstock as pk
from penstock.algebra.temporal.elements import element_schema

SCHEMA = element_schema([pa.field("p", pa.string())], pa.int64())
Element = tuple[Any, ...]


def insert(p: Any, vs: int, ve: float) -> Element:
    return vs, "insert", vs, _end(ve), None, p


def adjust(p: Any, vs: int, vold: float, ve: float) -> Element:
    return int(min(vold, ve)), "adjust", vs, _end(ve), _end(vold), p


def table(elements: Iterable[Element]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, each, strict=True)) for each in elements], SCHEMA)


def prefix(*elements: Element, stable: float | None = None) -> pk.Prefix:
    return pk.Prefix(table(elements), stable)


def events(*rows: tuple[str, int, float], stable: float | None = None) -> pk.Prefix:
    """A prefix by its events."""
    schema = pa.schema({"p": pa.string(), "vs": pa.int64(), "ve": pa.int64()})
    found = [{"p": p, "vs": vs, "ve": _end(ve)} for p, vs, ve in rows]
    return pk.Prefix.of_events(pa.Table.from_pylist(found, schema), stable)


def database(elements: pa.Table) -> list[tuple[Any, int, float]]:
    found = pk.tdb(elements)
    columns = (found.column(name).to_pylist() for name in ("p", "vs", "ve"))
    return [(p, vs, math.inf if ve is None else ve) for p, vs, ve in zip(*columns, strict=True)]


def _end(value: float) -> int | None:
    return None if math.isinf(value) else int(value)
