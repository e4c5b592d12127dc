"""Aggregate, as the Python language builds it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.algebra.expressions.binding import bind_predicate
from penstock.algebra.expressions.decomposition import Outputs, decompose, output_texts
from penstock.algebra.expressions.expression import Expression
from penstock.algebra.expressions.python_functions import WindowFunction
from penstock.algebra.order import TUPLE_NUMBER, Order
from penstock.algebra.temporal.elements import COLUMNS
from penstock.algebra.ticks import Duration, duration_ns, duration_ticks
from penstock.algebra.window import Window
from penstock.boxes.aggregate.box import Aggregate
from penstock.boxes.aggregate.by_group.box import ByCount, ByMark, ByOrder, GroupwiseAggregate, Opening, Periodic
from penstock.boxes.aggregate.descending import aggregate_down
from penstock.boxes.aggregate.low_level.verb import smoothed, smoothing
from penstock.boxes.aggregate.speculative.box import SpeculativeAggregate
from penstock.boxes.requirements import key_columns, refuse_hidden, require_columns, require_ticks
from penstock.boxes.times import decreases, refuse_downwards, require_time
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream

ORIGINS = ("epoch", "first")
FINAL = "final"
SPECULATIVE = "speculative"
EMITS = (FINAL, SPECULATIVE)


def aggregate(
    stream: Stream,
    outputs: Outputs,
    *,
    size: Duration,
    on: str | None = None,
    advance: Duration | None = None,
    by: Sequence[str] | str = (),
    assuming: Order | None = None,
    timeout: str | dt.timedelta | None = None,
    origin: str = "epoch",
    emit: str = FINAL,
    partial: bool = False,
    flush: str | None = None,
    table: int | None = None,
    every: int | None = None,
    delay: int | None = None,
    name: str | None = None,
) -> Stream:
    builder = stream._builder
    label = builder._fresh("aggregate", name)
    with builder._building(label):
        if not isinstance(outputs, Mapping | WindowFunction):
            raise QueryError(
                "the outputs of an aggregate cannot be read",
                expected="{'name': 'SQL with aggregates'}, or pk.window_function(...)",
                found=repr(outputs),
            )
        if emit not in EMITS:
            raise QueryError(f"emit={emit!r} is unknown", expected=f"one of {', '.join(EMITS)}")
        down = None if assuming is not None else decreases(stream, on)
        if down is not None and emit == SPECULATIVE:
            raise QueryError(f"'{down}' decreases, and lifetimes of events do not", hint="leave emit= out")
        if down is not None and isinstance(advance, str | dt.timedelta):
            raise QueryError(f"'{down}' decreases, and advance= must be a number then", found=repr(advance))
        if down is not None:
            options = {"by": by, "timeout": timeout, "origin": origin, "partial": partial, "name": label}
            smooth_options = {"flush": flush, "table": table, "every": every, "delay": delay}
            return aggregate_down(stream, outputs, down, size, advance, **options, **smooth_options)
        keys = key_columns(by, stream.schema)
        if assuming is not None and not isinstance(assuming, Order):
            raise QueryError("assuming= is no order specification", expected="pk.order(...)", found=repr(assuming))
        attribute = on or (assuming.on if assuming is not None else stream.only_progressing())
        # A column of that name comes first: numbers in its place would be other values than those that are seen.
        numbered = attribute == TUPLE_NUMBER and TUPLE_NUMBER not in stream.schema.names
        order = _order(assuming, attribute, keys, stream.schema)
        if order is not None:
            refuse_downwards(stream, attribute, "assuming=")
        if not numbered:
            require_time(stream, attribute)
            if attribute == TUPLE_NUMBER and order is None and attribute not in stream.progressing:
                raise QueryError(
                    f"'{TUPLE_NUMBER}' is a column of this stream, so windows cannot be on the numbers of its tuples",
                    hint="give the column another name, or leave it out, with map()",
                )
            if order is None:
                stream.require_progress(attribute, "a window")
        if attribute in keys:
            raise QueryError(f"'{attribute}' is named twice among the window attribute and by=")
        if partial and not numbered:
            raise QueryError(
                "partial= is for windows of tuples", found=f"a window on '{attribute}'", hint="on=pk.TUPLE_NUMBER"
            )
        kind = pa.int64() if numbered else stream.schema.field(attribute).type
        windows = _windows(size, advance, origin, kind, stream.schema)
        if numbered and isinstance(windows, Periodic):
            # The first tuple of a group has the number 1 in either case.
            windows = replace(windows, from_first=False)
        schema = _with_numbers(stream.schema) if numbered else stream.schema
        aggregation = decompose(outputs, schema, on=attribute)
        taken = set(aggregation.output_schema.names) & {attribute, *keys}
        if taken:
            raise QueryError(
                f"the output '{min(taken)}' has the name of a result column",
                hint="the window start and the by attributes are in the result already; rename the output",
            )
        refuse_hidden((*aggregation.output_schema.names, *keys, *aggregation.columns))
        texts = output_texts(outputs)
        wait = _timeout(timeout)
        smooth = smoothing(flush, table, every, delay)
        plain = isinstance(windows, Periodic) and not windows.from_first and not numbered
        if emit == SPECULATIVE:
            if not plain or not isinstance(windows, Periodic) or order or wait is not None or smooth is not None:
                raise QueryError(
                    "early results are those of windows that punctuation closes",
                    expected="windows at multiples of advance= on a progressing attribute",
                    found="assuming=, timeout=, flush=, origin='first', a predicate as advance=, or windows of tuples",
                    hint="leave these out, or emit='speculative'",
                )
            _refuse_times((*keys, *aggregation.output_schema.names))
            return builder._add(
                SpeculativeAggregate(label, (stream._port,), aggregation, texts, attribute, windows.window, keys)
            )
        if plain and isinstance(windows, Periodic) and order is None and wait is None:
            box = Aggregate(label, (stream._port,), aggregation, texts, attribute, windows.window, keys)
            return builder._add(box) if smooth is None else smoothed(stream, box, *smooth)
        if smooth is not None:
            raise QueryError(
                "flush= is for windows that punctuation closes",
                expected="windows at multiples of advance= on a progressing attribute",
                found="assuming=, timeout=, origin='first', a predicate as advance=, or windows of tuples",
                hint="leave flush= out: these windows are closed group by group, so their results are spread already",
            )
        pace = ByCount(partial) if numbered else ByMark() if order is None else ByOrder(order)
        return builder._add(
            GroupwiseAggregate(label, (stream._port,), aggregation, texts, attribute, windows, keys, pace, wait)
        )


def _refuse_times(payload: Sequence[str]) -> None:
    """Refuse columns of a payload with the names of what elements say of lifetimes."""
    taken = [name for name in payload if name in COLUMNS]
    if taken:
        raise QueryError(
            f"early results have a column '{taken[0]}' of their own",
            expected=f"groups and outputs with other names than {', '.join(COLUMNS)}",
            hint="rename the output, or the group with map()",
        )


def _order(order: Order | None, on: str, keys: tuple[str, ...], schema: pa.Schema) -> Order | None:
    """The order specification, if it says anything of the windows; refused where it speaks of something else."""
    if order is None:
        return None
    if order.on != on:
        raise QueryError(
            f"the order assumed is on '{order.on}', but the windows are on '{on}'",
            expected=f"pk.order('{on}', ...)",
            hint="order and windows must be on the same attribute",
        )
    if on == TUPLE_NUMBER and on not in schema.names:
        if order.slack or (order.by and order.by != keys):
            raise QueryError(
                "tuple numbers are given in order of arrival, in each group of by=",
                found=order.describe(),
                hint="leave assuming= out",
            )
        return None
    require_columns((order.on,), schema)
    groups = key_columns(order.by, schema)
    require_ticks(on, schema, "has no ticks to order by")
    foreign = [name for name in groups if name not in keys]
    if foreign:
        raise QueryError(
            f"the order assumed is by '{foreign[0]}', which is no group of the windows",
            expected=f"some of by= ({', '.join(keys) or 'nothing'})",
            found=order.describe(),
            hint=f"add '{foreign[0]}' to by=, or leave it out of the order",
        )
    return order


def _windows(
    size: Duration, advance: Duration | None, origin: str, kind: pa.DataType, schema: pa.Schema
) -> Periodic | Opening:
    if origin not in ORIGINS:
        raise QueryError(f"origin={origin!r} is unknown", expected=f"one of {', '.join(ORIGINS)}")
    length = duration_ticks(size, kind)
    step = length if advance is None else _advance(advance, kind, schema)
    if isinstance(step, int):
        return Periodic(Window(length, step), origin == "first")
    if origin != "epoch":
        raise QueryError("windows that a predicate opens have no origin", found=f"origin={origin!r}")
    Window(length, 1)  # refuses a size that is not positive
    return Opening(length, step)


def _advance(advance: Duration, kind: pa.DataType, schema: pa.Schema) -> int | Expression:
    """A length in ticks, or the predicate that opens windows."""
    if callable(advance):
        raise QueryError(
            "advance= is a length or a condition in SQL",
            expected="such as 10, '10 seconds' or 'len > 100'",
            found=repr(advance),
        )
    if not isinstance(advance, str):
        return duration_ticks(advance, kind)
    try:
        return duration_ticks(advance, kind)
    except QueryError as no_length:
        try:
            return bind_predicate(advance, schema)
        except QueryError as no_predicate:
            if _is_duration(advance):
                raise no_length from None
            raise QueryError(
                f"advance={advance!r} is neither a length nor a condition",
                expected="a length such as '10 seconds' (an integer on an integer attribute), or a predicate that "
                "opens a window",
                found=no_predicate.what,
                hint=no_predicate.hint,
            ) from no_predicate


def _is_duration(text: str) -> bool:
    try:
        duration_ns(text)
    except QueryError:
        return False
    return True


def _timeout(timeout: str | dt.timedelta | None) -> int | None:
    """In microseconds."""
    if timeout is None:
        return None
    length = duration_ticks(timeout, pa.timestamp("us"))
    if length <= 0:
        raise QueryError("a timeout must be positive", found=repr(timeout))
    return length


def _with_numbers(schema: pa.Schema) -> pa.Schema:
    """What outputs over tuple numbers see."""
    return schema.append(pa.field(TUPLE_NUMBER, pa.int64()))
