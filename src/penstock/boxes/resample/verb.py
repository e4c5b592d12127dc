"""Resample, as the Python language builds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from penstock.algebra.expressions.binding import parse, sql_of
from penstock.algebra.expressions.decomposition import decompose
from penstock.algebra.order import Order
from penstock.algebra.ticks import Duration, duration_ticks, tick_ns
from penstock.boxes.requirements import key_columns, refuse_hidden, require_ticks
from penstock.boxes.resample.box import LEFT, Resample
from penstock.boxes.times import refuse_downwards, require_time
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def resample(
    stream: Stream,
    other: Stream,
    outputs: Mapping[str, str],
    *,
    size: Duration,
    on: tuple[str, str] | str | None = None,
    by: Sequence[str] | str = (),
    assuming: Order | None = None,
    name: str | None = None,
) -> Stream:
    builder = stream._builder
    label = builder._fresh("resample", name)
    with builder._building(label):
        if getattr(other, "_builder", None) is None:
            raise QueryError("a stream is resampled from a stream", found=type(other).__name__)
        if other._builder is not builder:
            raise QueryError("the streams of a resample belong to different networks")
        keys = key_columns(by, other.schema)
        if assuming is not None and not isinstance(assuming, Order):
            raise QueryError(
                "that is no order specification", expected="pk.order(on=, slack=0, by=())", found=repr(assuming)
            )
        left, right = _attributes(stream, other, on, assuming)
        _check_attributes(stream, other, left, right)
        stream.require_progress(left, "a resample")
        if assuming is None:
            other.require_progress(right, "a resample")
        else:
            assuming = _order(assuming, right, keys)
            refuse_downwards(other, right, "assuming=")
        kind = stream.schema.field(left).type
        length = duration_ticks(size, kind)
        if length < 0:
            raise QueryError("the size of a resample is a distance in time", expected="0 or more", found=repr(size))
        _check_outputs(outputs, left, keys)
        named = {out: _named(text, stream.schema, other.schema) for out, text in outputs.items()}
        aggregation = decompose(named, _both(stream.schema, other.schema), on=right)
        refuse_hidden((*outputs, *keys, left, *aggregation.columns))
        _check_case(aggregation.columns)
        ports = (stream._port, other._port)
        box = Resample(label, ports, aggregation, tuple(outputs.items()), (left, right), length, keys, assuming)
        return builder._add(box)


def _attributes(
    stream: Stream, other: Stream, on: tuple[str, str] | str | None, assuming: Order | None
) -> tuple[str, str]:
    """The attributes on which the streams are aligned: given, or the only ones that progress."""
    if isinstance(on, str):
        return on, on
    if on is not None:
        if len(on) != 2:
            raise QueryError("on= names an attribute of each stream", expected="on=('A', 'B')", found=repr(on))
        return on[0], on[1]
    return stream.only_progressing(), assuming.on if assuming is not None else other.only_progressing()


def _check_attributes(stream: Stream, other: Stream, left: str, right: str) -> None:
    """Refuse attributes whose ticks cannot be compared."""
    require_time(stream, left)
    require_time(other, right)
    require_ticks(left, stream.schema, "has no distance in time")
    require_ticks(right, other.schema, "has no distance in time")
    kinds = stream.schema.field(left).type, other.schema.field(right).type
    sorts = [(pa.types.is_integer(k), pa.types.is_date(k), getattr(k, "tz", None) is None, tick_ns(k)) for k in kinds]
    if sorts[0] != sorts[1]:
        raise QueryError(
            f"'{left}' and '{right}' are not measured alike",
            expected="two integers, two dates, or two timestamps of one unit, with or without time zones",
            found=f"{left} {kinds[0]}, {right} {kinds[1]}",
            hint=f"cast one with map(), for example {right}='CAST({right} AS ...)'",
        )


def _order(assuming: Order, right: str, keys: tuple[str, ...]) -> Order:
    if assuming.on != right or set(assuming.by) != set(keys):
        wanted = Order(right, assuming.slack, keys)
        raise QueryError(
            "the order that is assumed is not that of the windows",
            expected=wanted.describe(),
            found=assuming.describe(),
            hint="give the order the attribute of the other stream in on=, and the same by= as the resample",
        )
    return Order(right, assuming.slack, keys)


def _check_outputs(outputs: Mapping[str, str], left: str, keys: tuple[str, ...]) -> None:
    if not outputs:
        raise QueryError("a resample without outputs", expected="at least one, for example {'mean': 'avg(v)'}")
    if left in keys:
        raise QueryError(
            f"two columns of the result would be named '{left}'",
            found=f"'{left}' of this stream, and '{left}' of the other in by=",
            hint="rename one with map()",
        )
    taken = {name.casefold() for name in (left, *keys)}
    for name, text in outputs.items():
        if not isinstance(text, str):
            raise QueryError(
                f"the output '{name}' cannot be read", expected="an SQL text such as 'avg(v)'", found=repr(text)
            )
        if name.casefold() in taken:
            raise QueryError(
                f"the output '{name}' has the name of a result column",
                hint=f"the by attributes and '{left}' are in the result already; rename the output",
            )


def _both(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """What aggregates see: the columns of the other stream, and those of this one as `l.x`."""
    if mistaken := [name for name in right.names if name.startswith(LEFT)]:
        raise QueryError(
            f"column '{mistaken[0]}' of the other stream is named like one of this stream", hint="rename it with map()"
        )
    return pa.schema([*right, *(field.with_name(LEFT + field.name) for field in left)])


def _named(text: str, left: pa.Schema, right: pa.Schema) -> str:
    """An output in which `l.x` is one word and `r.x` is plain; as it is where it names no side."""
    tree = parse(text, what="output")
    sided = False
    for node in list(tree.find_all(exp.Column)):
        side, *rest = [part.name for part in node.parts]
        if not rest or side.casefold() not in ("l", "r"):
            continue
        sided = True
        schema = left if side.casefold() == "l" else right
        column = _column(side, rest[0], schema)
        made: exp.Expr = exp.column(exp.to_identifier(LEFT + column if schema is left else column, quoted=True))
        for field in rest[1:]:
            made = exp.Dot(this=made, expression=exp.to_identifier(field, quoted=True))
        node.replace(made)
    return sql_of(tree) if sided else text


def _column(side: str, name: str, schema: pa.Schema) -> str:
    same = [known for known in schema.names if known.casefold() == name.casefold()]
    found = name if name in schema.names else same[0] if len(same) == 1 else None
    if found is None:
        raise QueryError(
            f"unknown column '{side}.{name}' in the output",
            expected=f"one of {', '.join(f'{side}.{known}' for known in schema.names)}",
        )
    return found


def _check_case(columns: Sequence[str]) -> None:
    folded: dict[str, str] = {}
    for name in columns:
        if folded.setdefault(name.casefold(), name) != name:
            raise QueryError(
                f"the outputs use '{folded[name.casefold()]}' and '{name}', which differ in case only",
                hint="rename one of them with map()",
            )
