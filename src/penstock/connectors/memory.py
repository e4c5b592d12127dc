"""`pk.memory`: a scripted input, for tests, examples and the papers' worked tables.

Elements are rows and punctuation, delivered `train` at a time. A row that does not fit the schema goes to the error
stream. With `shard_by` each value of a column is a shard of its own; punctuation that names the value of that column
speaks for its shard, other punctuation for all shards.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.schema import SchemaLike, parse_schema, plain_schema
from penstock.algebra.ticks import can_progress, tick_of
from penstock.connectors.connector import (
    Advance,
    Chunk,
    Connector,
    Feed,
    Journal,
    Limit,
    Position,
    Split,
    fixed_width,
    row_bytes,
)
from penstock.connectors.fitting import Misfit, fit_table, one_batch
from penstock.connectors.rejects import rejects
from penstock.errors import InternalError, QueryError

_SPLIT_ELEMENTS: Final = 1 << 18  # enough to be worth a task, few enough for two tasks to share a long train
_ORIGIN: Final = "memory"


@dataclass(frozen=True)
class PunctuationElement:
    """Punctuation among the elements of a scripted input: the attribute and its value."""

    value: tuple[tuple[str, Any], ...]

    def __repr__(self) -> str:
        return f"punctuation({', '.join(f'{name}={value!r}' for name, value in self.value)})"


def punctuation(**value: Any) -> PunctuationElement:
    """States that every later tuple has at least this value of the attribute.

    >>> punctuation(ts=5)
    punctuation(ts=5)
    """
    if not value:
        raise QueryError("punctuation states nothing", expected="an attribute and a value, such as punctuation(ts=5)")
    return PunctuationElement(tuple(value.items()))


@dataclass(frozen=True)
class ClockElement:
    """A clock reading among the elements of a scripted input, in microseconds since the epoch."""

    reading: int


def clock(at: dt.datetime | str | float) -> ClockElement:
    """Says what time it is when the train that contains it arrives, in place of the machine's clock.

    A number counts seconds from the epoch. Once a script has said it, its clock stands still until it says so again.

    >>> clock(90), clock("1970-01-01 00:01:30")
    (ClockElement(reading=90000000), ClockElement(reading=90000000))
    """
    if isinstance(at, int | float):
        return ClockElement(round(at * 1_000_000))
    kind = pa.timestamp("us", "UTC") if getattr(at, "tzinfo", None) is not None else pa.timestamp("us")
    return ClockElement(tick_of(at, kind))


@dataclass(frozen=True)
class MemorySplit(Split):
    """Elements `[start, stop)`; those of one shard alone if the input is sharded."""

    start: int
    stop: int


@dataclass(frozen=True)
class Memory(Connector):
    """A scripted input."""

    elements: tuple[Any, ...] | pa.Table
    declared: pa.Schema
    train: int | None = None
    shard_by: str | None = None

    @property
    def bounded(self) -> bool:
        return True

    def schema(self) -> pa.Schema:
        return self.declared

    def describe(self) -> str:
        return f"memory ({len(self.elements)} elements)"

    def shards(self) -> Sequence[str]:
        if self.shard_by is None:
            return ("0",)
        if isinstance(self.elements, pa.Table):
            texts = pc.fill_null(self.elements.column(self.shard_by).cast(pa.string()), "None")
            return tuple(texts.unique().to_pylist()) or ("0",)
        seen = (self._shard_of(at) for at in range(len(self.elements)))
        return tuple(dict.fromkeys(shard for shard in seen if shard is not None)) or ("0",)

    @property
    def states(self) -> Sequence[str]:
        """The attributes that punctuation in the script speaks of."""
        if isinstance(self.elements, pa.Table):
            return ()
        said = [e for e in self.elements if isinstance(e, PunctuationElement)]
        return tuple(dict.fromkeys(name for e in said for name, _ in e.value if name != self.shard_by))

    def open(self, schema: pa.Schema, journal: Journal) -> MemoryFeed:
        return MemoryFeed(self, tuple(self.shards()))

    def read(self, split: Split, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        if not isinstance(split, MemorySplit):
            raise InternalError("a split of another connector was given to memory", found=repr(split))
        if isinstance(self.elements, pa.Table):
            yield from self._read_table(self.elements, split, schema, columns)
            return
        places, rows = [], []
        stated: dict[str, list[int]] = {}
        for at in range(split.start, split.stop):
            element = self.elements[at]
            if self.shard_by is not None and self._shard_of(at) not in (split.shard, None):
                continue
            if isinstance(element, ClockElement):
                continue
            if isinstance(element, PunctuationElement):
                for attribute, tick in self._ticks(element):
                    stated.setdefault(attribute, []).append(tick)
            elif self.shard_by is None or self._shard_of(at) == split.shard:
                places.append(at)
                rows.append(element)
        tuples, misfits = _columns(rows, schema)
        batch = rejects(
            _ORIGIN,
            [places[bad.row] + 1 for bad in misfits],
            [repr(rows[bad.row]) for bad in misfits],
            [bad.reason for bad in misfits],
        )
        yield Chunk(tuples.select(list(columns)), batch, stated)

    def _read_table(
        self, table: pa.Table, split: MemorySplit, schema: pa.Schema, columns: Sequence[str]
    ) -> Iterator[Chunk]:
        part = table.slice(split.start, split.stop - split.start)
        numbers = None
        if self.shard_by is not None:
            texts = part.column(self.shard_by).cast(pa.string())
            mine = pc.equal(pc.fill_null(texts, "None"), split.shard)
            numbers = pc.indices_nonzero(mine).to_pylist()
            part = part.filter(mine)
        fitted, misfits = fit_table(part, schema)
        batch = rejects(
            _ORIGIN,
            [split.start + 1 + (numbers[bad.row] if numbers else bad.row) for bad in misfits],
            [None] * len(misfits),
            [bad.reason for bad in misfits],
        )
        yield Chunk(one_batch(fitted).select(list(columns)), batch)

    def speaking(self, start: int, stop: int, known: Sequence[str]) -> Sequence[str]:
        """The shards that have tuples or punctuation among the elements `[start, stop)`."""
        if isinstance(self.elements, pa.Table):
            if self.shard_by is None:
                return known
            texts = self.elements.column(self.shard_by).slice(start, stop - start).cast(pa.string())
            found = set(pc.fill_null(texts, "None").unique().to_pylist())
        else:
            # A clock tells the time, and nobody has spoken.
            said = [at for at in range(start, stop) if not isinstance(self.elements[at], ClockElement)]
            shards = {self._shard_of(at) for at in said}
            if None in shards:
                return known
            found = {shard for shard in shards if shard is not None}
        return [shard for shard in known if shard in found]

    def _ticks(self, element: PunctuationElement) -> list[tuple[str, int]]:
        stating = [(name, value) for name, value in element.value if name != self.shard_by]
        return [(name, tick_of(value, self.declared.field(name).type)) for name, value in stating]

    def _shard_of(self, at: int) -> str | None:
        """The shard of an element; None for punctuation that speaks for all of them."""
        if self.shard_by is None:
            return "0"
        element = self.elements[at]
        if isinstance(element, ClockElement):
            return None
        if isinstance(element, PunctuationElement):
            named = dict(element.value)
            return str(named[self.shard_by]) if self.shard_by in named else None
        if isinstance(element, Mapping):
            return str(element.get(self.shard_by))
        index = self.declared.get_field_index(self.shard_by)
        return str(element[index]) if isinstance(element, Sequence) and len(element) > index else "None"


@dataclass(frozen=True)
class MemoryFeed(Feed):
    """Positions are `{"at": elements taken}`."""

    connector: Memory
    known: tuple[str, ...]

    def start(self) -> Position:
        return {"at": 0}

    def advance(self, position: Position, limit: Limit) -> Advance:
        total, width = len(self.connector.elements), self._row_bytes(limit)
        # A script that has a cut into trains of its own keeps it, so `limit` has no say in it.
        train = self.connector.train or max(1, min(limit.rows, int(limit.bytes / width)))
        at = min(total, position["at"] + train)
        taken = at - position["at"]
        clock = self._clock(at)
        return Advance({"at": at}, ended=at == total, clock=clock, rows=taken, bytes=int(taken * width))

    def _row_bytes(self, limit: Limit) -> float:
        elements, schema, texts = self.connector.elements, self.connector.declared, dict[str, float]()
        if isinstance(elements, pa.Table) and len(elements):
            names = [one.name for one in schema if fixed_width(one.type) is None]
            texts = {name: elements.column(name).nbytes / len(elements) for name in names}
        return row_bytes(schema, limit.columns, texts)

    def _clock(self, before: int) -> int | None:
        """The last reading that the script has given up to a position."""
        elements = self.connector.elements
        if isinstance(elements, pa.Table):
            return None
        return next((e.reading for e in reversed(elements[:before]) if isinstance(e, ClockElement)), None)

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        first, last = start["at"], end["at"]
        cuts = [(at, min(last, at + _SPLIT_ELEMENTS)) for at in range(first, last, _SPLIT_ELEMENTS)]
        return [
            MemorySplit(shard, low, high - low, low, high)
            for low, high in cuts
            for shard in self.connector.speaking(low, high, self.known)
        ]


def memory(
    elements: Sequence[Any] | pa.Table,
    *,
    schema: SchemaLike | None = None,
    train: int | None = None,
    shard_by: str | None = None,
) -> Memory:
    """A scripted, bounded input: rows as tuples or dicts in schema order, `punctuation(...)` and `clock(...)` elements.

    `train=n` delivers n elements to a train and one train a batch; without it a train is as long as the run allows.
    """
    if isinstance(elements, pa.Table):
        # Every value has one in the plain layout, and Arrow cannot filter them all as they are.
        elements = elements.cast(plain_schema(elements.schema))
        declared = parse_schema(elements.schema if schema is None else schema)
        missing = [name for name in declared.names if name not in elements.column_names]
        if missing:
            raise QueryError(
                f"the table has no column {', '.join(map(repr, missing))}",
                expected=", ".join(declared.names),
                found=", ".join(elements.column_names),
            )
    elif schema is None:
        raise QueryError("memory needs a schema", expected='for example schema={"ts": "int64", "k": "string"}')
    else:
        declared, elements = parse_schema(schema), tuple(elements)
    if train is not None and train < 1:
        raise QueryError("a train has at least one element", found=f"train={train}")
    if shard_by is not None and shard_by not in declared.names:
        raise QueryError(f"no column {shard_by!r} to shard by", expected=f"one of {', '.join(declared.names)}")
    connector = Memory(elements, declared, train, shard_by)
    if not isinstance(elements, pa.Table):
        for element in elements:
            if isinstance(element, PunctuationElement):
                _check(element, declared, shard_by)
    return connector


def _check(element: PunctuationElement, schema: pa.Schema, shard_by: str | None) -> None:
    stating = [(name, value) for name, value in element.value if name != shard_by]
    for name, _ in stating:
        if name not in schema.names:
            raise QueryError(
                f"{element} states {name!r}, which is not in the schema", expected=f"one of {', '.join(schema.names)}"
            )
    if len(stating) != 1:
        raise QueryError(f"{element} must state one attribute", found=f"{len(stating)} attributes")
    name, value = stating[0]
    kind = schema.field(name).type
    if not can_progress(kind):
        raise QueryError(f"{element} states {name!r}, which cannot progress", expected="an integer, date or timestamp")
    try:
        tick_of(value, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise QueryError(f"{element} has no value of type {kind}", found=str(error)) from error


def _columns(rows: Sequence[Any], schema: pa.Schema) -> tuple[pa.RecordBatch, list[Misfit]]:
    """Rows as columns: all at once if they all fit, one by one only if some do not."""
    try:
        return _convert(rows, schema), []
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError, OverflowError):
        pass
    misfits = [Misfit(at, reason) for at, row in enumerate(rows) if (reason := _misfit(row, schema))]
    bad = {misfit.row for misfit in misfits}
    return _convert([row for at, row in enumerate(rows) if at not in bad], schema), misfits


def _convert(rows: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    width, names = len(schema), set(schema.names)
    plain: list[Sequence[Any]] = []
    for row in rows:
        if isinstance(row, Mapping):
            if row.keys() != names:
                raise ValueError("other keys")
            plain.append(tuple(row[name] for name in schema.names))
        elif isinstance(row, (tuple, list)) and len(row) == width:
            plain.append(row)
        else:
            raise ValueError("other arity")
    columns = list(zip(*plain, strict=True)) if plain else [()] * width
    return pa.record_batch(
        [_array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(kind) and any(isinstance(value, str) for value in values):
        # Times may be written as text in a script, as in punctuation.
        return pa.array([pa.scalar(value).cast(kind) if isinstance(value, str) else value for value in values], kind)
    if pa.types.is_integer(kind) and any(isinstance(value, float) for value in values):
        # pyarrow would cut the fraction off.
        raise ValueError("a float is no integer")
    return pa.array(values, kind)


def _misfit(row: Any, schema: pa.Schema) -> str | None:
    if isinstance(row, Mapping):
        missing = [name for name in schema.names if name not in row]
        if missing:
            return f"has no value for {', '.join(map(repr, missing))}"
        unknown = [name for name in row if name not in schema.names]
        if unknown:
            return f"has unknown columns {', '.join(map(repr, unknown))}"
        values: Sequence[Any] = [row[name] for name in schema.names]
    elif not isinstance(row, (tuple, list)):
        return f"is no row: expected a tuple or a dict, found {type(row).__name__}"
    elif len(row) != len(schema):
        return f"has {len(row)} values, expected {len(schema)}"
    else:
        values = row
    for value, field in zip(values, schema, strict=True):
        try:
            _array([value], field.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError, OverflowError):
            return f"column {field.name!r}: {value!r} is no {field.type}"
    return None
