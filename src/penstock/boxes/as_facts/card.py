"""The card of as_facts."""

from __future__ import annotations

from typing import Final

from penstock.boxes.as_facts.box import AsFacts
from penstock.boxes.words import NAME, Words

CARDS: Final = (
    Words(
        "as_facts",
        AsFacts,
        "stream",
        "Makes a temporal stream an ordinary one: every event leaves once, when it can no longer change.",
        "one stream of vs, ve and the payload, which makes progress on vs",
        'packets.as_temporal(end="1 minute").as_facts()',
        {"name": NAME},
    ),
)
