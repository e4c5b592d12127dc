"""The shares of a small batch, which the driver reads itself: how they get from the planner to it.

```
 planner (a process of its own) ──> shares of the next batch, signed ──> driver, in foreachBatch ──> rows
```

Spark would bring them, too, but only to tasks, and to start these takes longer than to read the few rows. The planner
is on the driver's machine, so a file in a folder there is enough. It is unpickled only with the signature of this run:
the key is drawn anew for every run, and only the driver and its planner have it. A batch that is not found here is left
to Spark's tasks.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import pickle
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark import cloudpickle

from penstock.errors import WorldError

if TYPE_CHECKING:
    from penstock.runtime.planner import Assignment

_NAME: Final = "next"
_SIGNATURE: Final = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Shares:
    """Where the shares of the next batch lie, and the key that signs them."""

    folder: str
    key: str = field(repr=False)

    @staticmethod
    def in_folder(folder: str) -> Shares:
        """Shares of a new run, in a folder that nobody else may enter."""
        return Shares(folder, secrets.token_hex(32))

    def leave(self, digest: str, assignments: Sequence[Assignment]) -> None:
        """Say what the batch reads whose offset comes to `digest`; what was said of another one is forgotten."""
        from penstock.storage.folder import Folder

        content = cloudpickle.dumps((digest, list(assignments)))
        with contextlib.suppress(WorldError):  # no room for it: nobody needs it
            Folder(self.folder).write(_NAME, self._signed(content), content)

    def take(self, digest: str) -> list[Assignment] | None:
        """What the batch reads whose offset comes to `digest`, if the planner has said so."""
        try:
            with open(os.path.join(self.folder, _NAME), "rb") as file:
                signature, content = file.read(_SIGNATURE), file.read()
        except OSError:
            return None
        if not hmac.compare_digest(self._signed(content), signature):
            return None
        said, assignments = pickle.loads(content)
        return assignments if said == digest else None

    def _signed(self, content: bytes) -> bytes:
        return hmac.new(self.key.encode(), content, hashlib.sha256).digest()

    @property
    def text(self) -> str:
        return f"{self.key} {self.folder}"

    @staticmethod
    def parse(text: str) -> Shares:
        key, folder = text.split(" ", 1)
        return Shares(folder, key)
