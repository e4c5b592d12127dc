"""AsTemporal, as the Python language builds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.algebra.expressions.binding import bind
from penstock.algebra.expressions.expression import Expression
from penstock.algebra.temporal.elements import COLUMNS
from penstock.algebra.ticks import LONGEST, Duration, duration_ticks
from penstock.boxes.as_temporal.box import AsTemporal
from penstock.boxes.times import only_progressing, refuse_downwards, require_time
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def as_temporal(stream: Stream, *, start: str | None, end: Duration | None, name: str | None) -> Stream:
    builder = stream._builder
    label = builder._fresh("as_temporal", name)
    with builder._building(label):
        if stream._port.temporal:
            raise QueryError(
                "the stream is temporal already", found=f"'{stream._port.name}', whose tuples are elements"
            )
        attribute = start if start is not None else only_progressing((stream,), "events start at")
        require_time(stream, attribute)
        refuse_downwards(stream, attribute, "the start of events")
        stream.require_progress(attribute, "events that start", "never be stable")
        box = AsTemporal(label, (stream._port,), attribute, _end(end, attribute, stream.schema))
        taken = [column for column in box.payload if column in COLUMNS]
        if taken:
            raise QueryError(
                f"a column is called '{taken[0]}', as one of every temporal stream is",
                expected=f"other names than {', '.join(COLUMNS)}",
                hint="rename it with map() before",
            )
        return builder._add(box)


def _end(end: Duration | None, start: str, schema: pa.Schema) -> Expression | int | None:
    """When events end: an expression, or a length in ticks."""
    if end is None:
        return None
    kind = schema.field(start).type
    if not isinstance(end, str) or end.strip()[:1].isdigit():
        length = duration_ticks(end, kind)
        if not 0 < length <= LONGEST:
            raise QueryError("an event lasts for a positive length of time", found=f"end={end!r}")
        return length
    bound = bind(end, schema, what="end")
    if bound.type != kind:
        raise QueryError(
            f"the end of events has another type than '{start}'",
            expected=f"{kind}, or a length such as '1 minute'",
            found=f"{bound.type}, the type of {end!r}",
            hint="cast it: CAST(... AS ...)",
        )
    return bound
