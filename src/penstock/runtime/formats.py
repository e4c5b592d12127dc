"""How documents say in which format they are written, and what becomes of those in another one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.errors import WorldError
from penstock.storage.sealed import RESTORE, other_format


def refuse_other(what: str, document: Mapping[str, Any], known: int) -> None:
    """Refuse a document whose format number is not the one that is known; one without a number is the oldest."""
    found = document.get("format", 1)
    if found != known:
        raise other_format(what, found, known)


@contextlib.contextmanager
def refusing_other_forms(what: str) -> Iterator[None]:
    """Refuse a document that lacks what it should say, or says it otherwise than anybody has written it."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WorldError(
            f"{what} is damaged", expected="what Penstock wrote", found=f"{type(error).__name__}: {error}", hint=RESTORE
        ) from error
