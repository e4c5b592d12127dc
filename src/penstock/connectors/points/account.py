"""What a connection point holds, for people."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import deltalake

from penstock.connectors.delta.table_log import opening
from penstock.connectors.points.point_target import ConnectionPoint
from penstock.connectors.points.stored_files import stored_files


@dataclass(frozen=True)
class PointAccount:
    """What a connection point holds now, and what it is told to keep."""

    name: str
    place: str
    rows: int
    bytes: int
    files: int
    since: dt.datetime | None
    """The time of arrival of the oldest tuple; None if there is none."""
    keep: str
    key: tuple[str, ...]


def account_of(name: str, point: ConnectionPoint) -> PointAccount:
    """Look at the table of a connection point; nothing of its rows is read."""
    with opening(point.folder):
        files = stored_files(deltalake.DeltaTable(point.folder.path))
    oldest = min((file.since for file in files), default=None)
    since = None if oldest is None else dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=oldest)
    return PointAccount(
        name,
        point.folder.path,
        sum(file.rows for file in files),
        sum(file.size for file in files),
        len(files),
        since,
        point.keep.describe(),
        point.key,
    )
