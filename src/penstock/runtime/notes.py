"""Notes: rows without tuples. What tasks tell a stage, and what they report to the outlet.

```
 intake ── Note: shards, control ──> stage 1 ── Note: marks ──> stage 2 ...
   └────── Report ───────────────────> outlet <── Report ────────┘
```

A note travels as a JSON document in the header of its row, and only this module reads and writes it. What says nothing
is left out, and is read as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from penstock.algebra.joint_punctuation import Way, read_ways, write_ways
from penstock.algebra.marks import Marks
from penstock.connectors.targets.target import Receipt
from penstock.progress.disorder import Stretch
from penstock.progress.extremes import Extremes
from penstock.progress.shards import read_shards, write_shards
from penstock.runtime.control import Control
from penstock.runtime.formats import refuse_other
from penstock.runtime.offsets import Said, read_said, write_said
from penstock.runtime.refusals import Refusals
from penstock.runtime.traces import Moment
from penstock.runtime.train import OUTLET, Row, note_row
from penstock.runtime.work import BoxWork, InputCount

FORMAT: Final = 2
"""How notes are written. Another one is refused."""

T = TypeVar("T")


@dataclass(frozen=True)
class Note:
    """What a task tells a stage."""

    sender: str
    shards: Mapping[str, Mapping[str, Extremes]] = field(default_factory=dict)
    """What it has seen of shards in this batch, by input and shard."""
    known: Mapping[str, Mapping[str, Extremes]] = field(default_factory=dict)
    """What all shards had delivered before, for the stages of a new version of the network."""
    control: Control | None = None
    """What the offset says of the batch."""
    marks: Mapping[str, Marks] = field(default_factory=dict)
    """The low-water marks of boxes before the stage, by the box's name."""

    def rows(self, stage: int, buckets: int) -> Iterator[Row]:
        """One row for each bucket of a stage."""
        document = self.to_json()
        return (note_row(stage, bucket, self.sender, document) for bucket in range(buckets))

    @staticmethod
    def from_row(row: Row) -> Note:
        return Note.from_json(row.sender, row.document)

    def to_json(self) -> dict[str, Any]:
        """A JSON document; the header of its row names the sender.

        >>> Note("stage 1 bucket 0000", marks={"counts": Marks({"ts": 5})}).to_json()
        {'format': 2, 'marks': {'counts': {'rising': {'ts': 5}}}}
        """
        return _saying(
            shards=_each(write_shards, self.shards),
            known=_each(write_shards, self.known),
            control=None if self.control is None else self.control.to_json(),
            marks=_each(Marks.to_json, self.marks),
        )

    @staticmethod
    def from_json(sender: str, document: Mapping[str, Any]) -> Note:
        refuse_other("a note to a stage", document, FORMAT)
        return Note(
            sender,
            _each(read_shards, document.get("shards", {})),
            _each(read_shards, document.get("known", {})),
            Control.from_json(document["control"]) if "control" in document else None,
            _each(Marks.from_json, document.get("marks", {})),
        )


@dataclass(frozen=True)
class Report:
    """What a task of the intake, or a bucket of a stage, tells the outlet of a batch."""

    sender: str
    now: int = 0
    """The clock reading of the batch."""
    shards: Mapping[str, Mapping[str, Extremes]] = field(default_factory=dict)
    """What it has seen of shards, by input and shard."""
    inputs: Mapping[str, InputCount] = field(default_factory=dict)
    refusals: Mapping[str, Refusals] = field(default_factory=dict)
    disorder: Mapping[str, Mapping[str, Mapping[str, Stretch]]] = field(default_factory=dict)
    """How far tuples were behind, by input, shard and attribute."""
    said: Said = ()
    """What was said in the place of silent inputs."""
    boxes: Mapping[str, BoxWork] = field(default_factory=dict)
    bucket: int = 0
    marks: Mapping[str, Marks] = field(default_factory=dict)
    """The low-water marks that its boxes have reached in its bucket, by the box's name."""
    wake: int | None = None
    """The clock reading at which a box wants to be run even if nothing arrives."""
    needs: Mapping[str, Sequence[tuple[int, str, int]]] = field(default_factory=dict)
    """What boxes wait for: (input, attribute, tick), by the box's name."""
    ways: Mapping[str, Sequence[Way]] = field(default_factory=dict)
    """Other ways to release them."""
    behind: Mapping[str, str] = field(default_factory=dict)
    """Which part of the input of a box is furthest behind, in words."""
    hops: Mapping[str, Moment] = field(default_factory=dict)
    """When the batch came to a place and when it left."""
    receipts: Mapping[str, Sequence[Receipt]] = field(default_factory=dict)
    """What was staged for each output."""

    def row(self, bucket: int) -> Row:
        """The row for the outlet, which takes the way of a bucket."""
        return note_row(OUTLET, bucket, self.sender, self.to_json())

    @staticmethod
    def from_row(row: Row) -> Report:
        return Report.from_json(row.sender, row.document)

    def to_json(self) -> dict[str, Any]:
        """A JSON document; the header of its row names the sender.

        >>> Report("intake 0000", now=7, inputs={"in": InputCount(read=3, taken=3)}).to_json()["now"]
        7
        """
        return _saying(
            now=self.now,
            shards=_each(write_shards, self.shards),
            inputs=_each(InputCount.to_json, self.inputs),
            refusals=_each(Refusals.to_json, self.refusals),
            disorder=_each(_write_stretches, self.disorder),
            said=write_said(self.said),
            boxes=_each(BoxWork.to_json, self.boxes),
            bucket=self.bucket,
            marks=_each(Marks.to_json, self.marks),
            wake=self.wake,
            needs=self.needs,
            ways=_each(write_ways, self.ways),
            behind=self.behind,
            hops=self.hops,
            receipts=_each(_write_receipts, self.receipts),
        )

    @staticmethod
    def from_json(sender: str, document: Mapping[str, Any]) -> Report:
        refuse_other("a report to the outlet", document, FORMAT)
        return Report(
            sender,
            document.get("now", 0),
            _each(read_shards, document.get("shards", {})),
            _each(InputCount.from_json, document.get("inputs", {})),
            _each(Refusals.from_json, document.get("refusals", {})),
            _each(_read_stretches, document.get("disorder", {})),
            read_said(document.get("said", ())),
            _each(BoxWork.from_json, document.get("boxes", {})),
            document.get("bucket", 0),
            _each(Marks.from_json, document.get("marks", {})),
            document.get("wake"),
            _each(_read_needs, document.get("needs", {})),
            _each(read_ways, document.get("ways", {})),
            document.get("behind", {}),
            _each(_read_moment, document.get("hops", {})),
            _each(_read_receipts, document.get("receipts", {})),
        )


def _saying(**told: Any) -> dict[str, Any]:
    """A document of what says anything; a number always does."""
    return {"format": FORMAT, **{name: value for name, value in told.items() if value or isinstance(value, int)}}


def _each(change: Callable[[Any], T], values: Mapping[str, Any]) -> dict[str, T]:
    return {name: change(value) for name, value in values.items()}


def _write_stretches(shards: Mapping[str, Mapping[str, Stretch]]) -> dict[str, dict[str, Any]]:
    return {shard: _each(Stretch.to_json, seen) for shard, seen in shards.items()}


def _read_stretches(shards: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Stretch]]:
    return {shard: _each(Stretch.from_json, seen) for shard, seen in shards.items()}


def _read_needs(needs: Sequence[Sequence[Any]]) -> list[tuple[int, str, int]]:
    return [(slot, attribute, tick) for slot, attribute, tick in needs]


def _read_moment(moment: Sequence[int]) -> Moment:
    arrived, left = moment
    return arrived, left


def _write_receipts(receipts: Sequence[Receipt]) -> list[dict[str, Any]]:
    return [receipt.to_json() for receipt in receipts]


def _read_receipts(receipts: Sequence[Mapping[str, Any]]) -> list[Receipt]:
    return [Receipt.from_json(receipt) for receipt in receipts]
