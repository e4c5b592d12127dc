"""How documents say in which format they are written, and what becomes of those that are newer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import WorldError


def refuse_newer(what: str, document: Mapping[str, Any], known: int) -> None:
    """Refuse a document whose format number is beyond the one that is known; one without a number is the oldest."""
    if document.get("format", known) > known:
        raise WorldError(
            f"{what} was written by a newer version of Penstock",
            expected=f"format {known} or older",
            found=f"format {document['format']}",
            hint="run the network with the newer version",
        )
