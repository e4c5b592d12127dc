"""What an expression may call: functions of its arguments alone, one value per tuple.

Every batch can be run again and must give the same tuples, so a function of the clock, of chance or of the
connection is refused. DuckDB's own parser and catalogue are asked what a text calls: nothing is guessed from names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from penstock.algebra.expressions import kernel
from penstock.algebra.naming import did_you_mean
from penstock.errors import InternalError, QueryError

REPLAY: Final = "a batch that runs again must give the same tuples, so an expression may use the tuple alone"

_USUAL: Final = ("abs", "coalesce", "date_trunc", "length", "lower", "round", "substring")
_SPREADS: Final = frozenset({"unnest", "generate_subscripts", "regexp_split_to_table"})
"""What DuckDB accepts in a select list although it changes the number of rows."""


@lru_cache(maxsize=1)
def _catalogue() -> dict[str, tuple[frozenset[str], bool, tuple[str, ...]]]:
    """Of every function its kinds, whether it is a function of its arguments alone, and its macro definitions."""
    found = kernel.run(
        "SELECT lower(function_name) AS name, list(DISTINCT function_type) AS kinds, "
        "bool_and(coalesce(stability, 'CONSISTENT') = 'CONSISTENT') AS pure, "
        "list(DISTINCT macro_definition) FILTER (WHERE function_type = 'macro') AS definitions "
        "FROM duckdb_functions() WHERE function_type IN ('scalar', 'macro', 'aggregate', 'window') GROUP BY ALL"
    )
    return {
        row["name"]: (frozenset(row["kinds"]), row["pure"], tuple(row["definitions"] or ()))
        for row in found.to_pylist()
    }


def is_aggregate(function: str) -> bool:
    """Whether a function of this name folds many tuples into one value."""
    kinds = _catalogue().get(function.lower(), (frozenset(), True, ()))[0]
    return "aggregate" in kinds and "scalar" not in kinds


def is_known(function: str) -> bool:
    """Whether there is a function of this name."""
    return function.lower() in _catalogue()


def unknown(function: str, what: str, known: Sequence[str] = ()) -> QueryError:
    """The refusal of a function that does not exist; `known` are those that are meant to be used there."""
    hint = did_you_mean(function, known) or did_you_mean(function, _catalogue())
    some = f"one of {', '.join(known)}" if known else f"a scalar function of DuckDB, such as {', '.join(_USUAL)}"
    return QueryError(f"unknown function {function}() in the {what}", expected=None if hint else some, hint=hint)


def check(sql: str, names: frozenset[str], *, what: str) -> None:
    """Refuse an expression (in normalised SQL) that is not a pure scalar of the columns and parameters `names`."""
    for node in _nodes(_tree(sql)):
        match node.get("class"):
            case "FUNCTION":
                _check_call(node, what)
            case "COLUMN_REF" if node["column_names"][0] not in names:
                # What is no column, and still no error, is one of SQL's words for the clock: current_date and so on.
                raise _unrepeatable(node["column_names"][0], what)
            case "SUBQUERY":
                raise QueryError(f"a subquery in the {what}", hint="join the streams instead")
            case "WINDOW":
                raise QueryError(
                    f"a window function ({node['function_name']} … OVER) in the {what}",
                    hint="use an aggregate box, with size= and advance=",
                )
            case "STAR":
                raise QueryError(f"a star in the {what}", hint="name the columns")


def _check_call(node: dict[str, Any], what: str) -> None:
    name = str(node["function_name"]).lower()
    if node.get("is_operator"):
        return
    kinds, pure, definitions = _catalogue().get(name, (frozenset(), True, ()))
    if name in _SPREADS:
        raise QueryError(f"{name}() gives several rows, but the {what} gives one value per tuple")
    if not kinds:
        raise unknown(name, what)
    if "aggregate" in kinds and "scalar" not in kinds:
        raise QueryError(f"an aggregate, {name}(), in the {what}", hint="aggregates belong in an aggregate box")
    if not pure or (name == "age" and len(node["arguments"]) == 1):
        raise _unrepeatable(f"{name}()", what)
    for definition in definitions:
        for inner in _nodes(_tree(definition)):
            if inner.get("class") == "FUNCTION" and inner["function_name"] != node["function_name"]:
                _check_call(inner, what)
            if inner.get("class") == "SUBQUERY" or inner.get("column_names") == ["current_timestamp"]:
                raise _unrepeatable(f"{name}()", what)


def _unrepeatable(name: str, what: str) -> QueryError:
    return QueryError(
        f"{name} in the {what} is not a function of the tuple",
        expected=REPLAY,
        hint="take the time from an attribute; internal timestamps are given at the intake",
    )


@lru_cache(maxsize=kernel.KNOWN)
def _tree(sql: str) -> Any:
    text = "SELECT " + sql
    found = kernel.run(f"SELECT json_serialize_sql('{text.replace(chr(39), chr(39) * 2)}') AS tree")
    tree = json.loads(found["tree"][0].as_py())
    if tree.get("error"):
        raise QueryError(f"cannot read {sql}", found=str(tree.get("error_message")))
    if len(tree["statements"]) != 1:
        raise InternalError("one expression became several statements", found=sql)
    return tree["statements"][0]["node"]["select_list"]


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from _nodes(part)
