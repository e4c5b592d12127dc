"""Top, as the Python language builds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.algebra.expressions.binding import bind
from penstock.algebra.ticks import Duration, duration_ticks
from penstock.algebra.window import Window
from penstock.boxes.requirements import key_columns
from penstock.boxes.times import only_progressing, require_time
from penstock.boxes.top.box import RANK, WINDOW, Top
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def top(
    stream: Stream,
    n: int,
    *,
    by: str,
    size: Duration,
    on: str | None = None,
    advance: Duration | None = None,
    groups: Sequence[str] | str = (),
    ascending: bool = False,
    name: str | None = None,
) -> Stream:
    builder = stream._builder
    label = builder._fresh("top", name)
    with builder._building(label):
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise QueryError(
                "the first argument of top is a number of tuples", expected="an integer of 1 or more", found=repr(n)
            )
        bound = bind(by, stream.schema, what="expression of by=")
        if pa.types.is_nested(bound.type) or pa.types.is_null(bound.type):
            raise QueryError(
                f"by={by!r} has no order",
                expected="a number, a time, a text or a boolean",
                found=str(bound.type),
                hint="name what is to be compared, such as a field of it",
            )
        attribute = on if on is not None else only_progressing((stream,), "the windows are on")
        require_time(stream, attribute)
        stream.require_progress(attribute, "a window")
        keys = key_columns(groups, stream.schema, "groups=")
        if attribute in keys:
            raise QueryError(f"'{attribute}' is named twice: as the window attribute and in groups=")
        taken = [name for name in stream.schema.names if name.casefold() in (WINDOW, RANK)]
        if taken:
            raise QueryError(
                f"the stream has an attribute '{taken[0]}', as the results of a top do",
                expected=f"no attribute that is called {WINDOW} or {RANK}",
                hint="give it another name with map()",
            )
        kind = stream.schema.field(attribute).type
        length = duration_ticks(size, kind)
        window = Window(length, length if advance is None else duration_ticks(advance, kind))
        return builder._add(Top(label, (stream._port,), n, bound, attribute, window, keys, bool(ascending)))
