"""The log of a Delta table, commit by commit: `_delta_log/00000000000000000007.json` says what version 7 has changed.

A commit never changes once it is there, so reading it again gives the same. Old commits leave when the table's log is
cut short; the state that they had led to stays in a checkpoint of the log.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import deltalake
import pyarrow as pa
from deltalake.exceptions import DeltaError, TableNotFoundError

from penstock.algebra.marks import UNKNOWN, Marks
from penstock.connectors.delta.commit_marks import KEY, CommitMarks, Standing
from penstock.connectors.delta.upkeep import partition_text
from penstock.errors import WorldError
from penstock.storage.folder import Folder

LOG = logging.getLogger("penstock.delta")
_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.(.+\.)?(parquet|json)")
RETENTION: Final = "penstock.retention"
"""In the metadata of a commit: it only lets old rows go, which takes nothing from who has read them."""
APPLICATION: Final = "penstock-"
"""How the name of a writer begins in the transactions of a log."""
_KEPT: Final = 256
"""Commits that are kept in memory: a train is planned and cut from the same ones."""


@dataclass(frozen=True)
class AddedFile:
    """A data file of a table."""

    path: str
    """As the log writes it: relative to the table, with the escapes of a URI."""
    size: int
    rows: int | None
    """None where the log does not tell."""
    partition: tuple[tuple[str, str | None], ...] = ()
    """The values of the columns that are not in the file, as texts."""
    pruned: bool = False
    """Whether a deletion vector takes rows of it away."""
    batches: tuple[int, int] | None = None
    """The first and the last batch that its rows are of, if it is of a connection point."""
    least: Marks = UNKNOWN
    """The smallest ticks of attributes that increase, and the smallest negative ones of those that decrease, where
    they are known: marks that all of its rows keep."""

    def to_json(self) -> list[Any]:
        found = [self.path, self.size, self.rows, [list(pair) for pair in self.partition], self.pruned]
        if self.batches is None:
            return found
        parts = [[list(pair) for pair in part.items()] for part in (self.least.rising, self.least.falling)]
        return [*found, list(self.batches), *(parts if self.least.falling else parts[:1])]

    @staticmethod
    def from_json(document: list[Any]) -> AddedFile:
        path, size, rows, partition, pruned, *point = document
        values = tuple((name, value) for name, value in partition)
        if not point:
            return AddedFile(path, size, rows, values, pruned)
        (first, last), rising, *falling = point
        least = Marks(dict(rising), dict(falling[0]) if falling else {})
        return AddedFile(path, size, rows, values, pruned, (first, last), least)


@dataclass(frozen=True)
class TableShape:
    """What a table looks like: who it is, its columns, and what it asks of readers."""

    id: str
    schema: pa.Schema
    settings: Mapping[str, str]
    features: frozenset[str] = frozenset()
    """What readers must know of; nothing of that in a commit that does not change it."""


@dataclass(frozen=True)
class Commit:
    """What one version of a table has changed."""

    version: int
    added: tuple[AddedFile, ...] = ()
    """Files with new rows."""
    removed: int = 0
    """Files whose rows were deleted or rewritten."""
    operation: str = ""
    shape: TableShape | None = None
    """Where the commit says what the table looks like from now on."""
    said: CommitMarks | None = None
    unheard: str = ""
    """Why what it says cannot be read."""
    standing: Standing | None = None
    """Where it stands for all commits up to it: what all writers had said."""
    batch: int | None = None
    """The batch of the network that wrote it, if one did."""
    time: int = 0
    """When it was made, in microseconds since the epoch."""


@dataclass
class TableLog:
    """The log of the table in a folder."""

    folder: Folder
    own: bool = False
    """Whether only networks write to the table: then punctuation that cannot be read is damage."""
    _commits: dict[int, Commit] = field(default_factory=dict)

    def commit(self, version: int) -> Commit | None:
        """What a version has changed; None if there is no such version, or not any more."""
        if version not in self._commits:
            found = self._read(version)
            if found is None:
                return None
            self._commits[version] = found
            while len(self._commits) > _KEPT:
                self._commits.pop(next(iter(self._commits)))
        return self._commits[version]

    def versions(self) -> list[int]:
        """The versions whose commits are there, oldest first."""
        return _numbers(_COMMIT, self._log.names())

    def oldest_whole(self) -> int | None:
        """The oldest version whose whole state can be told, from which on every commit is there; None without any."""
        names = self._log.names()
        commits = set(_numbers(_COMMIT, names))
        if not commits:
            return None
        first = newest = max(commits)
        while first - 1 in commits:
            first -= 1
        if first == 0:
            return 0
        # A checkpoint stands for its version, so the commit behind it is the first that is needed.
        return min((v for v in _numbers(_CHECKPOINT, names) if first - 1 <= v <= newest), default=None)

    def files_at(self, version: int) -> list[AddedFile]:
        """All files that a table had at a version, in the order in which they were made."""
        with opening(self.folder):
            table = deltalake.DeltaTable(self.folder.path, version=version)
            known = pa.table(table.get_add_actions(flatten=True))
            columns = list(table.metadata().partition_columns)
            pruned = _with_deletion_vectors(table, known["path"].to_pylist())
        texts = [partition_text(known[f"partition.{column}"]).to_pylist() for column in columns]
        rows = known["num_records"].to_pylist() if "num_records" in known.column_names else [None] * len(known)
        facts = zip(
            known["modification_time"].to_pylist(),
            known["path"].to_pylist(),
            known["size_bytes"].to_pylist(),
            rows,
            strict=True,
        )
        found = [
            (time, AddedFile(path, size, count, _pairs(columns, texts, at), path in pruned))
            for at, (time, path, size, count) in enumerate(facts)
        ]
        return [file for _, file in sorted(found, key=lambda one: (one[0], one[1].path))]

    def shape(self) -> tuple[int, TableShape]:
        """What the table looks like now, and in which version that is."""
        with opening(self.folder):
            table = deltalake.DeltaTable(self.folder.path)
            metadata, schema = table.metadata(), pa.schema(table.schema().to_arrow())
            features = frozenset(table.protocol().reader_features or ())
            return table.version(), TableShape(str(metadata.id), schema, dict(metadata.configuration), features)

    def _read(self, version: int) -> Commit | None:
        name = f"{version:020d}.json"
        if not self._log.exists(name):
            return None
        place = f"version {version} of the Delta table {self.folder.path}"
        try:
            actions = [json.loads(line) for line in self._log.read(name).to_pybytes().splitlines() if line.strip()]
            found = _commit(version, actions, self._log.changed(name))
        except (ValueError, KeyError, TypeError, AttributeError, DeltaError) as error:
            raise WorldError(
                f"the log of {place} cannot be read",
                found=f"{type(error).__name__}: {error}",
                hint=f"look at {self._log.path}/{name}, or restore it from a copy",
            ) from error
        if found.unheard and self.own:
            raise WorldError(
                f"the punctuation in {place} is damaged",
                expected=f"low-water marks as Penstock writes them, under {KEY!r}",
                found=found.unheard,
                hint=f"look at {self._log.path}/{name}, or restore it from a copy",
            )
        if found.unheard:
            LOG.warning("the punctuation in %s is left alone: %s", place, found.unheard)
        return found

    @property
    def _log(self) -> Folder:
        return self.folder.child("_delta_log")


@contextmanager
def opening(folder: Folder) -> Iterator[None]:
    """Say in our words why a table cannot be opened."""
    try:
        yield
    except TableNotFoundError as error:
        raise no_table(folder) from error
    except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
        raise WorldError(
            f"cannot open the Delta table {folder.path}", found=(str(error).splitlines() or [repr(error)])[0]
        ) from error


def no_table(folder: Folder) -> WorldError:
    there = folder.names()
    return WorldError(
        f"there is no Delta table at {folder.path}",
        expected="a folder with a _delta_log",
        found=f"a folder with {', '.join(there[:3])}" if there else "nothing",
        hint="check the path; follow=True together with schema= waits for the table to be made",
    )


def _numbers(pattern: re.Pattern[str], names: list[str]) -> list[int]:
    return sorted({int(found.group(1)) for name in names if (found := pattern.fullmatch(name))})


def _commit(version: int, actions: list[dict[str, Any]], written: int) -> Commit:
    info: dict[str, Any] = next((one["commitInfo"] for one in actions if "commitInfo" in one), {})
    changing = [one["remove"] for one in actions if "remove" in one]
    added = [one["add"] for one in actions if "add" in one]
    said, unheard = _said(info)
    stamp = info.get("inCommitTimestamp", info.get("timestamp"))
    return Commit(
        version,
        # Files that only hold in another form what was there, as after a merge of small ones, bring nothing new.
        tuple(_added(one) for one in added if one.get("dataChange", True)),
        0 if RETENTION in info else sum(bool(one.get("dataChange", True)) for one in changing),
        str(info.get("operation", "")),
        _shape(actions),
        said,
        unheard=unheard,
        batch=_batch(actions),
        time=stamp * 1000 if isinstance(stamp, int) else written,
    )


def _said(info: Mapping[str, Any]) -> tuple[CommitMarks | None, str]:
    """What a commit says, or why that cannot be read."""
    try:
        return (CommitMarks.from_text(info[KEY]) if KEY in info else None), ""
    except ValueError as error:
        return None, str(error)


def _batch(actions: list[dict[str, Any]]) -> int | None:
    """The batch that a commit of ours is."""
    told = [one["txn"] for one in actions if "txn" in one]
    return next((int(one["version"]) for one in told if str(one.get("appId", "")).startswith(APPLICATION)), None)


def _added(action: Mapping[str, Any]) -> AddedFile:
    stats = json.loads(action["stats"]) if action.get("stats") else {}
    rows = stats.get("numRecords")
    values = tuple((name, value or None) for name, value in (action.get("partitionValues") or {}).items())
    return AddedFile(
        action["path"],
        int(action["size"]),
        rows if isinstance(rows, int) and rows >= 0 else None,
        values,
        bool(action.get("deletionVector")),
    )


def _shape(actions: list[dict[str, Any]]) -> TableShape | None:
    metadata = next((one["metaData"] for one in actions if "metaData" in one), None)
    if metadata is None:
        return None
    protocol: dict[str, Any] = next((one["protocol"] for one in actions if "protocol" in one), {})
    schema = pa.schema(deltalake.Schema.from_json(metadata["schemaString"]).to_arrow())
    features = frozenset(protocol.get("readerFeatures") or ())
    return TableShape(str(metadata["id"]), schema, metadata.get("configuration") or {}, features)


def _pairs(columns: list[str], texts: list[list[str | None]], at: int) -> tuple[tuple[str, str | None], ...]:
    return tuple((column, values[at]) for column, values in zip(columns, texts, strict=True))


def _with_deletion_vectors(table: deltalake.DeltaTable, paths: list[str]) -> set[str]:
    """Those of a table's files of which a deletion vector takes rows away."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return set()
    places = pa.table(table.deletion_vectors()).column("filepath").to_pylist()
    return {path for path in paths if any(place.endswith(unquote(path)) for place in places)}
