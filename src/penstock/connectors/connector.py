"""What an input connector is.

A connector is a frozen, picklable declaration. On the driver it is opened as a *feed*, which decides how far the next
train reaches (`advance`) and which splits lie between two positions. On a worker it reads a split into chunks. A
position is a JSON document: it is what the offset of a batch records, so `splits(start, end)` and `read(split)` must
give the same tuples whenever they are asked again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from penstock.algebra.error_records import REJECT_SCHEMA
from penstock.algebra.floors import Floors
from penstock.algebra.marks import NO_PAIRS, Ticks
from penstock.algebra.source import NO_SIDES, Pairs
from penstock.storage.folder import Folder

if TYPE_CHECKING:
    from penstock.algebra.expressions.bounds import Bounds

__all__ = [
    "REJECT_SCHEMA",
    "UNLIMITED",
    "Advance",
    "Chunk",
    "Connector",
    "Feed",
    "Journal",
    "Limit",
    "NeededRows",
    "Position",
    "Split",
    "row_bytes",
]

Position = Mapping[str, Any]
"""How far an input has been read: a JSON document of the connector's own shape."""


UNLIMITED: Final = 2**62
VARIABLE_BYTES: Final = 32  # what a string, a list or a struct is taken to need, where nobody knows better


@dataclass(frozen=True)
class Limit:
    """How long the next train may be: in rows, and in bytes of the `columns` that are read, once decoded.

    The number of rows is never exceeded. That of bytes is as good as what is known of texts, before they are read.
    """

    rows: int = UNLIMITED
    bytes: int = UNLIMITED
    columns: tuple[str, ...] | None = None
    """None stands for all of them."""


@dataclass(frozen=True)
class Advance:
    """Where the next train ends; `ended` when nothing can come after it.

    A scripted input may say what time it is, in microseconds since the epoch, in place of the machine's clock.
    """

    position: Position
    ended: bool = False
    clock: int | None = None
    rows: int = 0
    """What the train takes: exactly, if rows were limited."""
    bytes: int = 0


@dataclass(frozen=True)
class Split:
    """A part of one shard's data that one task reads. Connectors subclass it with what they need to find the data.

    `seq` grows along the shard for as long as the input lives, so (shard, seq) is arrival order.
    """

    shard: str
    seq: int
    rows: int
    """An estimate, to share splits out evenly."""

    @property
    def found_in(self) -> str | None:
        """What its records were found in, such as a file, for the error stream; None for the input itself."""
        return None


@dataclass(frozen=True)
class Chunk:
    """A piece of a split: decoded tuples, what could not be decoded, and punctuation found in the data."""

    tuples: pa.RecordBatch
    rejects: pa.RecordBatch | None = None
    stated: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Ticks that punctuation in the data states, by attribute."""
    arrived: pa.Array | None = None
    """The QoS timestamps of the tuples, of a connector that `brings_arrival`."""
    places: pa.Array | None = None
    """Its rows in order of arrival, counted from the chunk's first: those that share a place arrived at once, perhaps
    with the last of the chunk before. Without it they arrived one after the other."""
    joint: tuple[Ticks, Ticks] = NO_PAIRS
    """Joint marks that punctuation in the data states, by attributes of either side."""
    groups: pa.RecordBatch | None = None
    """Marks of groups that it states: a row for each, of the attributes of the groups and the progressing one."""


@dataclass(frozen=True)
class NeededRows:
    """The rows of an input that are of use to somebody. A connector may leave out others, if nobody can tell: tuples
    that are late, or have no progressing attribute of use, are to be told of."""

    bounds: Bounds
    progressing: tuple[str, ...]
    """The attributes on which the input makes progress. Its own punctuation tells how far, and no tuple does."""


class Journal(Protocol):
    """A durable, append-only list that a feed may keep beside the checkpoint (for example: files discovered)."""

    @abstractmethod
    def entries(self) -> list[dict[str, Any]]:
        """All entries, oldest first."""

    @abstractmethod
    def append(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Add entries; they are durable when this returns."""

    @property
    @abstractmethod
    def folder(self) -> Folder:
        """Where a feed may keep files of its own; they are durable once they are written."""


class Feed(Protocol):
    """The driver's side of an open input. Feeds derive from it: a member that one lacks is found when it is made."""

    @abstractmethod
    def start(self) -> Position:
        """The position before the first tuple."""

    @abstractmethod
    def advance(self, position: Position, limit: Limit) -> Advance:
        """The end of the next train: `position` itself when there is nothing new."""

    @abstractmethod
    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """What lies between two positions, in order of arrival. The same answer whenever it is asked."""

    def close(self) -> None:
        """Free what the feed holds; nothing, unless it says otherwise."""
        return


@runtime_checkable
class Connector(Protocol):
    """A declared input. Connectors derive from it, and say so where they are not what most of them are."""

    @property
    @abstractmethod
    def bounded(self) -> bool:
        """Whether the input ends by itself."""

    @property
    def in_sequence(self) -> bool:
        """Whether the splits of a shard in one batch have an order of arrival, which is that of their numbers."""
        return True

    @property
    def planned_elsewhere(self) -> bool:
        """Whether somebody else decides what a batch takes, so that the feed is not asked."""
        return False

    @property
    def more_shards(self) -> bool:
        """Whether shards may come that the declaration does not know of."""
        return False

    @property
    def brings_arrival(self) -> bool:
        """Whether its tuples have arrived before, and bring their QoS timestamps along."""
        return False

    @property
    def catches_up(self) -> bool:
        """Whether it is the past of an arc of the network, which ends where the arc goes on."""
        return False

    @property
    def past_of(self) -> str | None:
        """The connection point whose past it is, if it is one of the network itself."""
        return None

    @property
    def share(self) -> float:
        """How much of the time its batches may take, at most; less than all only where others must not wait for it."""
        return 1.0

    @property
    def piece_rows(self) -> int:
        """How many rows a piece of it has at most that may be read before its batch is planned; 0 if nothing is."""
        return 0

    @property
    def states(self) -> Sequence[str]:
        """The attributes that punctuation in the data is known to speak of."""
        return ()

    @property
    def falling(self) -> Sequence[str]:
        """Those of them that decrease."""
        return ()

    @property
    def pairs(self) -> Pairs:
        """The attributes of either side of joint punctuation in the data."""
        return NO_SIDES

    @property
    def group_marks(self) -> tuple[str, tuple[str, ...]] | None:
        """The progressing attribute and the groups of which punctuation in the data states marks; None if of none."""
        return None

    @property
    def punctuated(self) -> bool:
        """Whether that punctuation says all of its progress, so that nobody need declare how it progresses."""
        return False

    @property
    def tells(self) -> bool:
        """Whether those who write its data want to hear which of it is of no use."""
        return False

    def tell(self, floors: Floors, schema: pa.Schema, folder: Folder) -> bool:
        """On the driver, after a batch: say to those who write its data below which ticks tuples of this schema are of
        no use any more. `folder` is the input's own in the checkpoint. False if there is no place yet to say it."""
        return True

    def asking(self, columns: Collection[str]) -> Connector:
        """The input, told which columns are read: one that looks at its data beforehand looks at no others."""
        return self

    def coding(self, columns: frozenset[str]) -> Connector:
        """The input, told which columns of texts may come as codes of a dictionary: one that has them so gives them."""
        return self

    def in_order_of(self, on: str, *, descending: bool) -> Connector:
        """The input, told on what it makes progress: one that has no order of its own takes that one."""
        return self

    def needing(self, rows: NeededRows) -> Connector:
        """The input, told which of its rows are of use: one that can leave out others does."""
        return self

    def details(self) -> Sequence[str]:
        """More lines for explain, such as how much of the data is read."""
        return ()

    @abstractmethod
    def schema(self) -> pa.Schema | None:
        """The schema that the data itself shows, or None when the user must give one."""

    @abstractmethod
    def describe(self) -> str:
        """One phrase, for explain and errors."""

    @abstractmethod
    def shards(self) -> Sequence[str]:
        """The shards known from the declaration: their low-water mark holds windows back before they deliver."""

    @abstractmethod
    def open(self, schema: pa.Schema, journal: Journal) -> Feed:
        """Open the input on the driver."""

    @abstractmethod
    def read(self, split: Split, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        """Read one split on a worker: chunks of exactly `columns` (in that order) of `schema`.

        The rows of a split come in the same order and cut on every read, whatever columns are asked for. Threads of one
        process may read several splits at a time.
        """


def row_bytes(schema: pa.Schema, columns: Sequence[str] | None, texts: Mapping[str, float] | None = None) -> float:
    """What a row takes up in some columns, or in all of them; `texts` says what is known of those of no fixed width."""
    known = texts or {}
    names = schema.names if columns is None else [name for name in columns if name in schema.names]
    return max(1.0, sum(known.get(name, fixed_width(schema.field(name).type) or VARIABLE_BYTES) for name in names))


def fixed_width(kind: pa.DataType) -> int | None:
    """The bytes of a value, where all values of a type have as many."""
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return None
