"""Join of two temporal streams, as the Python language builds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.algebra.expressions.pair_binding import bind_pair
from penstock.algebra.temporal.elements import SYNC, payload_names
from penstock.boxes.temporal_join.box import TemporalJoin
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def join_temporal(
    left: Stream,
    right: Stream,
    predicate: str | None,
    *,
    window: Mapping[str, object],
    how: str = "inner",
    names: tuple[str, str] = ("l", "r"),
    name: str | None = None,
) -> Stream:
    builder = left._builder
    label = builder._fresh("join", name)
    with builder._building(label):
        if right._builder is not builder:
            raise QueryError("the streams of a join belong to different networks")
        if not (left._port.temporal and right._port.temporal):
            alone = right if left._port.temporal else left
            raise QueryError(
                "a temporal stream is joined with another temporal stream only",
                expected="two streams of events with lifetimes",
                found=f"'{alone._port.name}', whose tuples have none",
            )
        given = [f"{key}=" for key, value in window.items() if value is not None]
        if given:
            raise QueryError(
                "a join of temporal streams has no window: events are paired while both are valid",
                found=", ".join(given),
                hint=f"leave out {' and '.join(given)}",
            )
        if how != "inner":
            raise QueryError(f"how={how!r} is not known of temporal streams", expected="how='inner'")
        kinds = [side.schema.field(SYNC).type for side in (left, right)]
        if kinds[0] != kinds[1]:
            raise QueryError(
                "the times of the streams cannot be compared",
                expected="times of one type",
                found=f"{kinds[0]} and {kinds[1]}",
            )
        pairing = bind_pair(predicate, _payload(left), _payload(right), names)
        return builder._add(TemporalJoin(label, (left._port, right._port), pairing))


def _payload(stream: Stream) -> pa.Schema:
    return pa.schema([stream.schema.field(name) for name in payload_names(stream.schema.names)])
