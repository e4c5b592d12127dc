"""The catalogue of boxes: what each is for, what it takes, and an example. `penstock boxes` shows it.

The names and defaults of the arguments are read from the methods themselves, so they cannot drift apart; what each
argument means is said here, and a box without its words, or words without an argument, is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.boxes.cleanse.verb import merge
from penstock.boxes.union.verb import union
from penstock.errors import InternalError, QueryError
from penstock.language.builder import Builder
from penstock.language.stream import Stream

NAME: Final = "what the box is called in explain, status and errors; made up if not given"
BY: Final = "the attributes that make a group"


@dataclass(frozen=True)
class Argument:
    """One argument of a box."""

    name: str
    meaning: str
    default: str | None
    """As it would be written; None for an argument that must be given."""


@dataclass(frozen=True)
class Card:
    """One box of the catalogue."""

    name: str
    call: str
    """How it is called, such as `stream.map(...)`."""
    summary: str
    arguments: tuple[Argument, ...]
    gives: str
    example: str
    page: str
    """Its page in the documentation."""

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "call": self.call,
            "summary": self.summary,
            "arguments": [{"name": a.name, "default": a.default, "meaning": a.meaning} for a in self.arguments],
            "gives": self.gives,
            "example": self.example,
            "page": self.page,
        }


@dataclass(frozen=True)
class _Words:
    """What is said of a box; the rest is read from its function."""

    function: Callable[..., Any]
    owner: str
    summary: str
    gives: str
    example: str
    page: str
    meanings: Mapping[str, str] = field(default_factory=dict)


_BOXES: Final[dict[str, _Words]] = {
    "source": _Words(
        Builder.source,
        "net",
        "An input of the network: tuples that make progress on one attribute or several.",
        "the stream of its tuples; late() and errors() are its side streams",
        'net.source("packets", pk.files("data/*.parquet"), on="ts", progress=pk.delayed("2 seconds"))',
        "inputs.md",
        {
            "name": "what the input is called",
            "connector": "where tuples come from: pk.files, pk.memory, pk.generator, pk.dataframe",
            "schema": "names and types of the attributes; read from the data where it says",
            "on": "the attribute that makes progress",
            "timestamps": "where `on` comes from: 'external' (the tuples), 'internal' or 'latent' (the intake)",
            "progress": "how far the input has come: pk.ordered(), pk.delayed(d), pk.punctuated(), with idle=; "
            "or {attribute: how}",
            "late": "what becomes of late tuples: 'route' to the late stream, 'drop' (counted) or 'error'",
            "overdue": "how long a shard may bring nothing before it counts as failed",
            "when_overdue": "what becomes of one that failed: 'report' it, or 'close' it so that nobody waits for it",
        },
    ),
    "filter": _Words(
        Stream.filter,
        "stream",
        "Routes every tuple to the first predicate it satisfies, and to the last stream if it satisfies none.",
        "one stream for each predicate, and one for the rest",
        'big, small, rest = packets.filter("len > 1000", "len < 100")',
        "boxes/filter.md",
        {"predicates": "SQL conditions, tried in their order; NULL is not true", "name": NAME},
    ),
    "where": _Words(
        Stream.where,
        "stream",
        "Keeps the tuples that satisfy a predicate.",
        "one stream",
        'packets.where("len > 1000")',
        "boxes/filter.md",
        {"predicate": "an SQL condition; NULL is not true", "name": NAME},
    ),
    "map": _Words(
        Stream.map,
        "stream",
        "Computes new tuples: every attribute is an expression of the old ones.",
        "one stream; attributes that are monotone in a progressing one progress",
        'packets.map(ts="ts", kilobytes="len / 1000")',
        "boxes/map.md",
        {"outputs": "attribute='SQL expression', one for each attribute of the new tuples", "name": NAME},
    ),
    "union": _Words(
        union,
        "pk",
        "All tuples of several streams of one schema, in any order.",
        "one stream; its progress is the least of its inputs'",
        "pk.union(packets, replies)",
        "boxes/union.md",
        {"streams": "two streams or more", "name": NAME},
    ),
    "merge": _Words(
        merge,
        "pk",
        "The order-preserving union: all tuples of several streams, in order of one attribute.",
        "one stream, in order",
        "pk.merge(packets, replies)",
        "boxes/cleanse.md",
        {
            "streams": "two streams or more",
            "on": "the attribute to order by; the only progressing one if not given",
            "name": NAME,
        },
    ),
    "cleanse": _Words(
        Stream.cleanse,
        "stream",
        "Puts a disordered stream in order: a tuple leaves when the low-water mark has reached it.",
        "one stream, in order",
        "packets.cleanse()",
        "boxes/cleanse.md",
        {
            "on": "the attribute to order by; the only progressing one if not given",
            "by": "order each group on its own, in parallel; one order over all if empty",
            "name": NAME,
        },
    ),
    "bsort": _Words(
        Stream.bsort,
        "stream",
        "Sorts as far as a buffer of n + 1 tuples can: Aurora's bounded bubble sort. Nothing is lost.",
        "one stream, nearly in order",
        'packets.bsort(on="ts", slack=2)',
        "boxes/bsort.md",
        {
            "on": "the attribute to sort by; the only progressing one if not given",
            "slack": "n: how many tuples stay in the buffer of a group",
            "by": BY + ", each with a buffer of its own",
            "name": NAME,
        },
    ),
    "aggregate": _Words(
        Stream.aggregate,
        "stream",
        "Aggregates over windows of an attribute, for each group. A result leaves once, when its window is complete.",
        "one stream of results: window start, group, outputs; late() if it is defined on arrival order",
        'packets.aggregate({"n": "count(*)", "mb": "sum(len) / 1000000"}, on="ts", size="1 minute", by="link")',
        "boxes/aggregate.md",
        {
            "outputs": "{attribute: SQL with aggregates} or {attribute: pk.window_function(...)}",
            "size": "the length of a window, in values of `on` or in tuples",
            "on": "the window attribute, or pk.TUPLE_NUMBER; the only progressing one if not given",
            "advance": "the distance of two window starts, or a predicate: windows start where it holds; the size if "
            "not given",
            "by": BY,
            "assuming": "pk.order(...): deduce progress from arrival; tuples further out of order go to late()",
            "timeout": "a window open for longer than this on the wall clock leaves as it is",
            "origin": "'epoch': windows start at multiples of advance; 'first': at the first value of the group",
            "partial": "whether windows of tuples that are not full leave at the end of the input",
            "flush": "smooth the work of window ends: how entries of complete windows leave the low level's table, "
            "'at-once', 'slow', 'lazy' or 'in-order'",
            "table": "entries of that table in every bucket; 65536 if not given",
            "every": "slow: how many tuples must arrive for an old entry to leave; 160 if not given, 1 in order",
            "delay": "slow and lazy: how many windows later a result may leave; 2 if not given",
            "name": NAME,
        },
    ),
    "join": _Words(
        Stream.join,
        "stream",
        "Pairs of tuples of two streams that are near each other in time and satisfy a predicate; or lookups in a "
        "static table.",
        "one stream of pairs; names that collide come out as l_x and r_x",
        'packets.join(replies, "l.srcIP = r.destIP", on=("ts", "ts"), size="10 seconds")',
        "boxes/join.md",
        {
            "other": "a stream, or pk.table(...)",
            "predicate": "an SQL condition over l.x and r.y",
            "on": "the progressing attribute of each side",
            "size": "how far the two may be apart",
            "band": "(before, after): the right one may lie from `before` before to `after` after the left one",
            "how": "'inner', 'left', 'right', 'full', 'semi' or 'anti'",
            "names": "what the sides are called",
            "progress": "which attribute progresses: 'pair' (both), 'left', 'right', 'min' or 'max'",
            "assuming": "(pk.order(...), pk.order(...)): deduce progress from arrival",
            "name": NAME,
        },
    ),
    "resample": _Words(
        Stream.resample,
        "stream",
        "For every tuple of this stream, values interpolated from the tuples of another that are near it in time.",
        "one stream: group, time of this stream's tuple, outputs",
        'ticks.resample(packets, {"mean": "avg(len)"}, on=("ts", "ts"), size="10 seconds", by="link")',
        "boxes/resample.md",
        {
            "other": "the stream to interpolate",
            "outputs": "{attribute: SQL with aggregates over the tuples of `other`}",
            "size": "how far a tuple of `other` may be away",
            "on": "the progressing attribute of each stream",
            "by": BY + ", of `other`",
            "assuming": "pk.order(...): deduce the progress of `other` from arrival, group by group",
            "name": NAME,
        },
    ),
    "dedupe": _Words(
        Stream.dedupe,
        "stream",
        "Lets the first of several equal tuples pass. What it remembers is let go of by punctuation.",
        "one stream without duplicates",
        'packets.dedupe(by=["srcIP", "destIP"], on="ts")',
        "boxes/dedupe.md",
        {
            "by": "the attributes in which duplicates agree, besides `on`; all if not given",
            "on": "the progressing attribute, in which duplicates agree too",
            "name": NAME,
        },
    ),
    "output": _Words(
        Stream.output,
        "stream",
        "Lets a stream leave the network.",
        "the same stream",
        'packets.output("packets", to=pk.parquet("out"))',
        "outputs.md",
        {
            "name": "what the output is called",
            "to": "where tuples go: pk.delta, pk.parquet, pk.csv, pk.jsonl, pk.console, pk.callback; kept if not given",
        },
    ),
}


def boxes() -> list[Card]:
    """All boxes, in the order of the catalogue."""
    return [card(name) for name in _BOXES]


def card(name: str) -> Card:
    """One box of the catalogue."""
    if name not in _BOXES:
        raise QueryError(f"there is no box '{name}'", expected=f"one of {', '.join(_BOXES)}")
    words = _BOXES[name]
    return Card(
        name,
        f"{words.owner}.{name}(...)",
        words.summary,
        _arguments(name, words),
        words.gives,
        words.example,
        words.page,
    )


def _arguments(box: str, words: _Words) -> tuple[Argument, ...]:
    parameters = [p for p in inspect.signature(words.function).parameters.values() if p.name != "self"]
    if {p.name for p in parameters} != set(words.meanings):
        raise InternalError(
            f"the catalogue does not fit the box '{box}'",
            expected=", ".join(p.name for p in parameters),
            found=", ".join(words.meanings),
        )
    return tuple(Argument(_written(p), words.meanings[p.name], _default(p)) for p in parameters)


def _written(parameter: inspect.Parameter) -> str:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return f"*{parameter.name}"
    return f"**{parameter.name}" if parameter.kind is inspect.Parameter.VAR_KEYWORD else parameter.name


def _default(parameter: inspect.Parameter) -> str | None:
    return None if parameter.default is inspect.Parameter.empty else repr(parameter.default)
