"""Where a user's catalog is, and the checkpoints of runs that are known by name alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "PENSTOCK_HOME"


def home() -> Path:
    """The folder: that of the environment, or the one for a user's data."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data) / "penstock"


def own_place(name: str) -> str:
    """The checkpoint of a run that was given a name, but no checkpoint."""
    return str(home() / "runs" / name)
