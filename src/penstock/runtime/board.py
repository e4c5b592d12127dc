"""The board: one record per batch of how far everything has come.

The outlet posts it when a batch is committed; the intake reads it when it plans the next one, and so do `status()`,
`progress()` and the summary of a run. Record n follows from record n - 1 and the reports of batch n alone.

A record carries the offset of its batch, so that the engine's own log of offsets can be made anew from the board. Where
a batch is about to show outside of the checkpoint, its offset is posted before that, by itself: from then on the batch
can only be done again as it was planned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.algebra.joint_punctuation import Way, read_ways, write_ways
from penstock.algebra.marks import Mark, Marks
from penstock.algebra.source import Source
from penstock.errors import WorldError
from penstock.progress.disorder import Disorder
from penstock.progress.extremes import Extremes
from penstock.progress.issued import Issued, issued_by
from penstock.progress.shards import read_shards, write_shards
from penstock.runtime.refusals import Refusals
from penstock.runtime.traces import Trace
from penstock.runtime.work import BoxWork, InputCount
from penstock.storage.folder import Folder
from penstock.storage.sealed import RESTORE, read_sealed, write_sealed

_SUFFIX: Final = ".json"
_OFFSET: Final = ".offset"
KEEP_RECORDS: Final = 16
"""Records kept behind the newest: a replay asks for the one before the batch, people look at a few more."""


@dataclass(frozen=True)
class Need:
    """What a box waits for: the low-water mark of `attribute` at its input number `slot` must reach `tick`."""

    box: str
    slot: int
    attribute: str
    tick: int
    held: int
    """Rows that the box holds: tuples or partial aggregates."""
    since: int
    """The clock reading, in microseconds since the epoch, of the batch in which it began to wait for this."""
    jointly: Sequence[Way] = ()
    """Ticks of joint marks that release something of it, too."""

    @property
    def ways(self) -> list[Way]:
        """All that releases it, or something of it; the shortest first."""
        return [*self.jointly, {Mark(self.attribute): self.tick}]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "jointly": write_ways(self.jointly)}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Need:
        return Need(**{**document, "jointly": read_ways(document["jointly"])})


@dataclass(frozen=True)
class Record:
    """How far everything has come after a batch."""

    batch: int = -1
    shards: Mapping[str, Mapping[str, Extremes]] = field(default_factory=dict)
    """What each shard of each input has delivered."""
    marks: Mapping[str, Marks] = field(default_factory=dict)
    """The low-water marks of every port."""
    buckets: Mapping[str, Mapping[str, Marks]] = field(default_factory=dict)
    """The low-water marks of ports that leave a stage, by port and bucket."""
    inputs: Mapping[str, InputCount] = field(default_factory=dict)
    boxes: Mapping[str, BoxWork] = field(default_factory=dict)
    """Work of every box since the start; held rows and open windows as they are now."""
    outputs: Mapping[str, int] = field(default_factory=dict)
    """Tuples that left by each output since the start."""
    wake: int | None = None
    """The clock reading, in microseconds since the epoch, at which a box wants to be run even if nothing arrives."""
    waiting: Sequence[Need] = ()
    """What boxes wait for."""
    now: int = 0
    """The clock reading of the batch."""
    began: int = 0
    """The clock reading of the first batch."""
    behind: Mapping[str, str] = field(default_factory=dict)
    """Which part of the input of a box is furthest behind, in words."""
    traces: Sequence[Trace] = ()
    """What was said in this batch in the place of silent inputs, and its way."""
    epoch: int = 0
    """Which holder of the checkpoint posted it."""
    offset: str = ""
    """The offset of the batch, as the engine's log has it."""
    digest: str = ""
    """What the intake's part of that offset comes to: state that was made for another one does not fit."""
    committed: Mapping[str, int] = field(default_factory=dict)
    """The last batch that shows at the target of each output."""
    refusals: Mapping[str, Refusals] = field(default_factory=dict)
    """Why records of each input were refused."""
    disorder: Mapping[str, Mapping[str, Disorder]] = field(default_factory=dict)
    """How far tuples were behind, by input and progressing attribute."""
    version: int = 1
    """The version of the network that the batch ran."""

    @property
    def ended(self) -> bool:
        """Whether every shard of every input has ended."""
        return bool(self.shards) and all(s.ended for shards in self.shards.values() for s in shards.values())

    def issued(self, source: Source) -> Issued:
        """What an input and each of its open shards have stated."""
        return issued_by(source, self.shards.get(source.name, {}))

    def with_inputs(self, sources: Iterable[Source]) -> Record:
        """The same, with zeros for inputs of which no batch has brought anything yet."""
        return replace(self, inputs={**{s.name: InputCount() for s in sources}, **self.inputs})

    def to_json(self) -> dict[str, Any]:
        """A JSON document; the seal of its file names the format (`storage/sealed.py`)."""
        return {
            **vars(self),
            "shards": {name: write_shards(shards) for name, shards in self.shards.items()},
            "marks": {port: marks.to_json() for port, marks in self.marks.items()},
            "buckets": {
                port: {bucket: marks.to_json() for bucket, marks in by_bucket.items()}
                for port, by_bucket in self.buckets.items()
            },
            "inputs": {name: count.to_json() for name, count in self.inputs.items()},
            "boxes": {name: work.to_json() for name, work in self.boxes.items()},
            "waiting": [need.to_json() for need in self.waiting],
            "traces": [trace.to_json() for trace in self.traces],
            "refusals": {name: refused.to_json() for name, refused in self.refusals.items()},
            "disorder": {
                name: {attribute: seen.to_json() for attribute, seen in of_input.items()}
                for name, of_input in self.disorder.items()
            },
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Record:
        return Record(
            document["batch"],
            {name: read_shards(shards) for name, shards in document["shards"].items()},
            {port: Marks.from_json(marks) for port, marks in document["marks"].items()},
            {
                port: {bucket: Marks.from_json(marks) for bucket, marks in by_bucket.items()}
                for port, by_bucket in document["buckets"].items()
            },
            {name: InputCount.from_json(c) for name, c in document["inputs"].items()},
            {name: BoxWork.from_json(w) for name, w in document["boxes"].items()},
            document["outputs"],
            document.get("wake"),
            tuple(Need.from_json(need) for need in document.get("waiting", ())),
            document.get("now", 0),
            document.get("began", 0),
            document.get("behind", {}),
            tuple(Trace.from_json(trace) for trace in document.get("traces", ())),
            document["epoch"],
            document["offset"],
            document["digest"],
            document["committed"],
            {name: Refusals.from_json(told) for name, told in document.get("refusals", {}).items()},
            {
                name: {attribute: Disorder.from_json(seen) for attribute, seen in of_input.items()}
                for name, of_input in document.get("disorder", {}).items()
            },
            document.get("version", 1),
        )


class Board:
    """The records of a run, in a folder of its checkpoint.

    The name of a file tells the batch and the epoch of its writer, and the newest epoch counts: what a process that has
    lost the checkpoint still writes, because it was stopped in the middle of it, stands beside what is true.
    """

    def __init__(self, folder: Folder, epoch: int = 0) -> None:
        self._folder = folder
        self._epoch = epoch
        self._told: tuple[int, str] | None = None
        """The batch whose offset was posted last."""

    def post(self, record: Record) -> None:
        write_sealed(self._folder, self._name(record.batch, _SUFFIX), record.to_json())
        for suffix in (_SUFFIX, _OFFSET):
            kept = self._files(suffix).items()
            old = [name for batch, names in kept if batch <= record.batch - KEEP_RECORDS for name in names]
            self._folder.forget(old)

    def post_offset(self, batch: int, offset: str) -> None:
        """Say how a batch was planned, before it shows anywhere."""
        if self._told == (batch, offset):
            return
        planned = self.planned_as(batch)
        if planned is None:
            write_sealed(self._folder, self._name(batch, _OFFSET), {"batch": batch, "offset": offset})
        elif planned == offset:
            # Whoever said it may have been ended before it was synced.
            if self._folder.lasting:
                self._folder.sync(self._files(_OFFSET)[batch][-1])
        else:
            raise WorldError(
                f"batch {batch} was planned in another way before, and may have shown outside",
                expected=planned,
                found=offset,
                hint="start the run again: it does the batch as it was planned first",
            )
        self._told = (batch, offset)

    def offset(self, batch: int) -> str | None:
        """How a batch was planned, if anything says so: the record of the batch, or what was posted before it."""
        return self.at(batch).offset if batch in self._files(_SUFFIX) else self.planned_as(batch)

    def keep_plan(self, batch: int, offset: str) -> None:
        """Say how a batch was planned that is to be done again, whatever is left of what was said before."""
        with contextlib.suppress(WorldError):
            if self.planned_as(batch) == offset:
                return
        write_sealed(self._folder, self._name(batch, _OFFSET), {"batch": batch, "offset": offset})

    def forget_after(self, batch: int) -> None:
        """Take back the records behind a batch to which a run has gone back."""
        for later, names in self._files(_SUFFIX).items():
            if later > batch:
                self._delete(names)

    def at(self, batch: int) -> Record:
        """The record after a batch; an empty one before the first."""
        if batch < 0:
            return Record()
        names = self._files(_SUFFIX).get(batch)
        if not names:
            raise WorldError(f"the record of batch {batch} is missing in {self._folder.path}", hint=RESTORE)
        return Record.from_json(read_sealed(self._folder, names[-1]))

    def latest(self) -> Record:
        return self.at(self.newest())

    def recent(self) -> list[Record]:
        """The records that are kept, oldest first."""
        found = []
        for batch in self.batches():
            try:
                found.append(self.at(batch))
            except WorldError:
                if batch in self.batches():
                    raise
                # The run has gone on since, perhaps in another process, and has forgotten it.
        return found

    def newest(self) -> int:
        """The last batch that was posted; -1 before the first."""
        return max(self._files(_SUFFIX), default=-1)

    def batches(self) -> list[int]:
        """The batches of which there are records, oldest first."""
        return _kept(records := self._files(_SUFFIX), max(records, default=-1))

    def planned(self) -> list[int]:
        """The batches that are known to have been planned, but have no record."""
        records = self._files(_SUFFIX)
        return _kept(self._files(_OFFSET).keys() - records.keys(), max(records, default=-1))

    def forget_unreadable_plans(self) -> None:
        """Take back what was said of batches without a record, where it cannot be read.

        It is synced before a batch shows anywhere, so that it is damaged means that nothing has shown; where something
        has damaged it since, the targets tell that they are ahead.
        """
        for batch in self.planned():
            for name in self._files(_OFFSET)[batch]:
                try:
                    read_sealed(self._folder, name)
                except WorldError:
                    self._delete([name])

    def planned_as(self, batch: int) -> str | None:
        """How a batch was said to be planned before it showed anywhere."""
        names = self._files(_OFFSET).get(batch)
        return str(read_sealed(self._folder, names[-1])["offset"]) if names else None

    def _name(self, batch: int, suffix: str) -> str:
        return f"{batch:08d}-{self._epoch:06d}{suffix}"

    def _files(self, suffix: str) -> dict[int, list[str]]:
        """The files of every batch, those of the newest epoch last."""
        found: dict[int, list[str]] = {}
        for name in self._folder.names():
            if name.endswith(suffix):
                found.setdefault(int(name.split("-")[0]), []).append(name)
        return found

    def _delete(self, names: Sequence[str]) -> None:
        for name in names:
            self._folder.delete(name)


def _kept(batches: Iterable[int], newest: int) -> list[int]:
    """Without those that are about to be forgotten, of which files may be left."""
    return sorted(batch for batch in batches if batch > newest - KEEP_RECORDS)
