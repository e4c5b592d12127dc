"""The card of dedupe."""

from __future__ import annotations

from typing import Final

from penstock.boxes.dedupe.box import Dedupe
from penstock.boxes.words import NAME, Words

CARDS: Final = (
    Words(
        "dedupe",
        Dedupe,
        "stream",
        "Lets the first of several equal tuples pass. What it remembers is let go of by punctuation.",
        "one stream without duplicates",
        'packets.dedupe(by=["srcIP", "destIP"], on="ts")',
        {
            "by": "the attributes in which duplicates agree, besides `on`; all if not given",
            "on": "the progressing attribute, in which duplicates agree too",
            "name": NAME,
        },
    ),
)
