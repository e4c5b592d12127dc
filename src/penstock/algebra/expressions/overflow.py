"""Values that an expression fails on: which expression it was, and what to do about it."""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import QueryError

_OVERFLOW: Final = re.compile(r"overflow|out of range", re.IGNORECASE)
_PREFIX: Final = re.compile(r"^(?:[A-Z][a-z]+ )(?:[A-Za-z]+ )*Error: ")
_DECIMAL: Final = (
    "decimals have at most 38 digits: cast to fewer before, such as CAST(x AS DECIMAL(18, 2)), or to DOUBLE"
)
_NULL: Final = "TRY(...) gives NULL instead"


def overflows(error: QueryError) -> bool:
    """Whether the kernel complains of a value that does not fit its type."""
    return _OVERFLOW.search(error.what) is not None


def explained(error: QueryError, what: str, text: str) -> QueryError:
    """An error of the kernel, told as one of an expression."""
    reason = _PREFIX.sub("", error.what).rstrip(";!")
    return QueryError(f"{what} overflows: {reason}", found=text, hint=f"{_advice(error.what)}; {_NULL}")


def completed(error: QueryError, text: str) -> None:
    """Tell an error of the kernel, where a box computes several things at once, what these are and what to do."""
    if overflows(error) and error.found is None and error.hint is None and "exceeds" not in error.what:
        error.what = _PREFIX.sub("", error.what).rstrip(";!")
        error.found = text
        error.hint = "sum(CAST(x AS DOUBLE)) has room for it" if "HUGEINT" in error.what else _advice(error.what)


def _advice(reason: str) -> str:
    return _DECIMAL if "DECIMAL" in reason else "CAST(x AS DOUBLE) on one side has room for it"
