"""Offsets as text: what the engine's log of offsets says of a batch, and what the intake's part of it comes to.

The local executor's text is the intake's offset itself. Spark's is a version, a line of its own, and a line for each
of its sources, of which the intake is one.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from penstock.errors import WorldError

Offset = dict[str, Any]


def offset_text(offset: Offset) -> str:
    """An offset as the local executor writes it."""
    return json.dumps(offset)


def intake_offset(text: str) -> Offset:
    """The intake's offset in the text of a batch.

    >>> intake_offset('v1\\n{"batchWatermarkMs": 0}\\n{"inputs": {}, "now": 3}')
    {'inputs': {}, 'now': 3}
    """
    for line in text.splitlines():
        if line.startswith("{"):
            document: Offset = json.loads(line)
            if "inputs" in document:
                return document
    raise WorldError(
        "an offset does not say how far the inputs were read",
        found=text[:200],
        hint="restore the checkpoint from a copy, or start with another one",
    )


def is_local(text: str) -> bool:
    """Whether the local executor wrote it."""
    return text.startswith("{")


def digest(offset: Offset) -> str:
    """What an offset comes to: the same for the same plan of a batch, whoever wrote it down.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    return hashlib.blake2b(json.dumps(offset, sort_keys=True).encode(), digest_size=8).hexdigest()
