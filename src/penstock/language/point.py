"""What a stream's `connection_point` and `view` declare, checked when the network is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from penstock.algebra.box import Box, Output, Port, View
from penstock.algebra.ticks import Duration
from penstock.boxes.requirements import key_columns
from penstock.connectors.points.keeping import Keep, keep_of
from penstock.connectors.points.point_target import GRACE, ConnectionPoint
from penstock.connectors.points.stored_files import OWN_COLUMNS
from penstock.errors import QueryError
from penstock.progress.idle import span_ns
from penstock.storage.folder import Folder


def point_target(
    port: Port, name: str, keep: Keep | Duration | None, key: Sequence[str] | str, path: str | None, grace: str
) -> ConnectionPoint:
    """The place of a connection point; refused where the stream has columns of its names, or lacks what it asks for."""
    schema = port.schema
    clash = [column for column in schema.names if column in OWN_COLUMNS]
    if clash:
        raise QueryError(
            f"the stream has a column '{clash[0]}', which is a name that a connection point needs for itself",
            expected=f"columns with other names than {', '.join(OWN_COLUMNS)}",
            hint="rename it in a map box",
        )
    columns = key_columns(key, schema, "key=")
    nested = [column for column in columns if pa.types.is_nested(schema.field(column).type)]
    if nested:
        raise QueryError(f"'{nested[0]}' is no storage key", found=str(schema.field(nested[0]).type))
    on = next(iter(port.progressing), None)
    kept = keep_of(keep)
    kept.check(on, schema.field(on).type if on is not None else None)
    if span_ns(grace) < 1:
        raise QueryError("the grace must be positive", found=f"grace={grace!r}")
    place = Folder(path if path is not None else f"points/{name}")
    marked, pairs = (*port.progressing, *port.shape.falling), all(port.shape.joint)
    return ConnectionPoint(
        place, keep=kept, key=columns, on=on, marked=marked, pairs=pairs, grace=grace, beside=path is None
    )


ALL: Final = "all"
SOME: Final = "some"
NONE: Final = "none"


def view_box(
    port: Port,
    name: str,
    materialize: str,
    keep: Keep | Duration | None,
    key: Sequence[str] | str,
    path: str | None,
) -> Box:
    """A view: a connection point, where its results are kept."""
    if materialize not in (ALL, SOME, NONE):
        raise QueryError(f"materialize={materialize!r} is unknown", expected=f"one of {ALL}, {SOME}, {NONE}")
    if materialize == SOME and keep is None:
        raise QueryError("say how much of the view is kept", hint="keep='1 hour', or materialize='all'")
    if materialize != SOME and keep is not None:
        raise QueryError(f"keep= goes with materialize='{SOME}'", found=f"keep={keep!r}, materialize={materialize!r}")
    if materialize != NONE:
        return Output(name, (port,), point_target(port, name, keep, key, path, GRACE))
    if key or path is not None:
        raise QueryError(
            f"a view with materialize='{NONE}' keeps nothing",
            found="key=" if key else "path=",
            hint=f"materialize='{ALL}' keeps its results in a table",
        )
    return View(name, (port,))
