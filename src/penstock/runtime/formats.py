"""How documents say in which format they are written, and what becomes of those that are newer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.errors import WorldError
from penstock.storage.sealed import RESTORE


def refuse_newer(what: str, document: Mapping[str, Any], known: int) -> None:
    """Refuse a document whose format number is beyond the one that is known; one without a number is the oldest."""
    if document.get("format", known) > known:
        raise WorldError(
            f"{what} was written by a newer version of Penstock",
            expected=f"format {known} or older",
            found=f"format {document['format']}",
            hint="run the network with the newer version",
        )


@contextlib.contextmanager
def refusing_other_forms(what: str) -> Iterator[None]:
    """Refuse a document that lacks what it should say, or says it otherwise than anybody has written it."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WorldError(
            f"{what} is damaged", expected="what Penstock wrote", found=f"{type(error).__name__}: {error}", hint=RESTORE
        ) from error
