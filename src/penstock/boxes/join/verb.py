"""Join, as the Python language builds it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.algebra.expressions.pair_binding import bind_pair
from penstock.algebra.expressions.pairing import Pairing
from penstock.algebra.order import Order
from penstock.algebra.ticks import Duration, duration_ticks, tick_ns
from penstock.boxes.assume.verb import assume
from penstock.boxes.join.band import Band
from penstock.boxes.join.box import HOW, PROGRESS, Join
from penstock.boxes.times import downwards, left_out, refuse_downwards, require_time
from penstock.errors import PenstockError, QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream

On = tuple[str, str] | str | None
Orders = tuple[Order | None, Order | None]


def join(
    left: Stream,
    right: Stream,
    predicate: str | None = None,
    *,
    on: On = None,
    size: Duration | None = None,
    band: tuple[Duration, Duration] | None = None,
    how: str = "inner",
    names: tuple[str, str] = ("l", "r"),
    progress: str = "pair",
    assuming: Orders | None = None,
    name: str | None = None,
) -> Stream:
    builder = left._builder
    label = builder._fresh("join", name)
    before = len(builder._boxes)
    try:
        with builder._building(label):
            if getattr(right, "_builder", None) is None:
                raise QueryError("a stream is joined with another stream or with a table", found=repr(right))
            if right._builder is not builder:
                raise QueryError("the streams of a join belong to different networks")
            for what, value, choices in (("how", how, HOW), ("progress", progress, PROGRESS)):
                if value not in choices:
                    raise QueryError(f"{what}={value!r} is unknown", expected=f"one of {', '.join(choices)}")
            orders = _orders(assuming)
            attributes = _attributes(on, orders, left, right)
            for stream, attribute in zip((left, right), attributes, strict=True):
                require_time(stream, attribute)
            inputs = [
                stream if order is None else assume(stream, order, f"{label}.{side}")
                for stream, order, side in zip((left, right), orders, Join.SIDES, strict=True)
            ]
            for stream, attribute in zip(inputs, attributes, strict=True):
                stream.require_progress(attribute, "a join")
            pairing = bind_pair(predicate, left.schema, right.schema, names)
            near = _band(size, band, pairing, attributes)
            ports = inputs[0]._port, inputs[1]._port
            return builder._add(Join(label, ports, pairing, attributes, near, how, progress))
    except PenstockError:
        # What is refused leaves nothing behind, not even the boxes of its orders.
        del builder._boxes[before:]
        raise


def _orders(assuming: Orders | None) -> Orders:
    if assuming is None:
        return None, None
    pair = isinstance(assuming, tuple) and len(assuming) == 2
    if not pair or not all(order is None or isinstance(order, Order) for order in assuming):
        raise QueryError(
            "assuming= takes an order for each stream",
            expected="a pair, such as (pk.order('ts', slack=2), None)",
            found=repr(assuming),
        )
    return assuming


def _attributes(on: On, orders: Orders, left: Stream, right: Stream) -> tuple[str, str]:
    """The progressing attributes: as given, those of the orders, or the only ones there are."""
    given: tuple[str | None, str | None]
    if isinstance(on, str):
        given = on, on
    elif on is None:
        given = None, None
    elif isinstance(on, tuple | list) and len(on) == 2 and all(isinstance(a, str) for a in on):
        given = on[0], on[1]
    else:
        raise QueryError(
            "on= names the progressing attributes of the join", expected="two names, or one of both", found=repr(on)
        )
    found = []
    for stream, attribute, order in zip((left, right), given, orders, strict=True):
        if attribute is not None and order is not None and order.on != attribute:
            raise QueryError(
                f"the order assumed of '{stream._port.name}' is not on the attribute of the join",
                expected=attribute,
                found=order.on,
            )
        if attribute is None:
            attribute = order.on if order is not None else _only(stream)
        found.append(attribute)
    return found[0], found[1]


def _only(stream: Stream) -> str:
    if len(stream.progressing) == 1:
        return stream.progressing[0]
    if not stream.progressing and (falling := downwards(stream)):
        refuse_downwards(stream, falling[0], "a join")
    raise QueryError(
        "say which attributes the join is on",
        found=f"'{stream._port.name}' makes progress on {', '.join(stream.progressing) or 'nothing'}",
        hint=left_out(stream) or "give on=('A', 'B'), one progressing attribute of each stream",
    )


def _band(size: Duration | None, band: tuple[Duration, Duration] | None, pairing: Pairing, on: tuple[str, str]) -> Band:
    kinds = pairing.left.field(on[0]).type, pairing.right.field(on[1]).type
    _require_comparable(on, kinds)
    if size is not None and band is not None:
        raise QueryError("size= and band= are two ways to say the same", hint="give one of them")
    if size is not None:
        length = _ticks(size, kinds[0], "size")
        if length < 0:
            raise QueryError("the size of a join is negative", expected="0 or more", found=repr(size))
        return Band(length, length)
    if band is not None:
        if not isinstance(band, tuple | list) or len(band) != 2:
            raise QueryError("band= takes two durations", expected="(before, after)", found=repr(band))
        return Band(_ticks(band[0], kinds[0], "band"), _ticks(band[1], kinds[0], "band"))
    if on in pairing.equated:
        return Band(0, 0)
    left, right = pairing.inside(0, on[0]), pairing.inside(1, on[1])
    raise QueryError(
        f"unbounded band: nothing says how far apart {left} and {right} of a pair may be, so all tuples would be kept",
        hint=f"give size= or band=, or a predicate with {left} = {right}",
    )


def _require_comparable(on: tuple[str, str], kinds: tuple[pa.DataType, pa.DataType]) -> None:
    same = (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_date)
    if not any(is_kind(kinds[0]) and is_kind(kinds[1]) for is_kind in same) or tick_ns(kinds[0]) != tick_ns(kinds[1]):
        raise QueryError(
            "the progressing attributes of the streams cannot be compared",
            expected="two integers, two dates, or two timestamps of the same unit",
            found=f"{on[0]} {kinds[0]} and {on[1]} {kinds[1]}",
            hint="cast one of them with map()",
        )


def _ticks(value: Duration, kind: pa.DataType, what: str) -> int:
    """A length in ticks, which may be negative."""
    if isinstance(value, bool) or not isinstance(value, int | str | dt.timedelta):
        raise QueryError(
            f"{what}= takes a number of ticks or a duration", expected="such as 5 or '10 seconds'", found=repr(value)
        )
    if isinstance(value, str) and value.strip().startswith("-"):
        return -duration_ticks(value.strip()[1:], kind)
    if isinstance(value, dt.timedelta) and value < dt.timedelta(0):
        return -duration_ticks(-value, kind)
    return duration_ticks(value, kind)
