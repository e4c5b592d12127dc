"""A folder that only its owner writes to.

Whoever can write to a checkpoint decides what a run takes for its own memory: state, positions in files, what was
committed. So a checkpoint is made for its owner, and one that others can change is refused.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from typing import Final

from penstock.errors import QueryError, WorldError
from penstock.storage.folder import Folder

WRITERS: Final = "PENSTOCK_CHECKPOINT_WRITERS"
"""The environment variable that says who else may write: for clusters whose workers run as another user."""
_MODES: Final = {"owner": 0o700, "group": 0o770, "all": 0o777}


def make_private(folder: Folder) -> None:
    """Create a folder for its owner alone; refuse one that is there and that others can write to.

    Only local folders have such rights; elsewhere the store's own rules decide.
    """
    path = folder.local()
    if path is None:
        folder.make()
        return
    mode = _MODES[_writers()]
    parent = Folder(os.path.dirname(path), folder.lasting)
    parent.make()
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        folder.make()  # says so if it is no folder
        _check(path, mode)
        return
    except OSError as failure:
        raise WorldError(
            f"cannot create the folder {path}",
            found=failure.strerror,
            hint="check the path, the rights and the space there",
        ) from failure
    os.chmod(path, mode)  # whatever the umask has taken away
    if folder.lasting:
        parent.sync(os.path.basename(path))


def _check(path: str, allowed: int) -> None:
    found = os.stat(path)
    excess = stat.S_IMODE(found.st_mode) & ~allowed
    others = bool(excess & stat.S_IWOTH)
    group = bool(excess & stat.S_IWGRP) and not _only_the_owner(found)
    if not group and not others:
        return
    who = "everybody" if others else f"the group {_name_of_group(found.st_gid)}"
    raise WorldError(
        f"{who} can write to the checkpoint {path}",
        expected="a folder that only its owner can write to: who writes there decides what the run takes for its own",
        found=f"rights {stat.filemode(found.st_mode)}",
        hint=f"run chmod go-w {path}, or name a new folder, which is made with the right rights; "
        f"the environment variable {WRITERS}={'all' if others else 'group'} allows these",
    )


def _writers() -> str:
    writers = os.environ.get(WRITERS, "owner")
    if writers not in _MODES:
        raise QueryError(f"{WRITERS} says {writers!r}", expected=f"one of {', '.join(_MODES)}")
    return writers


def _only_the_owner(found: os.stat_result) -> bool:
    """Whether the group is the owner's private one, as many systems give everybody: nobody else is in it."""
    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    return owner.pw_gid == group.gr_gid and group.gr_name == owner.pw_name and not set(group.gr_mem) - {owner.pw_name}


def _name_of_group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
