"""The cards of filter and where."""

from __future__ import annotations

from typing import Final

from penstock.boxes.filter.box import Filter
from penstock.boxes.words import NAME, Words

CARDS: Final = (
    Words(
        "filter",
        Filter,
        "stream",
        "Routes every tuple to the first predicate it satisfies, and to the last stream if it satisfies none.",
        "one stream for each predicate, and one for the rest",
        'big, small, rest = packets.filter("len > 1000", "len < 100")',
        {"predicates": "SQL conditions, tried in their order; NULL is not true", "name": NAME},
    ),
    Words(
        "where",
        Filter,
        "stream",
        "Keeps the tuples that satisfy a predicate.",
        "one stream",
        'packets.where("len > 1000")',
        {"predicate": "an SQL condition; NULL is not true", "name": NAME},
    ),
)
