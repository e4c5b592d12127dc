"""Join of a stream with a static table, as the Python language builds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from penstock.algebra.expressions.pair_binding import bind_pair
from penstock.boxes.requirements import refuse_hidden
from penstock.boxes.table_join.box import How, TableJoin
from penstock.connectors.tables.static_table import StaticTable
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream

_CHOICES: Final = ("inner", "left", "semi", "anti")


def join_table(
    stream: Stream,
    table: StaticTable,
    predicate: str | None,
    *,
    window: Mapping[str, object] | None = None,
    how: str = "inner",
    names: tuple[str, str] = ("l", "r"),
    name: str | None = None,
) -> Stream:
    builder = stream._builder
    label = builder._fresh("join", name)
    with builder._building(label):
        given = [f"{key}=" for key, value in (window or {}).items() if value is not None]
        if given:
            raise QueryError(
                "a join with a static table has no window: every tuple finds all its rows at once",
                found=", ".join(given),
                hint=f"leave out {' and '.join(given)}",
            )
        if how in ("right", "full"):
            raise QueryError(
                f"how={how!r} asks for the rows of the table that no tuple finds, and those are never known: as long "
                "as the stream goes on, one may come",
                expected=f"one of {', '.join(_CHOICES)}",
            )
        if how not in _CHOICES:
            raise QueryError(f"how={how!r} is unknown", expected=f"one of {', '.join(_CHOICES)}")
        if predicate is None:
            raise QueryError(
                "a join with a table needs a predicate",
                expected="a condition such as 'l.k = r.k'",
                hint="'true' pairs every tuple with every row",
            )
        if table.follow:
            raise QueryError(
                "follow= is for a table that is an input",
                hint="leave it out: a join sees the changes of its table anyway",
            )
        rows = table.schema()
        refuse_hidden(rows.names)
        pairing = bind_pair(predicate, stream.schema, rows, names)
        box = TableJoin(label, (stream._port,), table, pairing, cast(How, how))
        refuse_hidden(box.schema(0).names)
        return builder._add(box)
