"""Where the tuples of an output go, and how they get there exactly once.

```
 worker:  stage(batch, part, tuples) ──> a file that readers do not see yet ──> receipt ─┐
 driver:  commit(batch, receipts)    <───────────────────────────────────────────────────┘  makes the batch visible
```

A batch may be staged again, with the same tuples, and committed again, after a crash between the target's commit and
Spark's own. So names follow from (batch, part), and a target knows the last batch it has committed. That lies at the
target itself: when a run starts, what it says is compared with the run's own record, and a target that was deleted, or
is ahead of a checkpoint that was restored from a copy, is noticed. `scratch` is a folder of the run's checkpoint that
belongs to one output alone: what must survive a restart lies there, among it the *writer*, the identity under which the
target knows this output of this run. It also says whether a power cut must be survived (`Folder.lasting`).
"""

from __future__ import annotations

import base64
import uuid
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Protocol

import pyarrow as pa

from penstock.algebra.floors import NO_FLOORS, Floors
from penstock.algebra.marks import UNKNOWN, Mark, Marks
from penstock.algebra.ticks import END
from penstock.errors import InternalError, QueryError, WorldError
from penstock.storage.folder import Folder
from penstock.storage.sealed import checksum, damaged, read_sealed, write_sealed

Mode = Literal["new", "append"]
"""Whether a run may add to what others have written to the place before it started, or refuses to."""

_WRITER: Final = "writer.json"
PART: Final = "part-"
"""How the names of staged parts begin."""


@dataclass(frozen=True)
class StagedFile:
    """One file of a staged part. `partition` and `stats` are for targets that keep a log of their files."""

    name: str
    rows: int
    bytes: int
    partition: tuple[tuple[str, str | None], ...] = ()
    stats: str = ""
    crc: int = 0
    """The checksum of a file that the driver reads again."""


@dataclass(frozen=True)
class Receipt:
    """What a worker has staged of one part of a batch."""

    batch: int
    part: int
    files: tuple[StagedFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """A JSON document.

        >>> receipt = Receipt(3, 0, (StagedFile("a", 1, 9),))
        >>> Receipt.from_json(receipt.to_json()) == receipt
        True
        """
        return {"batch": self.batch, "part": self.part, "files": [dict(vars(file)) for file in self.files]}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Receipt:
        files = (
            StagedFile(**{**file, "partition": tuple((column, value) for column, value in file["partition"])})
            for file in document["files"]
        )
        return Receipt(document["batch"], document["part"], tuple(files))


@dataclass(frozen=True)
class OutputProgress:
    """How far the stream of an output has come: its low-water marks before a batch and after it, in ticks of the types
    that `schema` has."""

    before: Marks = UNKNOWN
    after: Marks = UNKNOWN
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    now: int = 0
    """The clock reading of the batch, in microseconds since the epoch."""

    @property
    def ended(self) -> bool:
        """Whether nothing will follow."""
        return bool(self.after.ticks()) and all(tick == END for tick in self.after.ticks().values())

    def moved(self) -> dict[Mark, tuple[int, int]]:
        """The marks that the batch has moved: from where, and to where."""
        former = {mark: self.before.of(mark) for mark in self.after.ticks()}
        return {mark: (former[mark], tick) for mark, tick in self.after.ticks().items() if tick > former[mark]}


SILENT: Final = OutputProgress()
"""An output of which nothing is known but its tuples."""


class OpenPart(Protocol):
    """A part of a batch that takes its tuples piece by piece."""

    @abstractmethod
    def add(self, tuples: pa.Table) -> None:
        """Take the next of them."""

    @abstractmethod
    def done(self) -> Receipt | None:
        """Write the part where readers do not see it yet, as `stage` does."""


class Target(Protocol):
    """A declared place for the tuples of an output; frozen and picklable."""

    @property
    @abstractmethod
    def outside(self) -> bool:
        """Whether what is committed there lives apart from the checkpoint, so that a replay must be the same batch."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """The hidden columns that are written with the tuples, behind those that queries see."""
        return ()

    @property
    def revises(self) -> bool:
        """Whether it shows the events of a temporal stream as they are, instead of its elements."""
        return False

    @property
    def heeds(self) -> bool:
        """Whether readers of the place are asked what is of no use to them."""
        return False

    @property
    def states_pairs(self) -> bool:
        """Whether it keeps joint marks of its stream, for those who read it."""
        return False

    def heard(self, schema: pa.Schema) -> Floors:
        """On the driver, before a batch: below which ticks tuples of this schema are of no use to any reader."""
        return NO_FLOORS

    def placed(self, inside: Folder) -> Target:
        """The target, for a run that has a folder for it in its checkpoint; itself, unless it lies there."""
        return self

    def keeping_groups(self, on: str, groups: tuple[str, ...]) -> Target:
        """The target, told that its stream has a mark of `on` for each group: one that keeps such marks says so."""
        return self

    @property
    def keeps_groups(self) -> bool:
        """Whether it takes marks of groups."""
        return False

    def stage_groups(self, batch: int, part: int, marks: pa.Table, scratch: Folder) -> Sequence[StagedFile]:
        """On a worker: write marks of groups where readers do not see them yet."""
        return ()

    @abstractmethod
    def check(self, name: str, schema: pa.Schema, scratch: Folder) -> None:
        """On the driver, whenever the run starts: enrol the output `name` in `scratch`, and refuse a place that
        cannot be written, or whose existing schema does not fit."""

    @abstractmethod
    def stage(self, batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
        """On a worker: write this part where readers do not see it yet; None if it has no tuples."""

    def opened(self, batch: int, part: int, scratch: Folder) -> OpenPart | None:
        """On a worker: the same part, for tuples that come piece by piece; None if all of them are needed at once."""
        return None

    def shows(self, receipts: Sequence[Receipt], progress: OutputProgress) -> bool:
        """Whether a batch shows at the place: one without tuples does not, unless its punctuation does."""
        return bool(receipts)

    @abstractmethod
    def commit(
        self, batch: int, receipts: Sequence[Receipt], scratch: Folder, progress: OutputProgress = SILENT
    ) -> None:
        """On the driver, in batch order: make the parts of a batch visible, and its punctuation, where the place has
        room for that. A repeated call does nothing."""

    def upkeep(self, batch: int, scratch: Folder, progress: OutputProgress) -> Callable[[int | None], None] | None:
        """On the driver, once a batch is done: work at the place that may be done beside the run, if there is any. It
        is told how many bytes it may add, None for any number. It changes no tuple that readers shall see, may be left
        out, and may be cut short anywhere."""
        return None

    @abstractmethod
    def last_committed(self, scratch: Folder) -> int:
        """On the driver, when a run starts: the last batch that shows there; -1 if there is none."""

    @abstractmethod
    def describe(self) -> str:
        """One phrase, for explain and status."""


@dataclass(frozen=True)
class Writer:
    """Who writes: one output of one run. The token is unique to the checkpoint and survives restarts."""

    token: str
    output: str


def enrol(name: str, schema: pa.Schema, scratch: Folder, place: str = "") -> bool:
    """Give the output its writer, unless it has one; True on the first start of the checkpoint.

    The token is drawn, not derived from a path: a checkpoint that was deleted and begun anew at the same place is
    another run, whose batches start at 0 again and must not pass for replays.
    """
    if is_enrolled(scratch):
        return False
    shape = base64.b64encode(schema.serialize()).decode()
    known = {**asdict(Writer(uuid.uuid4().hex[:12], name)), "schema": shape, "place": place, "since": -1}
    write_sealed(scratch, _WRITER, known)
    return True


def is_enrolled(scratch: Folder) -> bool:
    """Whether this checkpoint has started before."""
    return scratch.exists(_WRITER)


def writer(scratch: Folder) -> Writer:
    """The identity that `enrol` gave."""
    document = _enrolled(scratch)
    return Writer(document["token"], document["output"])


def enrolled_schema(scratch: Folder) -> pa.Schema:
    """The schema of the output's tuples when it was enrolled."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(_enrolled(scratch)["schema"])))


def enrolled_place(scratch: Folder) -> tuple[str, int]:
    """Where the output goes, in words, and since which batch."""
    known = _enrolled(scratch)
    return known["place"], known["since"]


def move_place(scratch: Folder, place: str, since: int) -> None:
    """The output goes to another place from now on."""
    write_sealed(scratch, _WRITER, {**_enrolled(scratch), "place": place, "since": since})


def _enrolled(scratch: Folder) -> dict[str, Any]:
    if not is_enrolled(scratch):
        raise InternalError(f"the output of {scratch.path} was not checked before its first batch")
    return read_sealed(scratch, _WRITER)


@dataclass(frozen=True)
class Markers:
    """Which batch was committed last, as files in a folder: the name tells the batch, the content that it is whole."""

    folder: Folder
    prefix: str = "committed-"

    def last(self) -> int:
        """The last batch that was marked; -1 if there is none."""
        names = self._names()
        return self._batch(names[-1]) if names else -1

    def put(self, batch: int) -> None:
        """Remember that everything up to this batch is visible."""
        # A new name each time: replacing a file makes ext4 flush it, which took three times as long.
        older = self._names()
        write_sealed(self.folder, f"{self.prefix}{batch:08d}", {"batch": batch})
        # Never a newer one: this may be a process that was stopped here while another one took over.
        self.folder.forget([name for name in older if int(name.removeprefix(self.prefix)) < batch])

    def secure(self) -> None:
        """Make sure that what was marked lasts: whoever marked it may have been ended just then."""
        if self.folder.lasting:
            for name in self._names()[-1:]:
                self.folder.sync(name)

    def _names(self) -> list[str]:
        return [name for name in self.folder.names() if name.startswith(self.prefix)]

    def _batch(self, name: str) -> int:
        batch = int(name.removeprefix(self.prefix))
        try:
            found = read_sealed(self.folder, name).get("batch")
        except WorldError as error:
            error.hint = f"if batch {batch} was delivered, write the marker again; if not, delete it"
            raise
        if found != batch:
            raise damaged(f"{self.folder.path}/{name}", f"the marker of batch {found}")
        return batch


def check_mode(mode: str) -> None:
    """Refuse a mode that does not exist."""
    if mode not in ("new", "append"):
        raise QueryError(f"unknown mode {mode!r}", expected="'new' or 'append'")


def check_writable(folder: Folder) -> None:
    """Refuse a folder in which no file can be written."""
    folder.make()
    folder.write(".probe", b"")
    folder.delete(".probe")


def check_fit(name: str, place: str, wanted: pa.Schema, existing: pa.Schema) -> None:
    """Refuse to mix schemas in one place; the order of columns does not matter."""
    differences = [f"'{field.name}' ({field.type}) is new" for field in wanted if field.name not in existing.names]
    differences += [f"'{field.name}' ({field.type}) is missing" for field in existing if field.name not in wanted.names]
    differences += [
        f"'{field.name}' is {field.type}, was {existing.field(field.name).type}"
        for field in wanted
        if field.name in existing.names and not field.type.equals(existing.field(field.name).type)
    ]
    if differences:
        raise QueryError(
            f"the tuples do not fit what {place} holds",
            box=name,
            expected=", ".join(f"{field.name} {field.type}" for field in existing),
            found="; ".join(differences),
            hint="make the columns the same in a map box, or write to another place",
        )


def stage_arrow(batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
    """Keep a part as an Arrow file in scratch, from where the driver reads it."""
    if table.num_rows == 0:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    content = sink.getvalue()
    name = f"{PART}{batch:08d}-{part:04d}.arrow"
    scratch.write(name, content)
    return Receipt(batch, part, (StagedFile(name, table.num_rows, content.size, crc=checksum(content)),))


def read_staged(scratch: Folder, name: str, size: int, crc: int) -> pa.Table:
    """A part that was staged in scratch; mapped, not copied, from a local file."""
    place = f"{scratch.path}/{name}"
    if not scratch.exists(name):
        raise WorldError(
            f"{place} is missing",
            expected="every part of the results that are kept",
            hint="restore the checkpoint from a copy, or start with another one",
        )
    content = scratch.read(name)
    if content.size != size or checksum(content) != crc:
        raise damaged(place, f"{content.size} bytes that do not fit the checksum of the {size} that were written")
    return pa.ipc.open_file(content).read_all()
