"""The offset of a batch: everything that decides what the batch does, and how it is written down.

The same offsets give the same rows, whoever reads them again, so nothing that changes an answer may be anywhere else.
The local executor writes the offset itself; Spark writes a version, a line of its own, and a line for each of its
sources, of which the intake is one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from penstock.algebra.floors import Floors
from penstock.algebra.marks import Marks
from penstock.algebra.network import Network
from penstock.connectors.connector import Position
from penstock.errors import WorldError
from penstock.progress.extremes import Extremes
from penstock.progress.issued import Issued
from penstock.runtime.formats import refuse_other, refusing_other_forms
from penstock.storage.sealed import RESTORE

FORMAT: Final = 2
"""How offsets are written. Another one is refused."""
WITH_FLOORS: Final = 3
"""How those are written that say what is left out: who does not know of it would read more."""
WITH_PIECES: Final = 4
"""How those are written that take pieces of a history: who does not know of them would put sums together otherwise."""

Stated = Mapping[str, Mapping[str, Marks]]
"""What shards state, by input and shard."""
Said = Sequence[tuple[str, str, str, Marks]]
"""What is said in the place of silent shards: kind, input, shard and marks."""
Left = Mapping[str, Mapping[str, int]]
"""The clock readings at which shards leave, by input and shard."""


@dataclass(frozen=True)
class InputAt:
    """How far an input has been read, and whether it has ended there."""

    position: Position
    ended: bool = False


@dataclass(frozen=True)
class Size:
    """What a batch reads at most."""

    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Offset:
    """Where a batch ends, and what it is told."""

    inputs: Mapping[str, InputAt]
    shards: Mapping[str, Sequence[str]]
    """The shards that each input was declared with: they hold windows back before they deliver anything."""
    tasks: int
    now: int = 0
    """The clock reading of the batch, in microseconds since the epoch."""
    version: int = 1
    """The version of the network that the batch runs."""
    issued: Mapping[str, Issued] = field(default_factory=dict)
    """What each input had stated before the batch: what is below it is late."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """The version of every static table, by the name of its box."""
    requests: int = 0
    """How many requests to close a shard have been heard."""
    beats: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The clock reading of the last heartbeat, by input and shard."""
    gone: bool = False
    """Whether shards have ever left: from then on somebody may wait for an input that nobody speaks for."""
    began: int | None = None
    """The first clock reading of a script, where shards may be overdue."""
    size: Size | None = None
    """Of this batch alone, as all that follows. None if nobody knows."""
    stated: Stated = field(default_factory=dict)
    """What is said in the place of silent shards."""
    said: Said = ()
    left: Left = field(default_factory=dict)
    """The shards that leave."""
    starts: Mapping[str, Position] = field(default_factory=dict)
    """Where inputs begin that a new version of the network has brought."""
    known: Mapping[str, Mapping[str, Extremes]] = field(default_factory=dict)
    """What all shards have delivered up to here, for the stages of a new version of the network."""
    floors: Mapping[str, Floors] = field(default_factory=dict)
    """The ticks below which tuples of an input are left out, because they are of no use any more."""
    box_floors: Mapping[str, Sequence[Floors]] = field(default_factory=dict)
    """The same for each stream that enters a box, by the box's name: it lets go of what it holds of such tuples."""
    pieces: Mapping[str, Sequence[Position]] = field(default_factory=dict)
    """Where the pieces of histories end that the batch takes: each of them is read by itself."""

    def to_json(self) -> dict[str, Any]:
        """A JSON document; what says nothing is left out.

        >>> Offset({"in": InputAt({"at": 3})}, {"in": ("0",)}, 2).to_json()
        {'format': 2, 'inputs': {'in': {'position': {'at': 3}, 'ended': False}}, 'shards': {'in': ['0']}, 'tasks': 2}
        """
        told: dict[str, Any] = {
            "inputs": {name: {"position": at.position, "ended": at.ended} for name, at in self.inputs.items()},
            "shards": {name: list(shards) for name, shards in self.shards.items()},
            "tasks": self.tasks,
        }
        others = {
            "now": self.now,
            "version": self.version if self.version != 1 else 0,
            "issued": {name: issued.to_json() for name, issued in self.issued.items()},
            "tables": dict(self.tables),
            "requests": self.requests,
            "beats": self.beats,
            "gone": self.gone,
            "size": None if self.size is None else {"rows": self.size.rows, "bytes": self.size.bytes},
            "stated": {
                name: {shard: marks.to_json() for shard, marks in shards.items()}
                for name, shards in self.stated.items()
            },
            "said": write_said(self.said),
            "left": self.left,
            "starts": self.starts,
            "known": {
                name: {shard: seen.to_json() for shard, seen in shards.items()} for name, shards in self.known.items()
            },
            "floors": {name: dict(floors) for name, floors in self.floors.items()},
            "box_floors": {name: [dict(floors) for floors in each] for name, each in self.box_floors.items()},
            "pieces": {name: list(ends) for name, ends in self.pieces.items()},
        }
        began = {} if self.began is None else {"began": self.began}
        return {
            "format": _format(self.floors or self.box_floors, self.pieces),
            **told,
            **{name: value for name, value in others.items() if value},
            **began,
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Offset:
        floors = document.get("floors") or document.get("box_floors")
        refuse_other("an offset", document, _format(floors, document.get("pieces")))
        told = {each.name: document[each.name] for each in fields(Offset) if each.name in document}
        with refusing_other_forms("an offset"):
            return Offset(
                **{
                    **told,
                    "inputs": {name: InputAt(**at) for name, at in document["inputs"].items()},
                    "shards": {name: tuple(shards) for name, shards in document["shards"].items()},
                    "issued": {name: Issued.from_json(issued) for name, issued in document.get("issued", {}).items()},
                    "size": Size(**document["size"]) if document.get("size") else None,
                    "stated": {
                        name: {shard: Marks.from_json(marks) for shard, marks in shards.items()}
                        for name, shards in document.get("stated", {}).items()
                    },
                    "said": read_said(document.get("said", ())),
                    "known": {
                        name: {shard: Extremes.from_json(seen) for shard, seen in shards.items()}
                        for name, shards in document.get("known", {}).items()
                    },
                    "box_floors": {name: tuple(each) for name, each in document.get("box_floors", {}).items()},
                }
            )


def _format(floors: object, pieces: object) -> int:
    return WITH_PIECES if pieces else WITH_FLOORS if floors else FORMAT


def write_said(said: Said) -> list[list[Any]]:
    """What is said in the place of silent shards, as JSON."""
    return [[kind, name, shard, marks.to_json()] for kind, name, shard, marks in said]


def read_said(document: Sequence[Sequence[Any]]) -> Said:
    """What is said in the place of silent shards, from JSON."""
    return tuple((kind, name, shard, Marks.from_json(marks)) for kind, name, shard, marks in document)


def histories_read(network: Network, offset: Offset) -> tuple[str, ...]:
    """The histories that have been read to their end: from this batch on, their arcs go on."""
    catching = [source.name for source in network.sources if source.connector.catches_up]
    return tuple(name for name in catching if offset.inputs[name].ended)


def offset_text(offset: Offset) -> str:
    """An offset as the local executor writes it."""
    return json.dumps(offset.to_json())


def intake_offset(text: str) -> Offset:
    """The intake's offset in the text of a batch.

    >>> text = 'v1\\n{"batchWatermarkMs": 0}\\n{"format": 2, "inputs": {}, "shards": {}, "tasks": 1, "now": 3}'
    >>> intake_offset(text).now
    3
    """
    for line in text.splitlines():
        if line.startswith("{"):
            document = json.loads(line)
            if "inputs" in document:
                return Offset.from_json(document)
    raise WorldError("an offset does not say how far the inputs were read", found=text[:200], hint=RESTORE)


def is_local(text: str) -> bool:
    """Whether the local executor wrote it."""
    return text.startswith("{")


def digest(offset: Offset) -> str:
    """What an offset comes to: the same for the same plan of a batch, whoever wrote it down.

    >>> offset = Offset({"in": InputAt({"at": 3})}, {"in": ("0",)}, 2)
    >>> digest(offset) == digest(intake_offset(offset_text(offset)))
    True
    """
    return hashlib.blake2b(json.dumps(offset.to_json(), sort_keys=True).encode(), digest_size=8).hexdigest()
