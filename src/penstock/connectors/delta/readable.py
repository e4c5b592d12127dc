"""What of a Delta table can be read, and what is refused: features of its protocol, and changes of its columns."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.connectors.delta.table_log import Commit, TableShape
from penstock.connectors.fitting import castable
from penstock.errors import WorldError
from penstock.storage.folder import Folder

_READ: Final = {
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "typeWidening",
    "typeWidening-preview",
    "deletionVectors",  # files that have one are refused
    "columnMapping",  # a table that makes use of it is refused
}
_MAPPING: Final = "delta.columnMapping.mode"


def check_features(shape: TableShape, folder: Folder) -> None:
    """Refuse a table whose files do not say what they seem to say."""
    found = sorted(shape.features - _READ)
    if shape.settings.get(_MAPPING, "none") != "none":
        found.append(f"{_MAPPING}={shape.settings[_MAPPING]}")
    if found:
        raise WorldError(
            f"the Delta table {folder.path} asks more of a reader than Penstock does",
            found=", ".join(found),
            hint="read it with pk.dataframe(...) through Spark, or copy it to a table without these features",
        )


def check_same_table(shape: TableShape, known: str, folder: Folder) -> None:
    """Refuse a table that stands where another one was."""
    if shape.id != known:
        raise WorldError(
            f"the Delta table {folder.path} is another one than was read before",
            expected=f"the table {known}",
            found=f"the table {shape.id}",
            hint="bring the table back, or start with another checkpoint",
        )


def check_columns(stored: pa.Schema, wanted: pa.Schema, folder: Folder) -> None:
    """Refuse columns that the table does not have, or has in a type that cannot become the one asked for."""
    for field in wanted:
        if field.name not in stored.names:
            raise WorldError(
                f"the Delta table {folder.path} has no column {field.name!r}",
                expected=f"{field.name} {field.type}",
                found=", ".join(f"{one.name} {one.type}" for one in stored),
                hint="a column that was dropped or renamed cannot be read on: declare the columns that are there, and "
                "start with another checkpoint",
            )
        kind = stored.field(field.name).type
        if not castable(kind, field.type):
            raise WorldError(
                f"the column {field.name!r} of the Delta table {folder.path} is {kind}",
                expected=f"what can become {field.type}",
            )


def check_shape(commit: Commit, known: TableShape, wanted: pa.Schema, folder: Folder, loaded: int) -> TableShape:
    """What the table looks like from a version on; refused if a column that is read has gone, or has another type.

    Versions up to the one that was `loaded` are older than what is known: there a column may not have come yet.
    """
    now = commit.shape
    assert now is not None
    check_same_table(now, known.id, folder)
    older = commit.version <= loaded
    check_features(TableShape(now.id, now.schema, now.settings, now.features or known.features), folder)
    for field in wanted:
        there = field.name in now.schema.names
        if there and now.schema.field(field.name).type.equals(known.schema.field(field.name).type):
            continue
        if not there and older:
            continue
        what = f"is {now.schema.field(field.name).type}" if there else "is gone"
        raise WorldError(
            f"version {commit.version} of the Delta table {folder.path} has other columns: {field.name!r} {what}",
            expected=f"{field.name} {known.schema.field(field.name).type}",
            found=", ".join(f"{one.name} {one.type}" for one in now.schema),
            hint="columns may be added; one that is dropped, renamed or given another type ends the input: "
            f"read the rest with another checkpoint and since={commit.version}",
        )
    return known if older else TableShape(now.id, now.schema, now.settings, now.features or known.features)
