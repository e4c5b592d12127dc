"""How documents say in which format they are written, and what becomes of those in another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.storage.sealed import other_format


def refuse_other(what: str, document: Mapping[str, Any], known: int) -> None:
    """Refuse a document whose format number is not the one that is known; one without a number is the oldest."""
    found = document.get("format", 1)
    if found != known:
        raise other_format(what, found, known)
