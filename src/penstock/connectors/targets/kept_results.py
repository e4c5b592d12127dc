"""Results that are kept in the checkpoint, for `result[name]` and `run.read(name)`.

```
 outlet/<output>/part-<batch>-<part>.arrow            tuples, as a task staged them
                 kept-0-<batch>-<batch>.json          what a batch has left: its parts, and the punctuation behind them
                 kept-1-<first>-<last>.json / .arrow  the same of many batches, in one file
                 forgotten.json                       how many tuples have left for want of room
```

A part counts when a *unit* lists it, with its checksum. Small units are merged `FAN` at a time, so that neither files
nor listings grow with the number of batches, and each tuple is copied a few times in all. Where there is a limit, the
oldest units leave first, and are counted: tuples and lists together, and no unit grows to more than a part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.algebra.hidden import ARRIVED
from penstock.algebra.marks import UNKNOWN, Marks
from penstock.connectors.targets.target import (
    SILENT,
    OutputProgress,
    Receipt,
    Target,
    check_fit,
    enrol,
    enrolled_schema,
    read_staged,
    stage_arrow,
)
from penstock.errors import WorldError
from penstock.storage.folder import Folder
from penstock.storage.sealed import checksum, damaged, read_sealed, seal, write_sealed
from penstock.storage.sizes import Size, size_of

FAN: Final = 64
"""How many units are merged into one."""
SETTLED: Final = 16
"""Batches behind the newest to which a run may go back: they are left as they are."""
MERGED_BYTES: Final = 16 << 20
"""A larger piece is not worth copying: units only refer to its file."""
KEEP_BYTES: Final = 1 << 30
"""What an output of a run that does not end keeps, unless told otherwise."""
LARGEST: Final = 4
"""Units that are merged take up this part of the limit at most, so that much of it is used when the oldest leaves."""
_KEPT: Final = "kept-"
_FORGOTTEN: Final = "forgotten.json"
_TRIES: Final = 5
"""A reader may find that units were merged under its eyes, and looks again."""


@dataclass(frozen=True)
class Piece:
    """Rows of a file."""

    name: str
    bytes: int
    crc: int
    start: int
    rows: int


@dataclass(frozen=True)
class KeptBatch:
    """What a batch has left at an output: its tuples, and then its punctuation."""

    batch: int
    marks: Marks
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    def to_json(self) -> dict[str, Any]:
        pieces = [asdict(piece) for piece in self.pieces]
        return {"batch": self.batch, "marks": self.marks.to_json(), "pieces": pieces}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> KeptBatch:
        pieces = tuple(Piece(**piece) for piece in document["pieces"])
        return KeptBatch(document["batch"], Marks.from_json(document["marks"]), pieces)


@dataclass(frozen=True)
class Unit:
    """A file that lists batches."""

    level: int
    first: int
    last: int

    @property
    def name(self) -> str:
        return f"{_KEPT}{self.level}-{self.first:08d}-{self.last:08d}.json"

    @property
    def data(self) -> str:
        return self.name.removesuffix(".json") + ".arrow"

    @staticmethod
    def parse(name: str) -> Unit | None:
        if not name.startswith(_KEPT) or not name.endswith(".json"):
            return None
        return Unit(*(int(number) for number in name.removeprefix(_KEPT).removesuffix(".json").split("-")))

    def covers(self, other: Unit) -> bool:
        return self.level > other.level and self.first <= other.first and other.last <= self.last


@dataclass(frozen=True)
class Results(Target):
    """Keeps the tuples in the checkpoint. `keep` bounds their bytes; None for the default: all of a run that ends by
    itself, and the newest `KEEP_BYTES` of one that does not."""

    keep: int | None = None

    @property
    def hidden(self) -> tuple[str, ...]:
        return (ARRIVED,)

    @property
    def outside(self) -> bool:
        return False

    def check(self, name: str, schema: pa.Schema, scratch: Folder) -> None:
        if not enrol(name, schema, scratch):
            check_fit(name, scratch.path, schema, enrolled_schema(scratch))

    def stage(self, batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
        return stage_arrow(batch, part, table, scratch)

    def commit(
        self, batch: int, receipts: Sequence[Receipt], scratch: Folder, progress: OutputProgress = SILENT
    ) -> None:
        """Nothing to do: a part counts when the outlet has posted the unit that lists it."""

    def last_committed(self, scratch: Folder) -> int:
        return max((kept.batch for kept in KeptResults(scratch).batches() if kept.pieces), default=-1)

    def describe(self) -> str:
        return "kept as results" if self.keep is None else f"kept as results, the newest {self.keep:,} bytes"


class KeptResults:
    """The units of one output: the run's outlet writes them, anybody may read them."""

    def __init__(self, scratch: Folder, limit: int | None = None) -> None:
        self._scratch = scratch
        self._limit = limit
        self._units: dict[Unit, int] | None = None
        """For the writer: every unit, and how many bytes it keeps."""

    def post(self, batch: int, receipts: Sequence[Receipt], marks: Marks = UNKNOWN) -> None:
        """What a batch has left, and the marks that have moved, once and for all; it may be said again."""
        units, unit = self._known(), Unit(0, batch, batch)
        files = [file for receipt in sorted(receipts, key=lambda r: r.part) for file in receipt.files]
        if files or marks.says_anything:
            pieces = tuple(Piece(file.name, file.bytes, file.crc, 0, file.rows) for file in files)
            units[unit] = self._write(unit, [KeptBatch(batch, marks, pieces)])
        elif unit in units:
            self._scratch.delete(unit.name)
            del units[unit]
        self._merge(batch)
        if self._limit is not None:
            self._forget(self._limit)

    def forget_after(self, batch: int) -> None:
        """Let go of what was left after a batch, to which a run has gone back; and of parts that nobody lists."""
        for unit in _live_units(self._scratch):
            if unit.first <= batch < unit.last:
                raise damaged(f"{self._scratch.path}/{unit.name}", f"results of batches behind batch {batch}")
            if unit.first > batch:
                self._scratch.delete(unit.name)
        self._units = None
        listed = {piece.name for kept in self.batches() for piece in kept.pieces}
        for name in self._scratch.names():
            if name.endswith(".arrow") and name not in listed:
                self._scratch.delete(name)

    def batches(self, newest: int | None = None) -> list[KeptBatch]:
        """What every batch up to the newest has left, in order."""
        for attempt in range(_TRIES):
            try:
                units = sorted(_live_units(self._scratch), key=lambda unit: unit.first)
                found = [kept for unit in units if newest is None or unit.first <= newest for kept in self._read(unit)]
                break
            except WorldError:
                if attempt == _TRIES - 1:
                    raise
        return [kept for kept in found if newest is None or kept.batch <= newest]

    def table(self, kept: Sequence[KeptBatch]) -> pa.Table:
        """The tuples of some batches."""
        files: dict[str, pa.Table] = {}
        tables = [enrolled_schema(self._scratch).empty_table()]
        for piece in (piece for batch in kept for piece in batch.pieces):
            if piece.name not in files:
                files[piece.name] = read_staged(self._scratch, piece.name, piece.bytes, piece.crc)
            tables.append(files[piece.name].slice(piece.start, piece.rows))
        return pa.concat_tables(tables)

    def forgotten(self) -> int:
        """How many tuples have left because there was no room for them."""
        return int(_forgotten(self._scratch)["rows"])

    def settled(self, newest: int) -> list[tuple[Unit, int]]:
        """The units that no run can go back behind any more, oldest first, and the bytes that each keeps."""
        units = self._known()
        return [(unit, units[unit]) for unit in sorted(units, key=lambda u: u.first) if unit.last <= newest - SETTLED]

    def forget_to(self, batch: int) -> None:
        """Let go of units up to a batch, because the disk has no room for them."""
        for unit in sorted(self._known(), key=lambda u: u.first):
            if unit.last <= batch:
                self._let_go(unit)

    def _known(self) -> dict[Unit, int]:
        if self._units is None:
            live = _live_units(self._scratch)
            for name in self._scratch.names():  # what a merge that was cut short has left
                unit = Unit.parse(name)
                if unit is not None and unit not in live:
                    self._scratch.delete(name)
            self._units = {unit: self._scratch.size(unit.name) + data_bytes(self._read(unit)) for unit in live}
        return self._units

    def _read(self, unit: Unit) -> list[KeptBatch]:
        return [KeptBatch.from_json(kept) for kept in read_sealed(self._scratch, unit.name)["batches"]]

    def _write(self, unit: Unit, batches: Sequence[KeptBatch]) -> int:
        """Put a unit in place; the bytes that it keeps."""
        content = seal({"batches": [kept.to_json() for kept in batches]})
        self._scratch.write(unit.name, content)
        return len(content) + data_bytes(batches)

    def _merge(self, newest: int) -> None:
        units = self._known()
        level = 0
        while True:
            ready = sorted((u for u in units if u.level == level and u.last <= newest - SETTLED), key=lambda u: u.first)
            small = ready[:FAN]
            if len(small) < FAN or (self._limit and sum(units[u] for u in small) > self._limit // LARGEST):
                return
            self._merge_into(Unit(level + 1, small[0].first, small[-1].last), small)
            level += 1

    def _merge_into(self, unit: Unit, small: Sequence[Unit]) -> None:
        """Write one unit in the place of many: first the data, then the list, and only then the others leave."""
        batches = [kept for one in small for kept in self._read(one)]
        pieces = [p for kept in batches for p in kept.pieces]
        copied = [p for p in pieces if p.bytes <= MERGED_BYTES]
        moved: dict[Piece, Piece] = {}
        if copied:
            tuples = self.table([KeptBatch(unit.last, UNKNOWN, tuple(copied))])
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, tuples.schema) as file:
                file.write_table(tuples.combine_chunks())
            content = sink.getvalue()
            self._scratch.write(unit.data, content)
            start, crc = 0, checksum(content)
            for piece in copied:
                moved[piece] = Piece(unit.data, content.size, crc, start, piece.rows)
                start += piece.rows
        merged = [KeptBatch(kept.batch, kept.marks, tuple(moved.get(p, p) for p in kept.pieces)) for kept in batches]
        units, still = self._known(), {p.name for kept in merged for p in kept.pieces}
        units[unit] = self._write(unit, merged)
        for one in small:
            self._scratch.delete(one.name)
            del units[one]
        for name in {p.name for p in pieces} - still:
            self._scratch.delete(name)

    def _forget(self, limit: int) -> None:
        units = self._known()
        total = sum(units.values())
        for unit in sorted(units, key=lambda u: u.first)[:-1]:
            if total <= limit:
                return
            total -= self._let_go(unit)

    def _let_go(self, unit: Unit) -> int:
        """Delete a unit with its tuples; the bytes that this frees."""
        batches = self._read(unit)
        # Said before it is done: what is left over after a crash is not counted twice.
        rows = self.forgotten() + sum(kept.rows for kept in batches)
        write_sealed(self._scratch, _FORGOTTEN, {"rows": rows, "batch": unit.last})
        self._scratch.delete(unit.name)
        for name in {p.name for kept in batches for p in kept.pieces}:
            self._scratch.delete(name)
        return self._known().pop(unit)


def results(keep: Size) -> Results:
    """Keep the tuples in the checkpoint, the newest `keep` bytes of them; the oldest leave first, and are counted.

    `keep` is a number of bytes, or a text such as "10 GB". What lists the tuples counts too.
    """
    return Results(size_of("keep", keep))


def data_bytes(batches: Sequence[KeptBatch]) -> int:
    """What the files take up that batches refer to."""
    return sum(piece.bytes for piece in {p.name: p for kept in batches for p in kept.pieces}.values())


def _live_units(scratch: Folder) -> set[Unit]:
    """The units that count: a merged one stands for those that it was made of."""
    units = [unit for name in scratch.names() if (unit := Unit.parse(name)) is not None]
    tops, gone = [unit for unit in units if unit.level], _forgotten(scratch)["batch"]
    return {unit for unit in units if unit.last > gone and not any(top.covers(unit) for top in tops)}


def _forgotten(scratch: Folder) -> dict[str, Any]:
    """What has left: how many tuples, and up to which batch. Units up to there do not count, deleted or not."""
    return read_sealed(scratch, _FORGOTTEN) if scratch.exists(_FORGOTTEN) else {"rows": 0, "batch": -1}
