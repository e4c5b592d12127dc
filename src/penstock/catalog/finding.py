"""From what somebody names to a checkpoint: a path, or the name of a run."""

from __future__ import annotations

import contextlib

from penstock.catalog.database import Catalog
from penstock.catalog.entry import RunEntry
from penstock.errors import QueryError, WorldError
from penstock.runtime.opening import has_run
from penstock.storage.folder import Folder


def checkpoint_of(given: str) -> str:
    """The checkpoint that is meant by a path, or by the name of a run. A checkpoint in a folder of that name wins."""
    entry = named_run(given)
    if entry is None and not _is_path(given) and not has_run(Folder(given)):
        raise unknown(given)
    return entry.place if entry is not None else given


def checkpoint_to_run(given: str) -> str:
    """The same for a run that is about to start: what nobody knows is a folder that is yet to be made."""
    entry = named_run(given)
    return entry.place if entry is not None else given


def named_run(given: str) -> RunEntry | None:
    """The run that a name means; None for a path."""
    return None if _is_path(given) or has_run(Folder(given)) else Catalog().named(given)


def name_of(checkpoint: str) -> str | None:
    """The name of the run at a checkpoint, if the catalog knows it."""
    with contextlib.suppress(WorldError):
        entry = Catalog().at(Folder(checkpoint).path)
        return entry.name if entry is not None else None
    return None


def unknown(given: str) -> QueryError:
    """The error for a name that nobody knows."""
    names = [entry.name for entry in Catalog().runs()]
    return QueryError(
        f"there is no run named '{given}', and no checkpoint at {Folder(given).path}",
        expected=f"one of {', '.join(names)}" if names else "a run that has been started with a checkpoint",
        hint="`penstock ls` lists the runs; a run is known once it has started here",
    )


def _is_path(given: str) -> bool:
    return "/" in given or given in (".", "..") or given.startswith("~")
