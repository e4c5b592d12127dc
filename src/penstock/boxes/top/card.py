"""The card of top."""

from __future__ import annotations

from typing import Final

from penstock.boxes.top.box import Top
from penstock.boxes.words import BY, NAME, Words

CARDS: Final = (
    Words(
        "top",
        Top,
        "stream",
        "The n tuples with the largest value of an expression, in every window and group.",
        "one stream of tuples, each with the start of its window and its rank in it",
        'packets.top(3, by="len", on="ts", size="1 minute", groups="link")',
        {
            "n": "how many tuples of a window and group leave, at most",
            "by": "an SQL expression; tuples without a value come last",
            "size": "the length of a window, in values of `on`",
            "on": "the window attribute; the only progressing one if not given",
            "advance": "the distance of two window starts; the size if not given",
            "groups": BY,
            "ascending": "whether the smallest values are wanted instead of the largest",
            "name": NAME,
        },
    ),
)
