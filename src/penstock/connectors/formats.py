"""What a file format is to `pk.files`: how a file is cut into parts, what schema it shows, how a part is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from penstock.connectors.base import Chunk
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


@dataclass(frozen=True)
class Part:
    """A cut of a file, and where the file is."""

    files: Any
    path: str
    size: int
    at: int
    end: int


class BrokenFileError(Exception):
    """A file whose content is not what its name says; it becomes a reject, and the input goes on."""

    def __init__(self, reason: str, rows: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.rows = rows


class Format(Protocol):
    """One file format."""

    def cuts(self, part: Part, tuning: Tuning, schema: pa.Schema) -> list[Cut]:
        """Cut a file on the driver; raises BrokenFileError, also when no row of it can fit the schema."""

    def discover(self, part: Part) -> pa.Schema:
        """The schema that a file shows; raises BrokenFileError."""

    def read(self, part: Part, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        """Read a part on a worker; raises BrokenFileError if nothing of it can be read."""


@contextmanager
def opened(part: Part, *, exact: bool = True) -> Iterator[Any]:
    """The open file; `exact` refuses one whose size is not the recorded one.

    Problems of the world end the run, which can be resumed; problems of the content are rejects.
    """
    try:
        file = part.files.open_input_file(part.path)
    except OSError as error:
        raise _unavailable(part, error) from error
    with file:
        size = file.size()
        if size < part.size or (exact and size != part.size):
            raise WorldError(
                f"the file {part.path} has changed since it was taken into the input",
                expected=f"{part.size} bytes",
                found=f"{size} bytes",
                hint="put the file back as it was and restart; write new data to new files",
            )
        try:
            yield file
        except OSError as error:
            # Arrow reports some broken content as OSError, but then without the number of a system error.
            if error.errno is not None:
                raise _unavailable(part, error) from error
            raise BrokenFileError(first_line(error)) from error


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
