"""Versions of static tables: which content of a table a batch sees, whenever and wherever it runs.

```
 tables/<box>/<version>.arrow     the columns that the box needs, as one Arrow file; its name is a digest of its content
              versions.json       the last versions, oldest first
```

When the driver plans a batch, it looks at every table; one that has changed is read, written here, and its version
goes into the offset. Workers map the version that the offset names. So a batch that is done again after the table has
changed gives the same answer, and all tasks of a batch see the same rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Final

import pyarrow as pa

from penstock.boxes.table_join.box import TableJoin
from penstock.boxes.table_join.known_rows import KnownRows
from penstock.connectors.tables.static_table import StaticTable
from penstock.connectors.tables.store import Stamp
from penstock.errors import InternalError, PenstockError
from penstock.runtime.job import Job
from penstock.storage.folder import Folder

_SUFFIX: Final = ".arrow"
_VERSIONS: Final = "versions.json"
KEPT_VERSIONS: Final = 4
"""The version of the batch being planned, that of the batch before, which may be done again, and some to look at."""

Versions = Mapping[str, str]
"""The version of every table, by the name of its box."""

_loaded: dict[tuple[str, str], tuple[str, KnownRows]] = {}
"""The version that this process has used last, by checkpoint and box."""
_loading = Lock()
"""Threads of a batch shall share what is made of the rows."""


def tables_of(job: Job) -> Callable[[TableJoin, str | None], KnownRows]:
    """How the operators of a job come by their tables."""
    return partial(load, job)


def load(job: Job, box: TableJoin, version: str | None) -> KnownRows:
    """On a worker: the rows of a table in one version."""
    if version is None:
        raise InternalError("the offset of the batch names no version of the table", box=box.name)
    place = (job.checkpoint.path, box.name)
    with _loading:
        known = _loaded.get(place)
        if known is None or known[0] != version:
            if any(checkpoint != job.checkpoint.path for checkpoint, _ in list(_loaded)):
                _loaded.clear()  # a worker serves one query at a time, as a rule
            rows = pa.ipc.open_file(_folder(job, box).read(version + _SUFFIX)).read_all()
            known = _loaded[place] = (version, KnownRows(rows))
        return known[1]


def _folder(job: Job, box: TableJoin) -> Folder:
    return job.checkpoint.child("tables", box.name)


@dataclass
class _Look:
    """What the last look at a table has shown."""

    at: int
    stamp: Stamp | None
    versions: dict[str, str]


class TableKeeper:
    """On the driver: looks after all static tables of a network."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._boxes = [b for b in job.plan.network.boxes if isinstance(b, TableJoin)]
        self._looks: dict[int, _Look] = {}

    def current(self, before: Versions, now: int) -> dict[str, str]:
        """The versions for a batch that is planned now; `before` are those of the batch before it."""
        versions: dict[str, str] = {}
        for table in self._tables():
            versions |= self._look(table, before, now)
        return versions

    def _tables(self) -> list[StaticTable]:
        """Every table once: boxes that share one see the same content."""
        return list({id(box.table): box.table for box in self._boxes}.values())

    def _look(self, table: StaticTable, before: Versions, now: int) -> dict[str, str]:
        boxes = [box for box in self._boxes if box.table is table]
        last = self._looks.get(id(table))
        if last is not None and table.interval is not None and now - last.at < table.interval:
            return last.versions
        try:
            stamp = table.stamp()
            if last is not None and last.stamp is not None and last.stamp.settled and last.stamp == stamp:
                last.at = now
                return last.versions
            versions = self._read(table, boxes, before)
        except PenstockError as error:
            names = ", ".join(box.name for box in boxes)
            raise error.located(network=self._job.plan.network.name, box=names) from error.__cause__
        self._looks[id(table)] = _Look(now, stamp, versions)
        return versions

    def _read(self, table: StaticTable, boxes: list[TableJoin], before: Versions) -> dict[str, str]:
        columns = self._job.plan.columns
        loaded = {box.name: box.loaded(columns.get(box.name, frozenset())) for box in boxes}
        rows = table.read(pa.schema(list({f.name: f for schema in loaded.values() for f in schema}.values())))
        return {box.name: self._keep(box, rows.select(loaded[box.name].names), before.get(box.name)) for box in boxes}

    def _keep(self, box: TableJoin, rows: pa.Table, before: str | None) -> str:
        """Make content a version, if it is not one yet; versions that no batch can ask for any more are deleted."""
        content = _to_ipc(rows)
        version = hashlib.blake2b(content, digest_size=16).hexdigest()
        folder = _folder(self._job, box)
        file = version + _SUFFIX
        if not folder.exists(file):
            folder.write(file, content)
        known = json.loads(folder.read(_VERSIONS).to_pybytes()) if folder.exists(_VERSIONS) else []
        if known[-1:] != [version]:
            known = [*(v for v in known if v != version), version][-KEPT_VERSIONS:]
            folder.write(_VERSIONS, json.dumps(known).encode())
            kept = {f"{v}{_SUFFIX}" for v in (*known, before) if v is not None}
            for name in folder.names():
                if name.endswith(_SUFFIX) and name not in kept:
                    folder.delete(name)
        return version


def _to_ipc(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    # In one piece: how the rows were cut when they were read is no part of the content.
    with pa.ipc.new_file(sink, rows.schema) as file:
        file.write_table(rows.combine_chunks())
    return sink.getvalue()
