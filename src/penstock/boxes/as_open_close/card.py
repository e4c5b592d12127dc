"""The card of as_open_close."""

from __future__ import annotations

from typing import Final

from penstock.boxes.as_open_close.box import AsOpenClose
from penstock.boxes.words import NAME, Words

CARDS: Final = (
    Words(
        "as_open_close",
        AsOpenClose,
        "stream",
        "Gives a temporal stream as opens and closes of events: what begins, and what ends.",
        "one stream of sync, kind, at and the payload, which makes progress on sync",
        'packets.as_temporal(end="1 minute").as_open_close()',
        {"name": NAME},
    ),
)
