"""The cards of merge and cleanse."""

from __future__ import annotations

from typing import Final

from penstock.boxes.cleanse.box import Cleanse, Merge
from penstock.boxes.cleanse.verb import merge
from penstock.boxes.words import NAME, Words

CARDS: Final = (
    Words(
        "merge",
        Merge,
        "pk",
        "The order-preserving union: all tuples of several streams, in order of one attribute.",
        "one stream, in order",
        "pk.merge(packets, replies)",
        {
            "streams": "two streams or more",
            "on": "the attribute to order by; the only progressing one if not given",
            "name": NAME,
        },
        function=merge,
    ),
    Words(
        "cleanse",
        Cleanse,
        "stream",
        "Puts a disordered stream in order: a tuple leaves when the low-water mark has reached it.",
        "one stream, in order",
        "packets.cleanse()",
        {
            "on": "the attribute to order by; the only progressing one if not given",
            "by": "order each group on its own, in parallel; one order over all if empty",
            "name": NAME,
        },
    ),
)
