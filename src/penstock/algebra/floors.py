"""Floors: from which ticks on the tuples of a stream are of use to somebody behind it (lmerge.md V-D).

A merge that has come to a time needs nothing from before it, from whichever copy. That goes upstream, box by box, by
the rule of each (`Box.useful_from`), up to the inputs, which leave out what is below their floors. On the way boxes let
go of what they hold of it (`Holder.purge`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

Floors = Mapping[str, int]
"""Ticks by attribute: a tuple that is below one of them is of no use. Without any, all tuples may be of use."""
NO_FLOORS: Final[Floors] = {}


def lowest(readers: Iterable[Floors | None]) -> Floors | None:
    """Floors that suit all readers of a stream, or of all streams that a box makes; None stands for no reader.

    >>> lowest([{"ts": 5, "te": 9}, None, {"ts": 3}]), lowest([{"ts": 5}, {}]), lowest([None])
    ({'ts': 3}, {}, None)
    """
    known = [floors for floors in readers if floors is not None]
    if not known:
        return None
    shared = [name for name in known[0] if all(name in floors for floors in known)]
    return {name: min(floors[name] for floors in known) for name in shared}


def highest(one: Floors, other: Floors) -> Floors:
    """All that is known of one stream, if each of two is true of it.

    >>> highest({"ts": 5, "te": 9}, {"ts": 7})
    {'ts': 7, 'te': 9}
    """
    return {name: max(floors[name] for floors in (one, other) if name in floors) for name in {**one, **other}}


def named_before(floors: Floors | None, names: Mapping[str, str]) -> Floors | None:
    """Floors of what leaves a box, for what enters it: `names` says what attributes that it leaves as they are were
    called before.

    >>> named_before({"time": 5, "n": 3}, {"time": "ts"})
    {'ts': 5}
    """
    if floors is None:
        return None
    return {names[name]: tick for name, tick in floors.items() if name in names}
