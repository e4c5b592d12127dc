"""The card of map."""

from __future__ import annotations

from typing import Final

from penstock.boxes.map.box import Map
from penstock.boxes.words import NAME, Words

CARDS: Final = (
    Words(
        "map",
        Map,
        "stream",
        "Computes new tuples: every attribute is an expression of the old ones.",
        "one stream; attributes that are monotone in a progressing one progress",
        'packets.map(ts="ts", kilobytes="len / 1000")',
        {"outputs": "attribute='SQL expression', one for each attribute of the new tuples", "name": NAME},
    ),
)
