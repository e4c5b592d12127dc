"""The list of boxes: what each is for, what it takes, and an example. `penstock boxes` shows it.

Every room has the words for its own box. The names and defaults of the arguments are read from the methods themselves,
so they cannot drift apart; a box without its words, or words without an argument, is refused.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

import penstock.boxes
from penstock.algebra.box import Output, View
from penstock.algebra.source import Source
from penstock.boxes.words import Words
from penstock.errors import InternalError, QueryError
from penstock.language.builder import Builder
from penstock.language.stream import Stream


@dataclass(frozen=True)
class Argument:
    """One argument of a box."""

    name: str
    meaning: str
    default: str | None
    """As it would be written; None for an argument that must be given."""


@dataclass(frozen=True)
class Card:
    """One box of the list."""

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


_SOURCE: Final = Words(
    "source",
    Source,
    "net",
    "An input of the network: tuples that make progress on one attribute or several.",
    "the stream of its tuples; late() and errors() are its side streams",
    'net.source("packets", pk.files("data/*.parquet"), on="ts", progress=pk.delayed("2 seconds"))',
    {
        "name": "what the input is called",
        "connector": "where tuples come from: pk.files, pk.memory, pk.generator, pk.dataframe; pk.temporal around one",
        "schema": "names and types of the attributes; read from the data where it says",
        "on": "the attribute that makes progress",
        "timestamps": "where `on` comes from: 'external' (the tuples), 'internal' or 'latent' (the intake)",
        "progress": "how far the input has come: pk.ordered(), pk.delayed(d), pk.slack(n), pk.punctuated(), with "
        "idle=; or {attribute: how}",
        "late": "what becomes of late tuples: 'route' to the late stream, 'drop' (counted) or 'error'",
        "overdue": "how long a shard may bring nothing before it counts as failed",
        "when_overdue": "what becomes of one that failed: 'report' it, or 'close' it so that nobody waits for it",
    },
    function=Builder.source,
)
_CONNECTION_POINT: Final = Words(
    "connection_point",
    Output,
    "stream",
    "Remembers what passes, in a Delta table; pk.connection_point(path) reads it back.",
    "the same stream",
    'packets.connection_point("packets", keep="2 hours", key="srcIP")',
    {
        "name": "what it is called, among the outputs",
        "keep": "how much is kept: a time, a number of rows, bytes such as '10 GB', or pk.keep(...); all if not given",
        "key": "the attributes by which tuples lie together: the storage key",
        "path": "where the table is; <checkpoint>/points/<name> if not given",
        "grace": "how long files stay that have left, for readers that are behind",
    },
    page="connection-points.md",
)
_VIEW: Final = Words(
    "view",
    View,
    "stream",
    "Names what flows here for those who may want it later: run.read, run.attach.",
    "the same stream",
    'packets.where("len > 1000").view("long ones", materialize="none")',
    {
        "name": "what it is called, among the outputs",
        "materialize": "what is kept: 'all', 'some' (as much as keep says) or 'none': computed when it is read",
        "keep": "how much is kept with 'some', as of a connection point",
        "key": "the storage key, as of a connection point",
        "path": "where the table is; <checkpoint>/points/<name> if not given",
    },
)
_OUTPUT: Final = Words(
    "output",
    Output,
    "stream",
    "Lets a stream leave the network.",
    "the same stream",
    'packets.output("packets", to=pk.parquet("out"))',
    {
        "name": "what the output is called",
        "to": "where tuples go: pk.delta, pk.parquet, pk.csv, pk.jsonl, pk.console, pk.callback, pk.current around "
        "one; kept if not given",
        "keep": "how much of them is kept then, such as '1 GB'; the oldest leave first",
    },
)


@cache
def _words() -> Mapping[str, Words]:
    """The words of all boxes, by name: inputs first, outputs last."""
    rooms = [room.name for room in pkgutil.iter_modules(penstock.boxes.__path__, "penstock.boxes.") if room.ispkg]
    found: list[Words] = [_SOURCE]
    for room in rooms:
        if any(module.name == "card" for module in pkgutil.iter_modules(import_module(room).__path__)):
            found += import_module(f"{room}.card").CARDS
    return {words.name: words for words in (*found, _CONNECTION_POINT, _VIEW, _OUTPUT)}


def boxes() -> list[Card]:
    """All boxes, in the order of the list."""
    return [card(name) for name in _words()]


def card(name: str) -> Card:
    """One box of the list."""
    if name not in _words():
        raise QueryError(f"there is no box '{name}'", expected=f"one of {', '.join(_words())}")
    words = _words()[name]
    return Card(
        name,
        f"{words.owner}.{name}(...)",
        words.summary,
        _arguments(words),
        words.gives,
        words.example,
        words.page or words.box.page,
    )


def _arguments(words: Words) -> tuple[Argument, ...]:
    function = words.function or getattr(Stream, words.name)
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    if {p.name for p in parameters} != set(words.meanings):
        raise InternalError(
            f"the card does not fit the box '{words.name}'",
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
