"""What is checked of names and columns when a box is built."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.algebra.box import Port
from penstock.algebra.hidden import is_hidden
from penstock.algebra.naming import did_you_mean
from penstock.algebra.ticks import can_progress
from penstock.errors import QueryError


def require_name(name: str) -> None:
    # Names become folders of the checkpoint; '!' marks what the plan adds by itself.
    if not name or name.startswith(".") or any(c in name for c in "/\\!\0"):
        raise QueryError(
            f"{name!r} cannot be a name",
            expected="a name that is not empty, does not begin with a dot and has no '/', '\\' or '!' in it",
        )


def refuse_hidden(names: Sequence[str]) -> None:
    """Names that begin with '#' belong to hidden columns."""
    for name in names:
        if is_hidden(name):
            raise QueryError(f"'{name}' begins with '#', as hidden columns do", hint="rename it with map()")


def require_columns(names: Sequence[str], schema: pa.Schema) -> None:
    for name in names:
        if not isinstance(name, str) or schema.get_field_index(name) < 0:
            raise QueryError(
                f"unknown column {name!r}",
                expected=f"one of {', '.join(schema.names)}",
                hint=did_you_mean(str(name), schema.names),
            )


def key_columns(by: Sequence[str] | str, schema: pa.Schema, argument: str = "by=") -> tuple[str, ...]:
    """The columns of an argument that names groups, each once and known."""
    keys = (by,) if isinstance(by, str) else tuple(by)
    require_columns(keys, schema)
    repeated = {key for key in keys if keys.count(key) > 1}
    if repeated:
        raise QueryError(f"'{min(repeated)}' is named twice in {argument}")
    for key in keys:
        # The kernel has intervals of months and days in its place, and those do not come back.
        if pa.types.is_duration(schema.field(key).type):
            raise QueryError(
                f"'{key}' cannot be in {argument}, since it is a length of time",
                found=f"{key} {schema.field(key).type}",
                hint="give it as a number, such as microseconds in an int64",
            )
    return keys


def require_ticks(attribute: str, schema: pa.Schema, what: str, hint: str | None = None) -> None:
    """Refuse an attribute whose values have no ticks; `what` says what it cannot do for that reason."""
    kind = schema.field(attribute).type
    if not can_progress(kind):
        raise QueryError(
            f"'{attribute}' {what}",
            expected="an integer, date or timestamp attribute",
            found=f"{attribute} {kind}",
            hint=hint,
        )


def order_keys(on: str, by: Sequence[str] | str, schema: pa.Schema) -> tuple[str, ...]:
    """The groups of an order; refused where `on` cannot carry an order or is a group itself."""
    keys = key_columns(by, schema)
    require_columns((on,), schema)
    require_ticks(
        on, schema, "has no ticks to order by", "choose another attribute with on=, or compute one with map()"
    )
    if on in keys:
        raise QueryError(f"'{on}' is named twice: in on= and in by=", hint="leave it out of by=")
    return keys


def refuse_different(inputs: Sequence[Port], what: str, box: str | None = None) -> None:
    """Streams that become one must have the same attributes, in any order."""
    first = inputs[0]
    for other in inputs[1:]:
        if set(other.schema) != set(first.schema):
            raise QueryError(
                f"the inputs of a {what} differ in their schemas",
                box=box,
                expected=f"{_columns(first.schema)} (of '{first.name}')",
                found=f"{_columns(other.schema)} (of '{other.name}')",
                hint="give the streams the same attributes and types with map()",
            )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name} {f.type}" for f in schema)
