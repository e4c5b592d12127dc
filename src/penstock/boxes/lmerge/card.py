"""The card of lmerge."""

from __future__ import annotations

from typing import Final

from penstock.boxes.lmerge.box import LMerge
from penstock.boxes.lmerge.verb import lmerge
from penstock.boxes.words import NAME, Words

CARDS: Final = (
    Words(
        "lmerge",
        LMerge,
        "pk",
        "Copies of one stream as one, complete and without duplicates, as far as the furthest of them.",
        "one stream; errors() are the elements that broke a promise",
        "pk.lmerge(packets, replies)",
        {
            "streams": "two copies or more, all temporal or all ordinary",
            "on": "the attribute at which events of ordinary streams begin; the only one they all make progress on",
            "case": "'R0' to 'R4' or 'R3-'; without it the simplest that the inputs allow",
            "policy": "pk.merge_policy(...): when to insert, when to adjust, how far behind to be stable",
            "feedback": "whether inputs leave out what is of no use to the merge any more",
            "name": NAME,
        },
        function=lmerge,
    ),
)
