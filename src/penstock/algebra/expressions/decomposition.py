"""The aggregate expressions of one box, taken apart: partials, merges, held values, finals.

    tuples ──GROUP BY──> partials ──GROUP BY──> merged ──┐
       │                    ^          │                 ├──> finals: one row per group
       │                    └──────────┘ any number      │
       ├──> held values ────GROUP BY──> results ─────────┘
       └──> whole tuples, for functions in Python, which are called once for each group

Partials are computed where tuples are read (the low-level half of a two-level query), merged where they meet, and made
final when their window closes. An output is any expression over aggregate calls; equal calls are computed once.
Between integers `/` is floor division here as everywhere: `sum(a) / count(*)` is a whole number, `avg(a)` is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa
import sqlglot
from sqlglot import exp

from penstock.algebra.expressions import kernel, purity
from penstock.algebra.expressions.aggregation import Aggregation, Called, Held
from penstock.algebra.expressions.binding import DIALECT, bind, bind_tree, parse, resolve, sql_of
from penstock.algebra.expressions.expression import Expression
from penstock.algebra.expressions.functions import ALIASES, FUNCTIONS, Call, Function, HeldParts, Parts
from penstock.algebra.expressions.python_functions import WindowFunction
from penstock.algebra.expressions.sketches import Sketch
from penstock.algebra.expressions.zones import in_zone, zone_of
from penstock.algebra.naming import did_you_mean
from penstock.errors import QueryError

Outputs: TypeAlias = Mapping[str, str | WindowFunction] | WindowFunction
"""The outputs of an aggregate box: texts and Python functions by name, or a function that names its own."""


def output_texts(outputs: Outputs) -> tuple[tuple[str, str], ...]:
    """The outputs of a box as they are shown."""
    if isinstance(outputs, WindowFunction):
        return ((", ".join(_returned(outputs).names), outputs.describe()),)
    return tuple((name, output if isinstance(output, str) else output.describe()) for name, output in outputs.items())


def decompose(outputs: Outputs, schema: pa.Schema, *, on: str) -> Aggregation:
    """Take the outputs of an aggregate box apart, or refuse them.

    >>> found = decompose({"n": "count(*)"}, pa.schema({"ts": pa.int64()}), on="ts")
    >>> found.partials, found.merges, found.finals
    ((('p0', 'count(*)'),), (('p0', 'CAST(sum(p0) AS BIGINT)'),), (('n', '(p0)'),))
    """
    called = _called(outputs, schema)
    texts = {} if isinstance(outputs, WindowFunction) else {n: o for n, o in outputs.items() if isinstance(o, str)}
    names = [n for call in called for n in call.outputs] if isinstance(outputs, WindowFunction) else list(outputs)
    _check_names(names, on)
    calls = _Calls(schema, bind(kernel.quote(on), schema) if on in schema.names else None)
    lifted = {name: calls.lift_output(name, text) for name, text in texts.items()}
    parts = Parts(_prefix(schema))
    scalars = [FUNCTIONS[call.function].plan(call, parts) for call in calls.found.values()]
    tuples = schema if len(schema) else pa.schema({"row": pa.bool_()})
    partial_schema = _typed(parts.partials, tuples)
    held = tuple(_held(table, parts.prefix, tuples) for table in parts.held)
    merged = pa.schema([*partial_schema, *(field for table in held for field in _typed(table.results, _told(table)))])
    kinds = _typed([(f"call {i}", sql) for i, sql in enumerate(scalars)], merged)
    finals = tuple(
        (name, _lowered(bind_tree(tree, texts[name], kinds, what="output").sql, scalars))
        for name, tree in lifted.items()
    )
    returned = [field for call in called for field in _fields(call)]
    zones = {name: zone_of(calls.kinds(tree)) for name, tree in lifted.items()}
    computed = [field.with_type(in_zone(field.type, zones[field.name])) for field in _typed(finals, merged)]
    fields = {field.name: field for field in (*computed, *returned)}
    used = {*calls.columns(), *(name for call in called for name in call.columns)}
    return Aggregation(
        tuple(parts.partials),
        tuple(parts.merges),
        partial_schema,
        held,
        finals,
        pa.schema([fields[name] for name in names]),
        tuple(name for name in schema.names if name in used),
        called,
        tuple(parts.measures),
        calls.hashed() - {name for call in called for name in call.columns},
    )


def _held(table: HeldParts, prefix: str, tuples: pa.Schema) -> Held:
    values = tuple((f"{prefix}v{i}", sql) for i, sql in enumerate(table.values))
    schema, sketch = _typed(values, tuples), None
    if table.precision is not None:
        ((name, _),) = values
        sketch = Sketch(table.precision, schema.field(name).type)
        schema = pa.schema([(name, pa.large_binary())])
    return Held(table.name, values, table.where, table.distinct, schema, tuple(table.results), table.bare, sketch)


def _told(held: Held) -> pa.Schema:
    """What the results of held values are computed from."""
    return held.schema if held.sketch is None else pa.schema([(name, pa.int64()) for name in held.schema.names])


def _called(outputs: Outputs, schema: pa.Schema) -> tuple[Called, ...]:
    """The Python functions among the outputs, their columns known."""
    if isinstance(outputs, WindowFunction):
        return (Called(outputs, tuple(_returned(outputs).names), _given(outputs, schema)),)
    found = []
    for name, output in outputs.items():
        if isinstance(output, str):
            continue
        if not isinstance(output, WindowFunction):
            raise QueryError(
                f"the output {name!r} cannot be read",
                expected="an SQL text such as 'count(*)', or pk.window_function(...)",
                found=repr(output),
            )
        if isinstance(output.returns, pa.Schema):
            raise QueryError(
                f"the function of output {name!r} returns several attributes: {', '.join(output.returns.names)}",
                hint="pass the function itself in place of the outputs, or let it return one value",
            )
        found.append(Called(output, (name,), _given(output, schema)))
    return tuple(found)


def _returned(function: WindowFunction) -> pa.Schema:
    if not isinstance(function.returns, pa.Schema):
        raise QueryError(
            "a window function in place of the outputs does not say what they are called",
            found=f"returns={str(function.returns)!r}",
            hint="give it a name, {'name': function}, or returns={'name': 'double'}",
        )
    return function.returns


def _fields(call: Called) -> list[pa.Field]:
    kinds = call.function.returns
    return list(kinds) if isinstance(kinds, pa.Schema) else [pa.field(call.outputs[0], kinds)]


def _given(function: WindowFunction, schema: pa.Schema) -> tuple[str, ...]:
    for name in function.columns or ():
        if name not in schema.names:
            raise QueryError(
                f"unknown column {name!r} of a window function", expected=f"one of {', '.join(schema.names)}"
            )
    return tuple(schema.names) if function.columns is None else function.columns


class _Calls:
    """The aggregate calls of a box, found in the trees of its outputs."""

    def __init__(self, schema: pa.Schema, on: Expression | None) -> None:
        self.schema = schema
        self.on = on
        self.found: dict[tuple[object, ...], Call] = {}
        self._used: dict[str, None] = {}
        self._seen: set[str] = set()
        """The columns whose values somebody looks at."""

    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in self.schema.names if name in self._used)

    def hashed(self) -> frozenset[str]:
        """The columns that only sketches need, as they are."""
        return frozenset(self.columns()) - self._seen

    def kinds(self, lifted: exp.Expr) -> list[pa.DataType]:
        """The types of what the calls of an output are about."""
        known = list(self.found.values())
        calls = [known[int(node.name.removeprefix("call "))] for node in lifted.find_all(exp.Column)]
        return [call.arguments[0].type for call in calls if call.arguments]

    def lift_output(self, name: str, text: str) -> exp.Expr:
        """The tree of an output, with a column "call i" in the place of each aggregate call."""
        tree = resolve(parse(text, what="output"), self.schema, what="output")
        # A root cannot be replaced in place, so it gets one above it.
        root = exp.Paren(this=tree)
        self._lift(tree, text)
        if not any(node.name.startswith("call ") for node in root.find_all(exp.Column)):
            raise QueryError(
                f"no aggregate in output {name!r}", found=text, hint=f"for example {name}='count(*)' or by=[…] for keys"
            )
        lifted: exp.Expr = root.this
        return lifted

    def _lift(self, node: exp.Expr, text: str) -> None:
        if isinstance(node, exp.Window):
            raise QueryError(
                f"a window function in the output {text!r}", hint="the box itself is the window: size= and advance="
            )
        if _aggregates(node):
            node.replace(exp.column(exp.to_identifier(f"call {self._number(node)}", quoted=True)))
            return
        if isinstance(node, exp.Anonymous) and not purity.is_known(node.name):
            raise purity.unknown(node.name, f"output {text!r}", sorted([*FUNCTIONS, *ALIASES]))
        if isinstance(node, exp.Column):
            column = node.name or "*"
            raise QueryError(
                f"column {column!r} stands outside an aggregate in the output {text!r}",
                expected="aggregates such as sum(…), and constants",
                hint=f"put it in by=[{column!r}], or wrap it: first({column})",
            )
        for child in list(node.iter_expressions()):
            self._lift(child, text)

    def _number(self, node: exp.Expr) -> int:
        call = self._bound(node)
        key = (call.function, tuple(a.sql for a in call.arguments), call.where, call.distinct)
        self.found.setdefault(key, call)
        return list(self.found).index(key)

    def _bound(self, node: exp.Expr) -> Call:
        where = None
        text = sql_of(node).replace('"', "")
        if isinstance(node, exp.Filter):
            where = self._bind(node.expression.this, f"FILTER of {text}")
            if not pa.types.is_boolean(where.type):
                raise QueryError(f"the FILTER of {text} is no condition", expected="a boolean", found=str(where.type))
            node = node.this
        named = _name(node)
        name = ALIASES.get(named, named)
        function = FUNCTIONS.get(name)
        if function is None:
            raise QueryError(
                f"unknown aggregate {named}() in {text}",
                expected=f"one of {', '.join(sorted([*FUNCTIONS, *ALIASES]))}",
                hint=did_you_mean(named, [*FUNCTIONS, *ALIASES]),
            )
        given = list(node.iter_expressions())
        distinct = bool(given) and isinstance(given[0], exp.Distinct)
        if distinct:
            given = [*given[0].expressions, *given[1:]]
        star = name == "count" and not distinct and len(given) == 1 and isinstance(given[0], exp.Star)
        _check_arguments(text, name, function, given, distinct=distinct, star=star)
        arguments = () if star else tuple(self._bind(part, f"argument of {text}") for part in given)
        _check_types(text, name, function, arguments)
        if self.on is not None and (name == "list" or (name in {"first", "last"} and len(arguments) == 1)):
            self._use(self.on.columns)
            self._seen.update(self.on.columns)
        if name != "approx_count_distinct" or where is not None or arguments[0].column is None:
            self._seen.update(*(given.columns for given in (*arguments, *([where] if where else []))))
        return Call(text, name, arguments, where.sql if where else None, distinct, self.on)

    def _bind(self, tree: exp.Expr, what: str) -> Expression:
        bound = bind_tree(tree.copy(), sql_of(tree).replace('"', ""), self.schema, what=what)
        self._use(bound.columns)
        return bound

    def _use(self, names: Iterable[str]) -> None:
        self._used.update(dict.fromkeys(names))


def _aggregates(node: exp.Expr) -> bool:
    if isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls | exp.AggFunc):
        return True
    return isinstance(node, exp.Func) and (_name(node) in ALIASES or purity.is_aggregate(_name(node)))


def _name(node: exp.Expr) -> str:
    """The function that DuckDB would call."""
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return str(node.name).lower()
    return sql_of(node).split("(", 1)[0].strip().lower()


def _check_names(outputs: Iterable[str], on: str) -> None:
    if not outputs:
        raise QueryError("an aggregate box without outputs", expected="at least one, for example {'n': 'count(*)'}")
    seen = {on.casefold(): f"the window attribute {on!r}"}
    for name in outputs:
        if name.casefold() in seen:
            raise QueryError(
                f"the output {name!r} collides with {seen[name.casefold()]}", hint="give the output another name"
            )
        seen[name.casefold()] = f"the output {name!r}"


def _check_arguments(
    text: str, name: str, function: Function, given: list[exp.Expr], *, distinct: bool, star: bool
) -> None:
    if any(isinstance(part, exp.Order) for part in given):
        raise QueryError(f"ORDER BY inside {text}", hint="first(x, by) and last(x, by) take what to order by")
    if not given and 0 in function.arguments:
        raise QueryError(f"{text} has no argument", hint="count(*) counts tuples, count(x) those where x is not NULL")
    if not star and len(given) not in (taken := [number for number in function.arguments if number]):
        raise QueryError(f"{text} has {len(given)} arguments", expected=f"{name} takes {' or '.join(map(str, taken))}")
    if distinct and not function.distinct:
        able = ", ".join(known for known, other in FUNCTIONS.items() if other.distinct)
        raise QueryError(f"DISTINCT in {text}", expected=f"DISTINCT in {able} only", hint="leave it out")


def _check_types(text: str, name: str, function: Function, arguments: tuple[Expression, ...]) -> None:
    if not arguments or function.over == "any":
        return
    value = arguments[0]
    kind = value.type.value_type if pa.types.is_dictionary(value.type) else value.type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if number if function.over == "number" else pa.types.is_boolean(kind):
        return
    hint = f"compare it with something: {name}({value.text} > 0)"
    if function.over == "number":
        hint = f"cast it: {name}(CAST({value.text} AS DOUBLE))"
        if pa.types.is_boolean(kind):
            hint = f"count(*) FILTER (WHERE {value.text}) counts where it is true"
        elif pa.types.is_temporal(kind):
            hint = f"make it a number: {name}(epoch_us({value.text}))"
    raise QueryError(
        f"{name} over a {kind}", expected=f"a {function.over} in {text}", found=f"{value.text}: {kind}", hint=hint
    )


def _prefix(schema: pa.Schema) -> str:
    """What keeps the names of parts apart from columns of the stream, which may well have one called p0."""
    names = {name.casefold() for name in schema.names}
    prefix = ""
    while any(re.fullmatch(f"{prefix}[phrv][0-9]+", name) for name in names):
        prefix += "_"
    return prefix


def _typed(parts: Iterable[tuple[str, str]], schema: pa.Schema) -> pa.Schema:
    items = ", ".join(f"{sql} AS {kernel.quote(name)}" for name, sql in parts)
    return kernel.types(items, schema if len(schema) else pa.schema({"row": pa.bool_()})) if items else pa.schema([])


def _lowered(sql: str, scalars: list[str]) -> str:
    """SQL over "call i", as SQL over the parts of the calls."""

    def replaced(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column):
            return exp.Paren(this=exp.Var(this=scalars[int(node.name.removeprefix("call "))]))
        return node

    return sql_of(sqlglot.parse_one(sql, dialect=DIALECT).transform(replaced))
