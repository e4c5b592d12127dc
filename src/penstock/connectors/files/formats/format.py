"""What a file format is to `pk.files`: how a file is cut into parts, what schema it shows, how a part is read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from penstock.connectors.connector import Chunk
from penstock.connectors.files.known_files import Change, Known, change_of, changed, rotated_to
from penstock.errors import WorldError


@dataclass(frozen=True)
class Tuning:
    """How large the parts of a file are, so that tasks share a file evenly."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class Cut:
    """A part of a file that one task reads: units `[at, end)` (row groups, record batches or bytes) and their size."""

    at: int
    end: int
    rows: int
    bytes: int
    counted: bool = False
    """Whether `rows` is exact; an estimate otherwise."""


@dataclass(frozen=True)
class Part:
    """A cut of a file, and where the file is."""

    files: Any
    path: str
    size: int
    at: int
    end: int
    first: int = 0
    """The place in the cut at which a train begins: its row; in text its byte, in compressed text that of the text."""
    last: int | None = None
    """The place before which a train ends; None for the end of the cut."""
    known: Known | None = None
    roams: bool = False
    """Whether the file may have been renamed since, as logs are that rotate."""

    @property
    def sliced(self) -> bool:
        return self.first > 0 or self.last is not None


@dataclass(frozen=True)
class Reach:
    """How far a train of some rows reaches into a part: the place where it ends, None for the part's end."""

    place: int | None
    rows: int


class BrokenFileError(Exception):
    """A file whose content is not what its name says; it becomes a reject, and the input goes on."""

    def __init__(self, reason: str, rows: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.rows = rows


class Format(Protocol):
    """One file format."""

    @abstractmethod
    def cuts(self, part: Part, tuning: Tuning, schema: pa.Schema) -> list[Cut]:
        """Cut a file on the driver; raises BrokenFileError, also when no row of it can fit the schema."""

    @abstractmethod
    def reach(self, part: Part, rows: int, schema: pa.Schema) -> Reach:
        """Where a train of at most so many rows ends that begins at `part.first`; for parts that are not counted."""

    @abstractmethod
    def texts(self, part: Part, schema: pa.Schema, asked: Collection[str] | None = None) -> Mapping[str, float]:
        """What a value takes up, about, in columns of no fixed width; in those that are asked for at least."""

    @abstractmethod
    def discover(self, part: Part) -> pa.Schema:
        """The schema that a file shows; raises BrokenFileError."""

    @abstractmethod
    def read(self, part: Part, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        """Read a part on a worker; raises BrokenFileError if nothing of it can be read."""


@contextmanager
def opened(part: Part, *, exact: bool = True) -> Iterator[Any]:
    """The open file; refuses one that is not what was taken, but for lines added to it if it need not be `exact`.

    Problems of the world end the run, which can be resumed; problems of the content are rejects.
    """
    with open_part(part, exact=exact) as file:
        try:
            yield file
        except OSError as error:
            # Arrow reports some broken content as OSError, but then without the number of a system error.
            if error.errno is not None:
                raise _unavailable(part, error) from error
            raise BrokenFileError(first_line(error)) from error


def open_part(part: Part, *, exact: bool = True) -> Any:
    """The file of a part, wherever it is now; refused if it is not what was taken."""
    try:
        return _verified(part, part.path, exact=exact)
    except WorldError:
        moved = rotated_to(part.files, part.path, part.known) if part.roams and part.known is not None else None
        if moved is None:
            raise
        return _verified(part, moved, exact=exact)


def _verified(part: Part, path: str, *, exact: bool) -> Any:
    try:
        file = part.files.open_input_file(path)
    except OSError as error:
        raise _unavailable(part, error) from error
    try:
        if part.known is not None:
            time = part.files.get_file_info(path).mtime_ns
            change = change_of(file, part.known, time, may_grow=not exact or part.roams)
        else:
            size = file.size()
            fits = size == part.size or (size > part.size and not exact)
            change = None if fits else Change(f"{size:,} bytes")
        if change is not None:
            raise changed(path, part.size, change)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def first_line(error: BaseException) -> str:
    """The first line of an error's text, which says what is wrong; the rest is Arrow's own stack."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _unavailable(part: Part, error: OSError) -> WorldError:
    gone = isinstance(error, FileNotFoundError)
    return WorldError(
        f"the file {part.path} {'is gone' if gone else 'cannot be read'}",
        expected="every file of the input to stay, readable, until the input has been read",
        found=first_line(error),
        hint=f"{'put it back' if gone else 'make it readable'} and restart: the run can be resumed from its checkpoint",
    )
