"""Letting go of a run: the catalog forgets it, and its data is deleted if that is asked for."""

from __future__ import annotations

from penstock.catalog.database import Catalog
from penstock.catalog.entry import POINT, PartEntry, RunEntry
from penstock.connectors.points.point_target import ConnectionPoint
from penstock.connectors.targets.target import is_enrolled
from penstock.errors import WorldError
from penstock.runtime.opening import has_run, identity_of
from penstock.storage.folder import Folder
from penstock.storage.lease import refuse_if_held, take


def drop(entry: RunEntry, *, data: bool = False) -> list[str]:
    """Forget a run; with `data` delete its checkpoint and connection points too. The places that are deleted.

    Refused while a process uses it. Only what is known to be this run's own is deleted, whatever the catalog says.
    """
    folder = Folder(entry.place)
    deleted: list[str] = []
    if has_run(folder):
        if not data:
            refuse_if_held(folder)
        else:
            lease = take(folder)
            try:
                if identity_of(folder) is None:
                    raise WorldError(f"{folder.path} is no checkpoint of a run")
                deleted = [place for part in entry.of_kind(POINT) if (place := _point_elsewhere(entry, part))]
                for place in deleted:
                    Folder(place).delete_all()
                folder.delete_all()
                deleted.append(folder.path)
            finally:
                lease.release()
    Catalog().forget(entry.name)
    return deleted


def _point_elsewhere(entry: RunEntry, part: PartEntry) -> str | None:
    """The table of a connection point outside of the checkpoint, if it was this run that has written it."""
    if part.place.startswith(f"{entry.place}/"):
        return None
    outlet = Folder(entry.place).child("outlet")
    # One that was begun anew has a folder of its own.
    names = [name for name in outlet.names() if name.partition("@")[0] == part.name]
    scratches = [scratch for name in names if is_enrolled(scratch := outlet.child(name))]
    point = ConnectionPoint(Folder(part.place))
    return part.place if any(point.last_committed(scratch) >= 0 for scratch in scratches) else None
