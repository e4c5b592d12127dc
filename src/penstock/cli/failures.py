"""Errors as people read them on a command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from penstock.errors import InternalError, PenstockError, QueryError

OUR_FAULT, YOUR_QUERY = 1, 2


@contextmanager
def reported() -> Iterator[None]:
    """Exit code 2 for the user's query, 1 for everything else; only a bug of ours shows its traceback."""
    try:
        yield
    except PenstockError as error:
        # Not as markup: an error may quote text with brackets of its own.
        Console(stderr=True, soft_wrap=True).print(str(error), style="red", markup=False, highlight=False)
        if isinstance(error, InternalError):
            raise
        sys.exit(YOUR_QUERY if isinstance(error, QueryError) else OUR_FAULT)
