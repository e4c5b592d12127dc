"""The catalogue of aggregate functions, and how each is taken apart.

An aggregate is either *decomposed*, into partial aggregates that merge any number of times in any order, or *held*:
the values themselves are kept until the window closes (median, mode, DISTINCT and the like). No result depends on the
order of arrival: ties go to the smallest value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions.aggregation import Measure
from penstock.algebra.expressions.expression import Expression
from penstock.algebra.expressions.sketches import (
    DEFAULT_RSD,
    LARGEST_RSD,
    LEAST_RSD,
    precision_of,
    sketchable,
)
from penstock.errors import QueryError


@dataclass(frozen=True)
class Call:
    """One aggregate call, its arguments bound."""

    text: str
    function: str
    arguments: tuple[Expression, ...]
    where: str | None
    """SQL of its FILTER."""
    distinct: bool
    on: Expression | None
    """The window attribute, if the stream has it as a column."""

    @property
    def value(self) -> Expression:
        return self.arguments[0]

    @property
    def small(self) -> bool:
        """Whether its values are integers of which 2^31 are sure to fit 64 bits when added up."""
        return self.whole and self.kind.bit_width <= 32

    @property
    def whole(self) -> bool:
        """Whether its values are integers."""
        return bool(pa.types.is_integer(self.kind))

    @property
    def kind(self) -> pa.DataType:
        """The type of its values, encoded or not."""
        kind = self.value.type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def measure(
        self, kind: Literal["count", "sum", "min", "max", "edge", "value"], by: Expression | None = None, **how: bool
    ) -> Measure | None:
        """What a partial of this call is, if it is simple."""
        if self.where or (by is not None and by.column is None):
            return None
        if not self.arguments:
            return Measure(kind)
        column = self.value.column
        return None if column is None else Measure(kind, column, None if by is None else by.column, **how)

    def filtered(self, aggregate: str, *conditions: str) -> str:
        """An aggregate over the tuples that the call's FILTER and further conditions let through."""
        where = self.kept(*conditions)
        return f"{aggregate} FILTER (WHERE {where})" if where else aggregate

    def kept(self, *conditions: str) -> str | None:
        every = [f"({condition})" for condition in (*([self.where] if self.where else []), *conditions)]
        return " AND ".join(every) or None


@dataclass
class HeldParts:
    """A table of kept values under construction."""

    name: str
    values: tuple[str, ...]
    where: str | None
    distinct: bool
    precision: int | None
    """That of the sketch that stands for them, if one does."""
    results: list[tuple[str, str]] = field(default_factory=list)
    bare: tuple[tuple[str, ...] | None, str | None] = (None, None)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal tables are shared between calls."""
        return self.values, self.where, self.distinct, self.precision


@dataclass
class Parts:
    """What the calls of one box are made of; equal parts are shared between calls."""

    prefix: str
    partials: list[tuple[str, str]] = field(default_factory=list)
    merges: list[tuple[str, str]] = field(default_factory=list)
    measures: list[Measure | None] = field(default_factory=list)
    held: list[HeldParts] = field(default_factory=list)

    def partial(self, aggregate: str, merge: str, measure: Measure | None = None) -> str:
        """The column of a partial aggregate. In `merge`, `{}` is that column; other columns stand as they are."""
        for (name, known), (_, merged) in zip(self.partials, self.merges, strict=True):
            if (known, merged) == (aggregate, merge.replace("{}", name)):
                return name
        name = f"{self.prefix}p{len(self.partials)}"
        self.partials.append((name, aggregate))
        self.merges.append((name, merge.replace("{}", name)))
        self.measures.append(measure)
        return name

    def hold(
        self, call: Call, values: tuple[str, ...], *, result: str, nulls: bool = False, precision: int | None = None
    ) -> str:
        """The column of an aggregate over kept values; in `result`, `{v}0` is the first of them."""
        result = result.replace("{v}", f"{self.prefix}v")
        where = call.kept() if nulls else call.kept(f"{values[0]} IS NOT NULL")
        key = (values, where, call.distinct, precision)
        table = next((known for known in self.held if known.key == key), None)
        if table is None:
            table = HeldParts(f"{self.prefix}h{len(self.held)}", *key, bare=_bare(call, values, nulls=nulls))
            self.held.append(table)
        name = next((name for name, known in table.results if known == result), None)
        if name is None:
            name = f"{self.prefix}r{sum(len(known.results) for known in self.held)}"
            table.results.append((name, result))
        return name


def _bare(call: Call, values: tuple[str, ...], *, nulls: bool) -> tuple[tuple[str, ...] | None, str | None]:
    """The columns that kept values are, and which of them must not be NULL."""
    known = {each.sql: each.column for each in (*call.arguments, *([call.on] if call.on is not None else []))}
    columns = [known.get(value) for value in values]
    if call.where or None in columns:
        return None, None
    return tuple(column for column in columns if column is not None), None if nulls else columns[0]


Plan = Callable[[Call, Parts], str]
"""Adds the parts of a call, and gives the scalar SQL of its result over them."""


@dataclass(frozen=True)
class Function:
    """One aggregate function of the language."""

    plan: Plan
    arguments: tuple[int, ...] = (1,)
    """How many arguments it takes."""
    over: str = "any"
    """What its argument must be: any, number, boolean."""
    distinct: bool = False
    """Whether DISTINCT says anything in it."""


def _int64(column: str, call: Call) -> str:
    message = f"{call.text} exceeds int64: sum(CAST(… AS DOUBLE)) has room for it".replace("'", "''")
    inside = f"{column} BETWEEN -9223372036854775808 AND 9223372036854775807"
    return f"CASE WHEN {inside} OR {column} IS NULL THEN CAST({column} AS BIGINT) ELSE error('{message}') END"


def _count(call: Call, parts: Parts) -> str:
    if call.distinct:
        number = parts.hold(call, (call.value.sql,), result="count(DISTINCT {v}0)")
        return f"coalesce({number}, 0)"
    return _counted(call, parts)


def _counted(call: Call, parts: Parts) -> str:
    counted = call.value.sql if call.arguments else "*"
    return parts.partial(call.filtered(f"count({counted})"), "CAST(sum({}) AS BIGINT)", call.measure("count"))


def _total(call: Call, parts: Parts) -> str:
    """The exact sum: integers never round and never overflow on the way."""
    value = call.value
    if call.distinct:
        return parts.hold(call, (value.sql,), result="sum(DISTINCT {v}0)")
    if call.small:
        # 64 bits are half of what DuckDB's own sum (128 bits) would make us carry.
        total = f"CAST({call.filtered(f'sum({value.sql})')} AS BIGINT)"
        return parts.partial(total, "CAST(sum({}) AS BIGINT)", call.measure("sum"))
    return parts.partial(call.filtered(f"sum({value.sql})"), "sum({})")


def _sum(call: Call, parts: Parts) -> str:
    total = _total(call, parts)
    return _int64(total, call) if call.whole and (call.distinct or not call.small) else total


def _avg(call: Call, parts: Parts) -> str:
    total = _total(call, parts)
    if call.distinct:
        number = parts.hold(call, (call.value.sql,), result="count(DISTINCT {v}0)")
    else:
        number = _counted(call, parts)
    return f"CASE WHEN {number} > 0 THEN CAST({total} AS DOUBLE) / {number} END"


def _extreme(call: Call, parts: Parts) -> str:
    function = call.function
    measure = call.measure("min") if function == "min" else call.measure("max") if function == "max" else None
    return parts.partial(call.filtered(f"{function}({call.value.sql})"), f"{function}({{}})", measure)


def _spread(call: Call, parts: Parts) -> str:
    """Variance from (n, mean, m2), merged around the common mean: sums of squares would lose all digits at 1e9."""
    value = f"CAST({call.value.sql} AS DOUBLE)"
    n = _counted(call, parts)
    number = call.filtered(f"count({call.value.sql})")
    mean = parts.partial(f"coalesce({call.filtered(f'avg({value})')}, 0)", _mean(n, "{}"))
    squares = call.filtered(f"var_pop({value})")
    m2 = parts.partial(
        f"coalesce({squares} * {number}, 0)",
        f"sum({{}}) + list_inner_product(list(CAST({n} AS DOUBLE)), "
        f"list_transform(list({mean}), lambda m: (m - {_mean(n, mean)}) * (m - {_mean(n, mean)})))",
    )
    sample = call.function in {"var_samp", "stddev_samp"}
    variance = f"CASE WHEN {n} > {1 if sample else 0} THEN {m2} / ({n} - {1 if sample else 0}) END"
    return f"sqrt({variance})" if call.function.startswith("stddev") else variance


def _mean(n: str, mean: str) -> str:
    return f"CASE WHEN sum({n}) > 0 THEN sum({n} * {mean}) / CAST(sum({n}) AS DOUBLE) ELSE 0 END"


def _ends(call: Call, parts: Parts) -> str:
    """first, last, arg_min, arg_max: the value where `by` is extreme, and the smallest of several such values.

    first and last may be NULL, as the value of a tuple may; arg_min and arg_max pass over NULL.
    """
    value, lowest = call.value.sql, call.function in {"first", "arg_min"}
    by = call.arguments[1] if len(call.arguments) == 2 else call.on
    if by is None:
        raise QueryError(
            f"{call.text} has nothing to order by: the window attribute is no column", hint="name one: first(x, by)"
        )
    conditions = [f"{by.sql} IS NOT NULL"]
    passes = call.function.startswith("arg")
    if passes:
        conditions.append(f"{value} IS NOT NULL")
    extreme, order = ("min", "ASC") if lowest else ("max", "DESC")
    # A sort key puts (by, value) in one order for every type; only `by` is kept beside the value, to merge on.
    key = "arg_min_null({0}, create_sort_key({1}, '{2} NULLS LAST', {0}, 'ASC NULLS LAST'))"
    edge = parts.partial(
        call.filtered(f"{extreme}({by.sql})", *conditions),
        f"{extreme}({{}})",
        call.measure("edge", by, lowest=lowest, passes_null=passes),
    )
    return parts.partial(
        call.filtered(key.format(value, by.sql, order), *conditions),
        f"{key.format('{}', edge, order)} FILTER (WHERE {edge} IS NOT NULL)",
        call.measure("value", by, lowest=lowest, passes_null=passes),
    )


def _quantile(call: Call, parts: Parts) -> str:
    at = "" if call.function == "median" else f", {_fraction(call)}"
    return parts.hold(call, (call.value.sql,), result=f"{call.function}({{v}}0{at})")


def _fraction(call: Call) -> str:
    asked = call.arguments[1]
    at = _constant(asked)
    if at is None or not 0 <= at <= 1:
        raise QueryError(f"{call.text}: which quantile?", expected="a constant from 0 to 1", found=asked.text)
    return repr(at)


def _constant(asked: Expression) -> float | None:
    """The number that an argument is; None if it is none, or differs from tuple to tuple."""
    kinds = (pa.types.is_decimal, pa.types.is_floating, pa.types.is_integer)
    if asked.columns or not any(known(asked.type) for known in kinds):
        return None
    at = kernel.run(f"SELECT CAST({asked.sql} AS DOUBLE) AS at")["at"][0].as_py()
    return None if at is None else float(at)


def _approximate_count(call: Call, parts: Parts) -> str:
    kind = call.kind
    if not sketchable(kind):
        raise QueryError(
            f"{call.text} over a {kind}",
            expected="numbers, booleans, times, texts or bytes",
            hint=f"make it a text: approx_count_distinct(CAST({call.value.text} AS VARCHAR))",
        )
    # There is one number for each group by then.
    number = parts.hold(call, (call.value.sql,), result="max({v}0)", precision=_precision(call))
    return f"coalesce({number}, 0)"


def _precision(call: Call) -> int:
    rsd = _constant(call.arguments[1]) if len(call.arguments) == 2 else DEFAULT_RSD
    precision = None if rsd is None else precision_of(rsd)
    if precision is None:
        raise QueryError(
            f"{call.text}: which relative standard deviation?",
            expected=f"a constant from {LEAST_RSD} to {LARGEST_RSD}",
            found=call.arguments[1].text,
            hint=f"count(DISTINCT {call.value.text}) is exact",
        )
    return precision


def _mode(call: Call, parts: Parts) -> str:
    # DuckDB's mode takes the value met first among the most frequent, so in order of value that is the smallest.
    return parts.hold(call, (call.value.sql,), result="mode({v}0 ORDER BY {v}0)")


def _list(call: Call, parts: Parts) -> str:
    if call.on is None:
        raise QueryError(f"{call.text} has no order: the window attribute is no column of the stream")
    result = "list({v}0 ORDER BY {v}1 NULLS LAST, {v}0 NULLS LAST)"
    return parts.hold(call, (call.value.sql, call.on.sql), result=result, nulls=True)


ALIASES: Final = {
    "mean": "avg",
    "var": "var_samp",
    "variance": "var_samp",
    "stddev": "stddev_samp",
    "min_by": "arg_min",
    "max_by": "arg_max",
    "argmin": "arg_min",
    "argmax": "arg_max",
    "array_agg": "list",
    "approx_distinct": "approx_count_distinct",
    "quantile": "quantile_disc",
    "logical_and": "bool_and",
    "logical_or": "bool_or",
}

_SPREAD: Final = Function(_spread, over="number")
_BOTH: Final = Function(_extreme, over="boolean")

FUNCTIONS: Final[dict[str, Function]] = {
    "count": Function(_count, arguments=(0, 1), distinct=True),
    "sum": Function(_sum, over="number", distinct=True),
    "avg": Function(_avg, over="number", distinct=True),
    "min": Function(_extreme),
    "max": Function(_extreme),
    "bool_and": _BOTH,
    "bool_or": _BOTH,
    "var_samp": _SPREAD,
    "var_pop": _SPREAD,
    "stddev_samp": _SPREAD,
    "stddev_pop": _SPREAD,
    "first": Function(_ends, arguments=(1, 2)),
    "last": Function(_ends, arguments=(1, 2)),
    "arg_min": Function(_ends, arguments=(2,)),
    "arg_max": Function(_ends, arguments=(2,)),
    "median": Function(_quantile),
    "quantile_cont": Function(_quantile, arguments=(2,)),
    "quantile_disc": Function(_quantile, arguments=(2,)),
    "mode": Function(_mode),
    "approx_count_distinct": Function(_approximate_count, arguments=(1, 2)),
    "list": Function(_list),
}
