"""Bytes as people read them."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB")


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
