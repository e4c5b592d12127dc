"""Asking a run in another process to change its network.

```
 changes/<id>.plan  <id>.json   what is asked for: the plan, pickled and signed by the user
         <id>.answer            what came of it: the number of the new version, or why it was refused
```

A plan is code: the run takes it only with the signature of its own user. What lies there when a run starts was asked of
an earlier one, and is forgotten.
"""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Final

from penstock.errors import PenstockError, QueryError, WorldError, error_of, fields_of
from penstock.plan.plan import Plan
from penstock.runtime.job import Job
from penstock.runtime.shelf import Shelf
from penstock.runtime.versions import Version, Versions
from penstock.storage.folder import Folder
from penstock.storage.lease import is_held
from penstock.storage.sealed import read_sealed, write_sealed
from penstock.storage.signing import is_signed, sign

_FOLDER: Final = "changes"
_ASKED: Final = ".json"
_PLAN: Final = ".plan"
_ANSWER: Final = ".answer"
_LOOK_SECONDS: Final = 0.05

Change = Callable[[Plan, Iterable[str], int | None], Job]
"""What makes a plan the next version of a run's network; refused if it follows another version than the given one."""


def ask(
    checkpoint: Folder,
    plan: Plan,
    versions: Versions,
    discard: Iterable[str] = (),
    seconds: float = 60.0,
    follows: int | None = None,
) -> Version:
    """Ask the run that holds a checkpoint to go on with a plan; its new version, or the error that it answers with.

    A plan that `follows` a version was made from it, with its attached queries or without one of them. Others keep the
    queries that are attached to the run.
    """
    if not is_held(checkpoint):
        raise QueryError(
            f"no run uses the checkpoint {checkpoint.path}",
            network=plan.network.name,
            hint="start the changed network with this checkpoint: it goes on from there",
        )
    if versions.dumps is None:
        raise QueryError("a plan that cannot be pickled cannot be sent", network=plan.network.name)
    folder, name, content = checkpoint.child(_FOLDER), uuid.uuid4().hex, versions.dumps(plan)
    folder.make()
    folder.write(name + _PLAN, content)
    signature = sign(_purpose(name, versions.run), content)
    write_sealed(folder, name + _ASKED, {"signature": signature, "discard": list(discard), "follows": follows})
    try:
        return versions.at(_wait(checkpoint, folder, name, seconds))
    finally:
        for suffix in (_ASKED, _PLAN, _ANSWER):
            folder.delete(name + suffix)


def _wait(checkpoint: Folder, folder: Folder, name: str, seconds: float) -> int:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if folder.exists(name + _ANSWER):
            answer = read_sealed(folder, name + _ANSWER)
            if "version" in answer:
                return int(answer["version"])
            raise error_of(answer)
        time.sleep(_LOOK_SECONDS)
    raise WorldError(
        f"the run in {checkpoint.path} has not answered within {seconds:g} s",
        hint="see whether it is still running, then ask again",
    )


def forget_asked(checkpoint: Folder) -> None:
    """What was asked of an earlier run is not for this one."""
    checkpoint.child(_FOLDER).delete_all()


def answer(shelf: Shelf, checkpoint: Folder, change: Change) -> None:
    """On the driver: do what others have asked for since, and tell them what came of it."""
    folder = checkpoint.child(_FOLDER)
    names = set(folder.names())
    for name in sorted(n.removesuffix(_ASKED) for n in names if n.endswith(_ASKED)):
        if name + _ANSWER not in names:
            write_sealed(folder, name + _ANSWER, _answer(folder, name, shelf.versions.run, change))


def _answer(folder: Folder, name: str, run: str, change: Change) -> dict[str, object]:
    try:
        asked = read_sealed(folder, name + _ASKED)
        content = folder.read(name + _PLAN).to_pybytes()
        if not is_signed(_purpose(name, run), content, str(asked["signature"])):
            raise QueryError(
                "the change was not asked for by the user of the run",
                hint="ask as the same user, or with the same PENSTOCK_KEY",
            )
        return {"version": change(pickle.loads(content), asked["discard"], asked["follows"]).version}
    except PenstockError as error:
        return dict(fields_of(error))
    except Exception as error:
        # A plan that this process cannot load, for example: the run goes on as it was.
        return dict(fields_of(QueryError(f"the change cannot be made: {type(error).__name__}: {error}")))


def _purpose(name: str, run: str) -> str:
    return f"change {name} of {run}"
