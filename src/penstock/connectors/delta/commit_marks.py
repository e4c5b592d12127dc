"""Punctuation in the commits of a Delta table: what a network that writes to a table says of its own progress.

A commit carries, beside its files, how far the writer has come: the low-water mark of every progressing attribute, in
ticks of the type that the table has for it, and whether anything will follow. It is a JSON text in the commit's
metadata, under `KEY`:

```
 {"format": 1, "writer": "a", "marks": {"ts": 7}, "ended": false,
  "falling": {"left": -40}, "joint": [{"l_ts": 7}, {"r_ts": 3}]}      if the stream states such marks (algebra/marks.py)
```

Whoever reads the table takes it as data of others: what does not look right is left alone. In a connection point, which
nobody but a network writes to, it is damage, and is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from penstock.algebra.marks import NO_PAIRS, UNKNOWN, Marks, Ticks, least, most
from penstock.algebra.ticks import BEGINNING, END, Duration, duration_ticks, tick_ns
from penstock.connectors.delta.types import delta_type
from penstock.connectors.targets.target import OutputProgress
from penstock.errors import QueryError, WorldError

KEY: Final = "penstock.marks"
"""The name of the text in a commit's metadata."""
MARKS_FOLDER: Final = "_marks"
"""The folder of a table with marks of groups; Delta deletes nothing in folders of such names."""
_GROUP_FILE: Final = re.compile(rf"{MARKS_FOLDER}/part-\d{{8}}-[A-Za-z0-9.-]+\.parquet")
_FORMAT: Final = 1
_LONGEST_NAME: Final = 200
"""Names of writers and attributes that are longer are none of ours."""


NamedFile = tuple[str, int]
"""The path of a file in the folder of its table, and its size."""


@dataclass(frozen=True)
class GroupFiles:
    """Marks of groups that a commit has moved: what they are of, and the files that they are in."""

    on: str
    by: tuple[str, ...]
    files: tuple[NamedFile, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"on": self.on, "by": list(self.by), "files": [list(file) for file in self.files]}

    @staticmethod
    def from_json(document: Any) -> GroupFiles | None:
        if document is None:
            return None
        by = tuple(_name(name) for name in document["by"])
        if not by or not isinstance(document["by"], list):
            raise ValueError("groups of nothing")
        return GroupFiles(_name(document["on"]), by, named_files(document["files"]))


def named_files(document: Any) -> tuple[NamedFile, ...]:
    """Files with marks of groups; a ValueError says that they cannot be ours.

    >>> named_files([["_marks/part-00000003-a.parquet", 9]])
    (('_marks/part-00000003-a.parquet', 9),)
    """
    found = []
    for file in document if isinstance(document, list) else [None]:
        match file:
            case [str(path), int(size)] if _GROUP_FILE.fullmatch(path) and size >= 0:
                found.append((path, size))
            case _:
                raise ValueError(f"{file!r} is no file of marks")
    return tuple(found)


def is_group_file(path: str) -> bool:
    """Whether a file of a table holds marks of groups, and no rows of it."""
    return path.startswith(f"{MARKS_FOLDER}/")


@dataclass(frozen=True)
class CommitMarks:
    """What a commit says: who wrote it, how far that writer has come, and whether it has ended."""

    writer: str
    marks: Marks
    """The low-water marks, in ticks of the table's types; `BEGINNING` where nothing is known yet."""
    ended: bool = False
    groups: GroupFiles | None = None
    """Marks of groups, where the stream has any and the table keeps them."""

    def to_text(self) -> str:
        """As the commit keeps it.

        >>> CommitMarks("a", Marks({"ts": 7, "te": BEGINNING})).to_text()
        '{"format": 1, "writer": "a", "marks": {"ts": 7, "te": null}, "ended": false}'
        """
        told: dict[str, Any] = {"format": _FORMAT, "writer": self.writer, "marks": _told(self.marks.rising)}
        told["ended"] = self.ended
        if self.marks.falling:
            told["falling"] = _told(self.marks.falling)
        if any(self.marks.joint):
            told["joint"] = [_told(side) for side in self.marks.joint]
        if self.groups is not None:
            told["groups"] = self.groups.to_json()
        return json.dumps(told)

    @staticmethod
    def of(progress: OutputProgress, writer: str) -> CommitMarks:
        """What a writer says of its output, in the types of the table."""
        kinds = {name: (field.type, delta_type(field.type)) for name, field in _fields(progress)}
        return CommitMarks(writer, converted(progress.after, kinds), progress.ended)

    @staticmethod
    def from_text(text: Any) -> CommitMarks:
        """What a commit says; a ValueError says why it is nothing that this version of Penstock could have written.

        >>> CommitMarks.from_text('{"format": 1, "writer": "a", "marks": {"ts": 7}, "ended": false}').marks.rising
        {'ts': 7}
        """
        try:
            found = json.loads(text)
            if found["format"] != _FORMAT:
                raise ValueError(f"format {found['format']!r}")
            left, right = found.get("joint", NO_PAIRS)
            marks = Marks(_ticks(found["marks"]), _ticks(found.get("falling", {})), (_ticks(left), _ticks(right)))
            if not isinstance(found["ended"], bool):
                raise ValueError(f"ended {found['ended']!r}")
            groups = GroupFiles.from_json(found.get("groups"))
            return CommitMarks(_name(found["writer"]), marks, found["ended"], groups)
        except (TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


def _fields(progress: OutputProgress) -> list[tuple[str, pa.Field]]:
    return [(field.name, field) for field in progress.schema]


def _told(ticks: Ticks) -> dict[str, int | None]:
    return {name: None if tick == BEGINNING else tick for name, tick in ticks.items()}


def _ticks(found: Any) -> dict[str, int]:
    return {_name(name): _tick(tick) for name, tick in found.items()}


def _name(text: Any) -> str:
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_NAME:
        raise ValueError("a name that is none")
    return text


def _tick(tick: Any) -> int:
    if tick is None:
        return BEGINNING
    if isinstance(tick, bool) or not isinstance(tick, int) or not BEGINNING <= tick <= END:
        raise ValueError(f"{tick!r} is no tick")
    return tick


def passes(progress: OutputProgress, step: bool | Duration) -> bool:
    """Whether a batch without tuples moves a mark so far that readers should hear of it: past a multiple of a step.

    >>> schema = pa.schema([("ts", pa.int64())])
    >>> [passes(OutputProgress(Marks({"ts": 11}), Marks({"ts": tick}), schema), 10) for tick in (19, 20)]
    [False, True]
    """
    if isinstance(step, bool):
        return step and bool(progress.moved())
    moved = progress.moved()
    return any(_passes(*ticks, progress.schema.field(mark.attribute).type, step) for mark, ticks in moved.items())


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


def converted(marks: Marks, kinds: Mapping[str, tuple[pa.DataType, pa.DataType]]) -> Marks:
    """Marks for who has the attributes in other types; those of which nothing can be said there are left out. A pair
    of which one side is lost says nothing.

    >>> seconds = (pa.timestamp("s"), pa.timestamp("ms"))
    >>> converted(Marks({"ts": 7, "gone": 1}, joint=({"ts": 7}, {"gone": 1})), {"ts": seconds})
    Marks(rising={'ts': 7000}, falling={}, joint=({}, {}), ended=False)
    """

    def part(ticks: Ticks) -> dict[str, int]:
        found = {name: convert_tick(tick, *kinds[name]) for name, tick in ticks.items() if name in kinds}
        return {name: tick for name, tick in found.items() if tick is not None}

    left, right = map(part, marks.joint)
    return Marks(part(marks.rising), part(marks.falling), (left, right) if left and right else NO_PAIRS, marks.ended)


@dataclass(frozen=True)
class Standing:
    """How far all writers of a table have come, as far as its commits were read.

    The table's low-water mark is the least of theirs. Writers that have ended hold nobody back. Joint marks are said
    only of a table that has had one writer: pairs of several need not follow upon each other.

    >>> both = Standing().heard(CommitMarks("a", Marks({"ts": 7}))).heard(CommitMarks("b", Marks({"ts": 3})))
    >>> both.marks().rising, both.heard(CommitMarks("b", Marks({"ts": END}), ended=True)).marks().rising
    ({'ts': 3}, {'ts': 7})
    """

    writers: Mapping[str, Marks] = field(default_factory=dict)
    """The marks of those that have not ended."""
    ended: Marks = UNKNOWN
    """Where the last of them has ended: the marks that it spoke of."""
    several: bool = False
    """Whether more than one has been heard."""

    def heard(self, said: CommitMarks) -> Standing:
        others = {name: marks for name, marks in self.writers.items() if name != said.writer}
        # One that speaks behind the end of all is another one, or begins anew.
        several = self.several or bool(others) or self.ended != UNKNOWN
        if not said.ended:
            return Standing({**others, said.writer: said.marks}, several=several)
        return Standing(others, UNKNOWN if others else said.marks.unknown(), several)

    def spoken(self) -> Marks:
        """All marks that writers have spoken of, with nothing known of them."""
        return most([UNKNOWN, self.ended, *self.writers.values()]).unknown()

    def marks(self) -> Marks:
        """The low-water marks of the table; `END` once all writers have ended."""
        if not self.writers:
            return self._pairs(self.ended.each(lambda _: END))
        return self._pairs(known_of(least([*self.writers.values()])))

    def _pairs(self, marks: Marks) -> Marks:
        return marks.alone if self.several or not all(marks.joint) else marks

    def to_json(self) -> dict[str, Any]:
        """What of it a position keeps: nothing, if nobody has said anything."""
        writers = {name: dict(marks.rising) for name, marks in self.writers.items()}
        finer = {name: told for name, marks in self.writers.items() if (told := _finer(marks))}
        found = {"writers": writers, "finer": finer, "ended": [*self.ended.rising], "ended_finer": _finer(self.ended)}
        return {name: value for name, value in {**found, "several": self.several}.items() if value}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Standing:
        finer = document.get("finer", {})
        writers = {
            name: Marks.from_json({"rising": marks, **finer.get(name, {})})
            for name, marks in document.get("writers", {}).items()
        }
        rising = dict.fromkeys(document.get("ended", ()), BEGINNING)
        ended = Marks.from_json({"rising": rising, **document.get("ended_finer", {})})
        return Standing(writers, ended, document.get("several", False))


@dataclass(frozen=True)
class KeptMarks:
    """What holds for all that follows a batch."""

    batch: int
    joint: tuple[Ticks, Ticks] = NO_PAIRS
    files: tuple[NamedFile, ...] = ()
    """With the marks of groups that have moved since what was kept before."""

    def to_json(self) -> list[Any]:
        files = [[list(file) for file in self.files]] if self.files else []
        return [self.batch, Marks(joint=self.joint).to_json(), *files]

    @staticmethod
    def from_json(document: object) -> KeptMarks:
        match document:
            case [int(batch), marks, *files] if not isinstance(batch, bool) and batch >= 0 and len(files) <= 1:
                with suppress(ValueError):
                    return KeptMarks(batch, Marks.from_json(marks).joint, named_files(files[0] if files else []))
        raise WorldError(
            "kept marks are not written as such", expected="[batch, marks, files]", found=repr(document)[:200]
        )


def known_of(marks: Marks) -> Marks:
    """Without marks of which nothing is known.

    >>> known_of(Marks({"ts": 7, "te": BEGINNING})).rising
    {'ts': 7}
    """
    rising, falling = ({n: t for n, t in part.items() if t > BEGINNING} for part in (marks.rising, marks.falling))
    return Marks(rising, falling, marks.joint, marks.ended)


def _finer(marks: Marks) -> dict[str, Any]:
    """What is written of marks beside those of attributes that increase."""
    return {name: value for name, value in marks.to_json().items() if name != "rising"}


NOTHING_SAID: Final = Standing()
