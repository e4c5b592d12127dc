"""What somebody may have meant who wrote a name that does not exist: only names that are really near."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

_NEAR: Final = 0.75
"""As near as two words of four letters of which two have changed places; what is alike by chance is further off."""
_TIE: Final = 0.05
"""Others are named beside the nearest only if they are as near."""


def near(name: str, known: Iterable[str]) -> list[str]:
    """The known names that are nearest, two at most; none if all are far away.

    >>> near("srcIPs", ["srcIP", "destIP"]), near("zzz", ["srcIP", "destIP"])
    (['srcIP'], [])
    """
    folded = {each.casefold(): each for each in known}
    found = difflib.get_close_matches(name.casefold(), folded, n=2, cutoff=_NEAR)
    scores = [difflib.SequenceMatcher(None, each, name.casefold()).ratio() for each in found]
    return [folded[each] for each, score in zip(found, scores, strict=True) if score > scores[0] - _TIE]


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint, where a name is near to known ones."""
    found = near(name, known)
    return f"did you mean {' or '.join(found)}?" if found else None
