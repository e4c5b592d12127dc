"""The card of union."""

from __future__ import annotations

from typing import Final

from penstock.boxes.union.box import Union
from penstock.boxes.union.verb import union
from penstock.boxes.words import NAME, Words

CARDS: Final = (
    Words(
        "union",
        Union,
        "pk",
        "All tuples of several streams of one schema, in any order.",
        "one stream; its progress is the least of its inputs'",
        "pk.union(packets, replies)",
        {"streams": "two streams or more", "name": NAME},
        function=union,
    ),
)
