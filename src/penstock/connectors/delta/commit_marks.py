"""Punctuation in the commits of a Delta table: what a network that writes to a table says of its own progress.

A commit carries, beside its files, how far the writer has come: the low-water mark of every progressing attribute, in
ticks of the type that the table has for it, and whether anything will follow. It is a JSON text in the commit's
metadata, under `KEY`. Whoever reads the table takes it as data of others: what does not look right is left alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from penstock.algebra.ticks import BEGINNING, END, Duration, duration_ticks, tick_ns
from penstock.connectors.delta.types import delta_type
from penstock.connectors.targets.target import OutputProgress
from penstock.errors import QueryError

LOG = logging.getLogger("penstock.delta")
KEY: Final = "penstock.marks"
"""The name of the text in a commit's metadata."""
_FORMAT: Final = 1
_LONGEST_NAME: Final = 200
"""Names of writers and attributes that are longer are none of ours."""


@dataclass(frozen=True)
class CommitMarks:
    """What a commit says: who wrote it, how far that writer has come, and whether it has ended."""

    writer: str
    marks: Mapping[str, int]
    """The low-water marks, in ticks of the table's types; `BEGINNING` where nothing is known yet."""
    ended: bool = False

    def to_text(self) -> str:
        """As the commit keeps it.

        >>> CommitMarks("a", {"ts": 7, "te": BEGINNING}).to_text()
        '{"format": 1, "writer": "a", "marks": {"ts": 7, "te": null}, "ended": false}'
        """
        marks = {name: None if tick == BEGINNING else tick for name, tick in self.marks.items()}
        return json.dumps({"format": _FORMAT, "writer": self.writer, "marks": marks, "ended": self.ended})

    @staticmethod
    def of(progress: OutputProgress, writer: str) -> CommitMarks:
        """What a writer says of its output, in the types of the table."""
        kinds = {name: progress.schema.field(name).type for name in progress.after}
        marks = {name: convert_tick(t, kinds[name], delta_type(kinds[name])) for name, t in progress.after.items()}
        return CommitMarks(writer, {n: BEGINNING if t is None else t for n, t in marks.items()}, progress.ended)

    @staticmethod
    def from_text(text: Any, place: str) -> CommitMarks | None:
        """What a commit says; None, and a warning, if it is nothing that this version of Penstock could have written.

        >>> CommitMarks.from_text('{"format": 1, "writer": "a", "marks": {"ts": 7}, "ended": false}', "here").marks
        {'ts': 7}
        """
        try:
            found = json.loads(text)
            if found["format"] != _FORMAT:
                raise ValueError(f"format {found['format']!r}")
            marks = {_name(name): _tick(tick) for name, tick in found["marks"].items()}
            if not isinstance(found["ended"], bool):
                raise ValueError(f"ended {found['ended']!r}")
            return CommitMarks(_name(found["writer"]), marks, found["ended"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            LOG.warning("the punctuation in %s is left alone: %s", place, error)
            return None


def _name(text: Any) -> str:
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_NAME:
        raise ValueError("a name that is none")
    return text


def _tick(tick: Any) -> int:
    if tick is None:
        return BEGINNING
    if isinstance(tick, bool) or not isinstance(tick, int) or not BEGINNING <= tick <= END:
        raise ValueError("a mark that is no tick")
    return tick


def passes(progress: OutputProgress, step: bool | Duration) -> bool:
    """Whether a batch without tuples moves a mark so far that readers should hear of it: past a multiple of a step.

    >>> schema = pa.schema([("ts", pa.int64())])
    >>> [passes(OutputProgress({"ts": 11}, {"ts": tick}, schema), 10) for tick in (19, 20)]
    [False, True]
    """
    if isinstance(step, bool):
        return step and bool(progress.moved())
    return any(_passes(*moved, progress.schema.field(name).type, step) for name, moved in progress.moved().items())


def _passes(before: int, after: int, kind: pa.DataType, step: Duration) -> bool:
    if after == END:
        return True
    try:
        length = duration_ticks(step, kind)
    except QueryError:
        return False  # a step in another unit is that of another attribute
    return before == BEGINNING or before // length < after // length


def convert_tick(tick: int, kind: pa.DataType, to: pa.DataType) -> int | None:
    """A mark of an attribute, for who has it in another type; None where the two have nothing in common.

    >>> convert_tick(3, pa.timestamp("s"), pa.timestamp("us"))
    3000000
    >>> convert_tick(1999, pa.timestamp("ns"), pa.timestamp("us"))
    1
    """
    if tick in (BEGINNING, END):
        return tick
    length, other = tick_ns(kind), tick_ns(to)
    if length is None and other is None:
        return tick
    if length is None or other is None:
        return None
    return min(max(tick * length // other, BEGINNING), END)


@dataclass(frozen=True)
class Standing:
    """How far all writers of a table have come, as far as its commits were read.

    The table's low-water mark is the least of theirs. Writers that have ended hold nobody back.

    >>> both = Standing().heard(CommitMarks("a", {"ts": 7})).heard(CommitMarks("b", {"ts": 3}))
    >>> both.marks(), both.heard(CommitMarks("b", {"ts": END}, ended=True)).marks()
    ({'ts': 3}, {'ts': 7})
    """

    writers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The marks of those that have not ended."""
    ended: tuple[str, ...] = ()
    """Where the last of them has ended: the attributes that it spoke of."""

    def heard(self, said: CommitMarks) -> Standing:
        others = {name: marks for name, marks in self.writers.items() if name != said.writer}
        if not said.ended:
            return Standing({**others, said.writer: said.marks})
        return Standing(others, () if others else tuple(said.marks))

    def marks(self) -> dict[str, int]:
        """The low-water marks of the table; `END` once all writers have ended."""
        if not self.writers:
            return dict.fromkeys(self.ended, END)
        names = dict.fromkeys(name for marks in self.writers.values() for name in marks)
        least = {name: min(marks.get(name, BEGINNING) for marks in self.writers.values()) for name in names}
        return {name: tick for name, tick in least.items() if tick > BEGINNING}

    def to_json(self) -> dict[str, Any]:
        """What of it a position keeps: nothing, if nobody has said anything."""
        writers = {"writers": {name: dict(marks) for name, marks in self.writers.items()}} if self.writers else {}
        return {**writers, **({"ended": list(self.ended)} if self.ended else {})}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Standing:
        return Standing(document.get("writers", {}), tuple(document.get("ended", ())))


NOTHING_SAID: Final = Standing()
