"""The card of as_temporal."""

from __future__ import annotations

from typing import Final

from penstock.boxes.as_temporal.box import AsTemporal
from penstock.boxes.words import NAME, Words

CARDS: Final = (
    Words(
        "as_temporal",
        AsTemporal,
        "stream",
        "Makes every tuple an event with a lifetime: an element of a temporal stream.",
        "a temporal stream of inserts, which makes progress on sync",
        'packets.as_temporal(end="1 minute")',
        {
            "start": "the progressing attribute at which events start; the only one if not given",
            "end": "when they end: a length such as '1 minute', or an SQL expression; never if not given",
            "name": NAME,
        },
    ),
)
