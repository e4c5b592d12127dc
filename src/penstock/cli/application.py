"""The Python files that commands are given: what they define."""

from __future__ import annotations

import runpy
import traceback
from pathlib import Path
from typing import Any

from penstock.api import Network
from penstock.errors import PenstockError, QueryError


def load(application: Path, name: str | None) -> Network:
    """The network that a Python file defines."""
    if not application.is_file():
        raise QueryError(f"there is no file {application}")
    found = {key: value for key, value in executed(application).items() if isinstance(value, Network)}
    if name is not None and name in found:
        return found[name]
    if name is not None or len(found) != 1:
        raise QueryError(
            f"{application} defines {len(found)} networks"
            if name is None
            else f"{application} has no network '{name}'",
            expected="one variable that is a pk.Network",
            found=", ".join(found) or "none",
            hint="name one with --network" if found else "net = pk.Network('name') at the top level of the file",
        )
    return next(iter(found.values()))


def executed(application: Path, expected: str = "a Python file that defines a pk.Network") -> dict[str, Any]:
    """The variables of a Python file after it has run."""
    try:
        return runpy.run_path(str(application))
    except PenstockError:
        raise
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(application)]
        line = error.lineno if isinstance(error, SyntaxError) else frames[-1].lineno if frames else None
        raise QueryError(
            f"{application} cannot be run" + (f": line {line} fails" if line else ""),
            expected=expected,
            found=f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}",
        ) from error
