"""Aggregate, as the Python language builds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.algebra.aggregate import Aggregate
from penstock.algebra.aggregation import decompose
from penstock.algebra.ticks import Duration, duration_ticks
from penstock.algebra.window import Window
from penstock.errors import QueryError
from penstock.language.checks import key_columns, refuse_hidden, require_columns

if TYPE_CHECKING:
    from penstock.language.builder import Stream


def aggregate(
    stream: Stream,
    outputs: Mapping[str, str],
    *,
    size: Duration,
    on: str | None = None,
    advance: Duration | None = None,
    by: Sequence[str] | str = (),
    name: str | None = None,
) -> Stream:
    builder = stream._builder
    label = builder._fresh("aggregate", name)
    with builder._building(label):
        keys = key_columns(by, stream.schema)
        attribute = on if on is not None else stream.only_progressing()
        require_columns((attribute,), stream.schema)
        stream.require_progress(attribute, "a window")
        if attribute in keys:
            raise QueryError(f"'{attribute}' is named twice among the window attribute and by=")
        taken = set(outputs) & {attribute, *keys}
        if taken:
            raise QueryError(
                f"the output '{min(taken)}' has the name of a result column",
                hint="the window start and the by attributes are in the result already; rename the output",
            )
        kind = stream.schema.field(attribute).type
        length = duration_ticks(size, kind)
        window = Window(length, duration_ticks(advance, kind) if advance is not None else length)
        aggregation = decompose(outputs, stream.schema, on=attribute)
        refuse_hidden((*outputs, *keys, *aggregation.columns))
        return builder._add(
            Aggregate(label, (stream._port,), aggregation, tuple(outputs.items()), attribute, window, keys)
        )
