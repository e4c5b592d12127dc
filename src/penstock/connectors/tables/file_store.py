"""A static table in files: Parquet, Arrow, CSV or JSON lines, one file, a folder or a glob.

Names, sizes and times of the files tell whether it has changed. Who replaces a file had better move a complete one into
its place; one that is being written there is given a moment.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from penstock.connectors.files.declaration import Files, format_of
from penstock.connectors.files.formats.format import BrokenFileError
from penstock.connectors.files.places import Listed
from penstock.connectors.tables.store import MisfitError, Stamp, Store, missing, unreadable
from penstock.errors import QueryError, WorldError

SETTLED_NS: Final = 2_000_000_000
"""The coarsest step of a file system's clock: a file changed twice within it may look as if it had changed once."""
_ATTEMPTS: Final = 5
_PAUSE: Final = 0.2
"""Seconds between two attempts at a file that is gone, broken or changing: it may be whole in a moment."""


@dataclass(frozen=True)
class StoredFiles(Store):
    """Files that together are one table, in order of their paths."""

    files: Files

    @property
    def refresh(self) -> int | None:
        return None

    def describe(self) -> str:
        return ", ".join(self.files.paths)

    def schema(self) -> pa.Schema:
        self._listed()
        try:
            return self.files.schema()
        except QueryError as error:
            raise unreadable(self.describe(), error.found or error.what) from error

    def stamp(self) -> Stamp:
        infos = self.files.files().get_file_info([file.path for file in self._listed()])
        lines = [f"{info.path} {info.size} {info.mtime_ns}" for info in infos]
        newest = max(info.mtime_ns or 0 for info in infos)
        return Stamp("\n".join(lines), settled=time.time_ns() - newest > SETTLED_NS)

    def read(self, schema: pa.Schema) -> pa.Table:
        attempt = 1
        while True:
            try:
                before = self.stamp()
                rows = pa.Table.from_batches(self._batches(schema), schema)
                if self.stamp().text == before.text:
                    return rows
                raise unreadable(self.describe(), "it changes while it is being read")
            except (WorldError, MisfitError):
                if attempt == _ATTEMPTS:
                    raise
            time.sleep(_PAUSE)
            attempt += 1

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        # A declared schema may be what gives the columns their names: then it takes all of it to read some of them.
        known = self.files.declared or schema
        for file in self._listed():
            name = self.files.format or format_of(file.path)
            if name is None:
                raise MisfitError(f"{file.path} has a name that does not tell its format")
            reader = self.files.reader(name)
            whole = self.files.part(file.path, file.size, 0, file.size)
            try:
                for cut in reader.cuts(whole, self.files.tuning, known):
                    for chunk in reader.read(replace(whole, at=cut.at, end=cut.end), known, schema.names):
                        if chunk.rejects is not None and chunk.rejects.num_rows:
                            first = chunk.rejects.slice(0, 1).to_pylist()[0]
                            place = "" if first["position"] is None else f", row {first['position']}:"
                            raise MisfitError(f"{file.path}{place} {first['reason']}")
                        yield chunk.tuples
            except BrokenFileError as error:
                raise MisfitError(f"{file.path} {error.reason}") from error

    def _listed(self) -> list[Listed]:
        found = self.files.listed()
        if not found:
            raise missing(self.describe(), f"no file; looked in {', '.join(p.base for p in self.files.places)}")
        return found
