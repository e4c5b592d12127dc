"""A folder that goes away with the last object that can read it, or with the process."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref


class TemporaryFolder:
    """Made on the driver for a run that was given no checkpoint; its results and its handle hold on to it."""

    def __init__(self, prefix: str) -> None:
        self.path = tempfile.mkdtemp(prefix=prefix)
        weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: str, owner: int) -> None:
    # A forked child inherits the finalizer, but not the folder.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
