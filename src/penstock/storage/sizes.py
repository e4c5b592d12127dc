"""Numbers of bytes, as people write and read them."""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import QueryError

Size = int | str
"""A number of bytes, or a text such as "10 GB"."""
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b(?:ytes?)?\s*", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def bytes_of(text: str) -> int | None:
    """The bytes that a text such as "10 GB" means; None for other texts.

    >>> bytes_of("10 GB"), bytes_of("1 MiB"), bytes_of("2 hours")
    (10000000000, 1048576, None)
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        return None
    number, unit, binary = found.groups()
    return round(float(number) * float(1024 if binary else 1000) ** _POWERS[unit.lower()])


def size_of(name: str, given: Size) -> int:
    """The bytes that somebody has said by the argument `name`."""
    found = bytes_of(given) if isinstance(given, str) else given
    if isinstance(given, bool) or found is None or found < 1:
        raise QueryError(f"{name}={given!r} is no size", expected="bytes: a number, or a text such as '10 GB'")
    return found


def size_text(count: int) -> str:
    """A number of bytes with its unit.

    >>> size_text(999), size_text(1_234_567)
    ('999 B', '1.2 MB')
    """
    amount = float(count)
    for unit in _UNITS:
        if amount < 1000 or unit == _UNITS[-1]:
            break
        amount /= 1000
    return f"{amount:,.0f} B" if unit == "B" else f"{amount:,.1f} {unit}"
