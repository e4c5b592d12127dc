"""Random networks: a description of our own, how to build it with Penstock, and what DuckDB says its answer is.

The oracle sees the whole input at once and is written from the description alone: it shares no code with the planner,
the expressions or the aggregates under test. Windows are enumerated: every window start that the data can reach is a
row of a table, and tuples are joined to it by `start <= t AND t < start + size`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

import penstock as pk

TICKS = {
    # kind: (arrow type, ticks of one small step, ticks of a far-off moment, unit of a duration, SQL type)
    "int": (pa.int64(), 1, 10**12, None, "BIGINT"),
    "int32": (pa.int32(), 1, 10**6, None, "INTEGER"),
    "int8": (pa.int8(), 1, 60, None, "TINYINT"),
    "uint32": (pa.uint32(), 1, 4 * 10**9, None, "UINTEGER"),
    "date": (pa.date32(), 1, 20_000, "days", "DATE"),
    "s": (pa.timestamp("s"), 1, 1_767_225_600, "s", "TIMESTAMP_S"),
    "ms": (pa.timestamp("ms"), 250, 1_767_225_600_000, "ms", "TIMESTAMP_MS"),
    "us": (pa.timestamp("us"), 250_000, 1_767_225_600_000_000, "us", "TIMESTAMP"),
    "ns": (pa.timestamp("ns"), 250_000_000, 1_767_225_600_000_000_000, "ns", "TIMESTAMP_NS"),
}
NARROW = ("int32", "int8", "uint32")
ARROW = {"whole": pa.int64(), "float": pa.float64(), "text": pa.string(), "bool": pa.bool_()}
ARROW.update({kind: row[0] for kind, row in TICKS.items()})

Schema = tuple[tuple[str, str], ...]
"""(attribute, kind): the test's own idea of what a stream carries."""


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([(name, ARROW[kind]) for name, kind in schema])


# --- the description -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Input:
    """Rows and punctuation as they arrive; times are ticks, and so is the bound, but a slack counts tuples."""

    name: str
    schema: Schema
    elements: tuple[Any, ...]
    policy: str
    bound: int = 0
    train: int | None = None
    shard_by: str | None = None

    @property
    def progressing(self) -> tuple[str, ...]:
        return ("ts",)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return [e for e in self.elements if isinstance(e, tuple)]


@dataclass(frozen=True)
class Routed:
    """One output of a Filter; `shape` "where" has no others."""

    of: Any
    predicates: tuple[str, ...]
    port: int
    where: bool = False

    @property
    def schema(self) -> Schema:
        return self.of.schema

    @property
    def progressing(self) -> tuple[str, ...]:
        return self.of.progressing


@dataclass(frozen=True)
class Mapped:
    """(attribute, kind, Penstock's text, DuckDB's text, whether it progresses)."""

    of: Any
    outputs: tuple[tuple[str, str, str, str, bool], ...]

    @property
    def schema(self) -> Schema:
        return tuple((name, kind) for name, kind, *_ in self.outputs)

    @property
    def progressing(self) -> tuple[str, ...]:
        return tuple(name for name, *_, progresses in self.outputs if progresses)


@dataclass(frozen=True)
class United:
    of: tuple[Any, ...]

    @property
    def schema(self) -> Schema:
        return self.of[0].schema

    @property
    def progressing(self) -> tuple[str, ...]:
        return tuple(a for a in self.of[0].progressing if all(a in s.progressing for s in self.of))


def _start_kind(kind: str) -> str:
    return "int" if kind in NARROW else kind


@dataclass(frozen=True)
class Windowed:
    """(attribute, kind, Penstock's text, DuckDB's text); size and advance in ticks."""

    of: Any
    on: str
    size: int
    advance: int
    by: tuple[str, ...]
    outputs: tuple[tuple[str, str, str, str], ...]

    @property
    def schema(self) -> Schema:
        # The start of a window may lie below the smallest value of a narrow integer, so it is a wide one.
        kinds = {**dict(self.of.schema), self.on: _start_kind(dict(self.of.schema)[self.on])}
        keys = tuple((name, kinds[name]) for name in (self.on, *self.by))
        return keys + tuple((name, kind) for name, kind, *_ in self.outputs)

    @property
    def progressing(self) -> tuple[str, ...]:
        return (self.on,)


@dataclass(frozen=True)
class Case:
    """A network and how it is run."""

    outputs: tuple[Any, ...]
    buckets: int = 2
    tasks: int = 1

    def inputs(self) -> list[Input]:
        found: dict[str, Input] = {}

        def visit(node: Any) -> None:
            if isinstance(node, Input):
                found[node.name] = node
                return
            for upstream in node.of if isinstance(node.of, tuple) else (node.of,):
                visit(upstream)

        for output in self.outputs:
            visit(output)
        return list(found.values())


def recut(node: Any, cut: Any) -> Any:
    """The same network over inputs that `cut` has changed."""
    if isinstance(node, Input):
        return cut(node)
    if isinstance(node.of, tuple):
        return replace(node, of=tuple(recut(n, cut) for n in node.of))
    return replace(node, of=recut(node.of, cut))


# --- as a Penstock network -------------------------------------------------------------------------------------------


def duration(ticks: int, kind: str) -> int | str:
    unit = TICKS[kind][3]
    return ticks if unit is None else f"{ticks} {unit}"


def policy_of(source: Input) -> Any:
    match source.policy:
        case "ordered":
            return pk.ordered()
        case "delayed":
            return pk.delayed(duration(source.bound, dict(source.schema)["ts"]))
        case "slack":
            return pk.slack(source.bound)
    return pk.punctuated()


def build(case: Case) -> pk.Network:
    """The network, with outputs o0, o1, ..."""
    net = pk.Network("random")
    built: dict[Any, Any] = {}
    filters: dict[Any, Any] = {}

    def stream(node: Any) -> Any:
        if id(node) in built:
            return built[id(node)]
        match node:
            case Input():
                connector = pk.memory(
                    node.elements, schema=arrow_schema(node.schema), train=node.train, shard_by=node.shard_by
                )
                made = net.source(node.name, connector, on="ts", progress=policy_of(node))
            case Routed(where=True):
                made = stream(node.of).where(node.predicates[0])
            case Routed():
                # All ports of one Filter in the description are one box in the network.
                key = (id(node.of), node.predicates)
                if key not in filters:
                    filters[key] = stream(node.of).filter(*node.predicates)
                made = filters[key][node.port]
            case Mapped():
                made = stream(node.of).map(**{name: text for name, _, text, *_ in node.outputs})
            case United():
                made = pk.union(*(stream(n) for n in node.of))
            case Windowed():
                kind = dict(node.of.schema)[node.on]
                made = stream(node.of).aggregate(
                    {name: text for name, _, text, _ in node.outputs},
                    on=node.on,
                    size=duration(node.size, kind),
                    advance=duration(node.advance, kind),
                    by=node.by,
                )
        built[id(node)] = made
        return made

    for source in case.inputs():
        stream(source)
    for number, output in enumerate(case.outputs):
        stream(output).output(f"o{number}")
    return net


# --- as DuckDB sees it -----------------------------------------------------------------------------------------------


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": 1})


def oracle_connection() -> duckdb.DuckDBPyConnection:
    """A connection of one's own, for temporary tables: to open a database takes longer than most answers."""
    return _database().cursor()


class Oracle:
    """The answer over the whole input, table by table."""

    def __init__(self) -> None:
        self._db = oracle_connection()
        self._made: dict[int, str] = {}
        self._asked: list[Any] = []
        """They stay, or another node might get the number of one that is gone."""

    def answer(self, node: Any) -> pa.Table:
        self._asked.append(node)
        return self._db.sql(f"SELECT * FROM {self._table(node)}").to_arrow_table()

    def _table(self, node: Any) -> str:
        if id(node) not in self._made:
            name = f"t{len(self._made)}_{id(node)}"
            if isinstance(node, Input):
                self._load(node, name)
            else:
                self._db.execute(f"CREATE TEMP TABLE {name} AS {self._sql(node)}")
            self._made[id(node)] = name
        return self._made[id(node)]

    def _load(self, source: Input, name: str) -> None:
        schema = arrow_schema(source.schema)
        columns = list(zip(*source.rows, strict=True)) or [()] * len(schema)
        arrived = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
        self._create(name, arrived, where="ts IS NOT NULL")

    def _create(self, name: str, rows: pa.Table, where: str = "true") -> None:
        self._db.register("rows", rows)
        self._db.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM rows WHERE {where}")
        self._db.unregister("rows")

    def _sql(self, node: Any) -> str:
        match node:
            case Routed():
                before = [f"({p}) IS NOT TRUE" for p in node.predicates[: node.port]]
                mine = [f"({p}) IS TRUE" for p in node.predicates[node.port : node.port + 1]]
                return f"SELECT * FROM {self._table(node.of)} WHERE {' AND '.join(before + mine)}"
            case Mapped():
                columns = ", ".join(f"{sql} AS {name}" for name, _, _, sql, _ in node.outputs)
                return f"SELECT {columns} FROM {self._table(node.of)}"
            case United():
                names = ", ".join(name for name, _ in node.schema)
                return " UNION ALL ".join(f"SELECT {names} FROM {self._table(n)}" for n in node.of)
            case Windowed():
                return self._windows_sql(node)
        raise AssertionError(node)

    def _windows_sql(self, node: Windowed) -> str:
        kind = dict(node.of.schema)[node.on]
        tuples, tick = self._table(node.of), _tick_sql(node.on, kind)
        times = [t for (t,) in self._db.execute(f"SELECT DISTINCT {tick} FROM {tuples}").fetchall()]
        reach = {t: range((t - node.size) // node.advance, t // node.advance + 1) for t in times}
        starts = sorted({w * node.advance for windows in reach.values() for w in windows})
        self._create(f"windows_{id(node)}", pa.table({"start": pa.array(starts, pa.int64())}))
        by = "".join(f", {name}" for name in node.by)
        columns = "".join(f", {sql} AS {name}" for name, _, _, sql in node.outputs)
        return (
            f"SELECT {_time_sql('start', kind)} AS {node.on}{by}{columns} FROM {tuples} "
            f"JOIN windows_{id(node)} ON start <= {tick} AND {tick} < start + {node.size} GROUP BY start{by}"
        )


def _tick_sql(name: str, kind: str) -> str:
    match kind:
        case "date":
            return f"({name} - DATE '1970-01-01')"
        case "s":
            return f"(epoch_ms({name}) // 1000)"
        case "ms" | "us" | "ns":
            return f"epoch_{kind}({name})"
    return f"CAST({name} AS BIGINT)"


def _time_sql(tick: str, kind: str) -> str:
    match kind:
        case "date":
            return f"(DATE '1970-01-01' + CAST({tick} AS INTEGER))"
        case "s":
            return f"CAST(make_timestamp_ms({tick} * 1000) AS TIMESTAMP_S)"
        case "ms":
            return f"CAST(make_timestamp_ms({tick}) AS TIMESTAMP_MS)"
        case "us":
            return f"make_timestamp({tick})"
        case "ns":
            return f"make_timestamp_ns({tick})"
    return tick


def bag(table: pa.Table, schema: pa.Schema) -> Counter[tuple[Any, ...]]:
    """The rows as a multiset; times as ticks, so that no unit is lost on the way to Python."""
    columns = []
    for field in schema:
        column = table.column(field.name).cast(field.type)
        if pa.types.is_date32(field.type):
            column = column.cast(pa.int32())
        elif pa.types.is_timestamp(field.type):
            column = column.cast(pa.int64())
        columns.append([tuple(v) if isinstance(v, list) else v for v in column.to_pylist()])
    return Counter(zip(*columns, strict=True))


# --- what hypothesis draws -------------------------------------------------------------------------------------------

BASE = (("k", "text"), ("j", "whole"), ("b", "bool"), ("i", "whole"), ("f", "float"))
_rows = st.tuples(
    st.sampled_from([None, "x", "y", "Ünï", ""]),
    st.sampled_from([None, -1, 0, 7]),
    st.sampled_from([None, True, False]),
    st.one_of(st.none(), st.integers(-9, 9)),
    # Quarters add up exactly in any order, so a sum is the same however it is cut.
    st.one_of(st.none(), st.integers(-40, 40).map(lambda q: q / 4)),
)


@st.composite
def inputs(draw: Any, name: str, kind: str, *, rows: int = 30, spoiled: bool = True) -> Input:
    """An input that keeps its promise; with `spoiled`, some tuples have no time at all."""
    _, step, far, _, _ = TICKS[kind]
    offset = draw(st.sampled_from([0, 0, far]))
    policy = draw(st.sampled_from(["ordered", "delayed", "slack", "punctuated"]))
    lowest = 15 if kind == "uint32" else -30  # a delay of at most 15 stays above zero
    times = draw(st.lists(st.integers(lowest, 60), max_size=rows))
    bound = draw(st.integers(0, 15))
    fine = draw(st.booleans())
    payloads = draw(st.lists(_rows, min_size=len(times), max_size=len(times)))
    if policy == "ordered":
        times = sorted(times)
    elif policy == "delayed":
        times = [max(times[: at + 1]) - abs(t) % (bound + 1) for at, t in enumerate(times)]
    ticks = [offset + t * step + (abs(t) * 7 % step if fine and policy != "delayed" else 0) for t in times]
    if policy == "ordered":
        ticks = sorted(ticks)
    if policy == "slack":
        bound = max((sum(before > t for before in ticks[:at]) for at, t in enumerate(ticks)), default=0)
    elements: list[Any] = [(tick, *payload) for tick, payload in zip(ticks, payloads, strict=True)]
    if policy == "punctuated":
        # Punctuation may stand anywhere, as long as everything after it is at least its value.
        for at in sorted(draw(st.sets(st.integers(0, len(elements)), max_size=4)), reverse=True):
            rest = [e[0] for e in elements[at:] if isinstance(e, tuple)]
            value = min(rest, default=max(ticks, default=offset + 60 * step)) - draw(st.integers(0, 3)) * step
            elements.insert(at, pk.punctuation(ts=value))
    if spoiled and draw(st.booleans()):
        elements.insert(draw(st.integers(0, len(elements))), (None, "x", 0, True, 1, 1.0))
    return Input(
        name,
        (("ts", kind), *BASE),
        tuple(elements),
        policy,
        bound if policy == "slack" else bound * step,
        draw(st.sampled_from([None, None, 3, 7, 11])),
        draw(st.sampled_from([None, None, "k", "j"])),
    )


def _predicates(schema: Schema) -> st.SearchStrategy[str]:
    texts: list[str] = []
    for name, kind in schema:
        texts += {
            "whole": [f"{name} > 0", f"{name} % 3 = 1", f"{name} IS NULL"],
            "float": [f"{name} >= 1.5", f"{name} < 0"],
            "text": [f"{name} = 'x'", f"{name} LIKE 'x%' OR {name} = 'y'", f"{name} IN ('', 'Ünï')"],
            "bool": [f"{name}", f"NOT {name}"],
        }.get(kind, [])
    return st.sampled_from(texts or ["1 = 1", "1 = 2", "NULL > 1"])


@st.composite
def _maps(draw: Any, of: Any) -> Mapped:
    """Keeps one progressing attribute at least; renames, computes, drops and adds others."""
    outputs: dict[str, tuple[str, str, str, str, bool]] = {}

    def put(name: str, kind: str, text: str, sql: str, progresses: bool) -> None:
        outputs[name] = (name, kind, text, sql, progresses)

    kinds = dict(of.schema)
    kept = draw(st.sampled_from(of.progressing))
    put(kept, kinds[kept], kept, kept, True)
    if draw(st.booleans()):
        name, kind = f"{kept}_m", kinds[kept]
        match kind:
            case "int" | "int32" | "int8" | "uint32":
                text, sql = draw(
                    st.sampled_from(
                        [
                            (f"{kept} / 4", f"CAST(floor({kept} / 4.0) AS BIGINT)"),
                            (f"CAST({kept} AS BIGINT) * 3 - 7", f"CAST({kept} AS BIGINT) * 3 - 7"),
                            (f"greatest({kept}, 5)", f"greatest({kept}, 5)"),
                        ]
                    )
                )
                put(name, "int", f"CAST({text} AS BIGINT)", f"CAST({sql} AS BIGINT)", True)
            case "date":
                put(name, "date", f"CAST({kept} + 3 AS DATE)", f"CAST({kept} + 3 AS DATE)", True)
            case "s" | "ms" | "us":
                text = draw(st.sampled_from([f"{kept} + INTERVAL 3 SECOND", f"date_trunc('minute', {kept})"]))
                put(name, "us", f"CAST({text} AS TIMESTAMP)", f"CAST({text} AS TIMESTAMP)", True)
        if draw(st.booleans()) and name in outputs:
            del outputs[kept]
    if kinds[kept] in ("int", *NARROW) and draw(st.booleans()):
        put("minus", "whole", f"0 - CAST({kept} AS BIGINT)", f"0 - CAST({kept} AS BIGINT)", False)
    for attribute, kind in of.schema:
        if attribute in of.progressing or kind in TICKS or not draw(st.integers(0, 3)):
            continue
        same = (attribute, kind, attribute, attribute)
        computed = {
            "whole": [same, (attribute, kind, f"{attribute} + 1", f"{attribute} + 1"),
                      (attribute, kind, f"{attribute} / 2", f"CAST(floor({attribute} / 2.0) AS BIGINT)"),
                      (f"{attribute}_r", kind, attribute, attribute)],
            "float": [same, (attribute, kind, f"{attribute} * 2", f"{attribute} * 2"),
                      (attribute, kind, f"abs({attribute})", f"abs({attribute})")],
            "text": [same, (attribute, kind, f"upper({attribute})", f"upper({attribute})"),
                     (f"{attribute}_r", kind, f"coalesce({attribute}, 'none')", f"coalesce({attribute}, 'none')")],
            "bool": [same, (attribute, kind, f"NOT {attribute}", f"NOT {attribute}")],
        }[kind]  # fmt: skip
        put(*draw(st.sampled_from(computed)), False)
    return Mapped(of, tuple(outputs.values()))


def _calls(schema: Schema, on: str) -> list[tuple[str, str, str]]:
    """(kind, Penstock's text, DuckDB's text)"""
    found = [("whole", "count(*)", "count(*)")]
    for name, kind in schema:
        first = f"list({name} ORDER BY {on}, {name} NULLS LAST)[1]"
        last = f"list({name} ORDER BY {on} DESC, {name} NULLS LAST)[1]"
        if kind == "whole":
            found += [
                ("whole", f"sum({name})", f"CAST(sum({name}) AS BIGINT)"),
                ("whole", f"min({name})", f"min({name})"),
                ("float", f"avg({name})", f"avg({name})"),
                ("whole", f"count({name}) FILTER (WHERE {name} > 0)", f"count({name}) FILTER (WHERE {name} > 0)"),
                ("whole", f"count(DISTINCT {name})", f"count(DISTINCT {name})"),
                ("whole", f"first({name})", first),
                ("whole", f"sum({name}) + count(*)", f"CAST(sum({name}) + count(*) AS BIGINT)"),
            ]
        elif kind == "float":
            found += [
                ("float", f"sum({name})", f"sum({name})"),
                ("float", f"max({name})", f"max({name})"),
                ("float", f"median({name})", f"median({name})"),
                ("float", f"sum({name}) FILTER (WHERE {name} < 2)", f"sum({name}) FILTER (WHERE {name} < 2)"),
                ("float", f"last({name})", last),
            ]
        elif kind == "text":
            found += [
                ("text", f"min({name})", f"min({name})"),
                ("whole", f"count(DISTINCT {name})", f"count(DISTINCT {name})"),
                ("text", f"last({name})", last),
            ]
        elif kind == "bool":
            found += [("bool", f"bool_or({name})", f"bool_or({name})")]
    return found


@st.composite
def _windows(draw: Any, of: Any) -> Windowed:
    on = draw(st.sampled_from(of.progressing))
    kinds = dict(of.schema)
    step = TICKS[kinds[on]][1]
    size = draw(st.integers(1, 20)) * step
    shape = draw(st.sampled_from(["tumbling", "tumbling", "sliding", "any"]))
    advance = {
        "tumbling": size,
        "sliding": step * draw(st.integers(1, max(1, size // step))),
        "any": step * draw(st.integers(2, 25)),
    }[shape]
    keys = [name for name, kind in of.schema if kind in ("text", "whole", "bool")]
    by = tuple(draw(st.lists(st.sampled_from(keys), max_size=3, unique=True))) if keys else ()
    calls = draw(st.lists(st.sampled_from(_calls(of.schema, on)), min_size=1, max_size=3, unique=True))
    level = 1 + max((name.count("v") for name, _ in of.schema), default=0)
    return Windowed(of, on, size, advance, by, tuple((f"{'v' * level}{n}", *call) for n, call in enumerate(calls)))


@st.composite
def cases(draw: Any, *, rows: int = 30, boxes: int = 6, aggregates: int = 3, trains: Any = None) -> Case:
    """One to three inputs, a few boxes upon them, and outputs anywhere."""
    kind = draw(st.sampled_from(list(TICKS)))
    nodes: list[Any] = []
    for number in range(draw(st.integers(1, 3))):
        source = draw(inputs(f"in{number}", kind, rows=rows))
        if trains is not None:
            source = replace(source, train=draw(trains))
        nodes.append(source)
    depth: dict[int, int] = {}
    leaves: list[Any] = []
    for _ in range(draw(st.integers(1, boxes))):
        of = draw(st.sampled_from(nodes))
        shape = draw(st.sampled_from(["filter", "where", "map", "union", "aggregate", "aggregate"]))
        made: list[Any] = []
        match shape:
            case "filter":
                predicates = tuple(draw(st.lists(_predicates(of.schema), min_size=1, max_size=3, unique=True)))
                ports = draw(st.sets(st.integers(0, len(predicates)), min_size=1))
                made = [Routed(of, predicates, port) for port in sorted(ports)]
            case "where":
                made = [Routed(of, (draw(_predicates(of.schema)),), 0, where=True)]
            case "map":
                made = [draw(_maps(of))]
            case "union":
                alike = [
                    n for n in nodes if set(n.schema) == set(of.schema) and set(n.progressing) & set(of.progressing)
                ]
                others = draw(st.lists(st.sampled_from(alike), min_size=1, max_size=3))
                united = United((of, *others))
                made = [united] if united.progressing else []
            case "aggregate" if depth.get(id(of), 0) < aggregates:
                made = [draw(_windows(of))]
        for node in made:
            upstream = node.of if isinstance(node.of, tuple) else (node.of,)
            depth[id(node)] = max(depth.get(id(n), 0) for n in upstream) + isinstance(node, Windowed)
            nodes.append(node)
            leaves.append(node)
    chosen = draw(st.lists(st.sampled_from(leaves or nodes), min_size=1, max_size=3, unique_by=id))
    last = [n for n in leaves if isinstance(n, Windowed)][-1:]
    outputs = chosen + [n for n in last if all(n is not c for c in chosen)]
    return Case(tuple(outputs), draw(st.integers(1, 5)), draw(st.integers(1, 4)))
