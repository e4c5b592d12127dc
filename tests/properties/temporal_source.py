"""Inputs of elements, for tests of boxes that take temporal streams."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

import penstock as pk
from penstock.algebra.box import Port
from penstock.algebra.schema import parse_schema
from penstock.algebra.source import Source
from penstock.algebra.temporal.elements import element_schema
from penstock.algebra.temporal.properties import NOTHING, Properties
from penstock.language.stream import Stream


@dataclass(frozen=True)
class ElementSource(Source):
    """An input whose tuples are elements, with punctuation of `sync` as stable points."""

    def temporal(self, port: int) -> bool:
        return port in (0, self.LATE)

    def properties(self, port: int) -> Properties:
        return NOTHING


def temporal_source(
    net: pk.Network,
    name: str,
    payload: dict[str, str],
    elements: Any = (),
    time: pa.DataType | None = None,
    **script: Any,
) -> pk.Stream:
    """An input of elements; rows are in the order of their columns: sync, kind, vs, ve, vold, payload."""
    schema = element_schema(parse_schema(payload), time or pa.int64())
    stream = net.source(name, pk.memory(elements, schema=schema, **script), on="sync", progress=pk.punctuated())
    declared = stream._port.box
    source = ElementSource(**{field.name: getattr(declared, field.name) for field in fields(declared)})
    net._boxes[net._boxes.index(declared)] = source
    return Stream(net, Port(source))
