"""The card of bsort."""

from __future__ import annotations

from typing import Final

from penstock.boxes.bsort.box import BSort
from penstock.boxes.words import BY, NAME, Words

CARDS: Final = (
    Words(
        "bsort",
        BSort,
        "stream",
        "Sorts as far as a buffer of n + 1 tuples can: Aurora's bounded bubble sort. Nothing is lost.",
        "one stream, nearly in order",
        'packets.bsort(on="ts", slack=2)',
        {
            "on": "the attribute to sort by; the only progressing one if not given",
            "slack": "n: how many tuples stay in the buffer of a group",
            "by": BY + ", each with a buffer of its own",
            "name": NAME,
        },
    ),
)
