"""The card of resample."""

from __future__ import annotations

from typing import Final

from penstock.boxes.resample.box import Resample
from penstock.boxes.words import BY, NAME, Words

CARDS: Final = (
    Words(
        "resample",
        Resample,
        "stream",
        "For every tuple of this stream, values interpolated from the tuples of another that are near it in time.",
        "one stream: group, time of this stream's tuple, outputs",
        'ticks.resample(packets, {"mean": "avg(len)"}, on=("ts", "ts"), size="10 seconds", by="link")',
        {
            "other": "the stream to interpolate",
            "outputs": "{attribute: SQL with aggregates over the tuples of `other`}",
            "size": "how far a tuple of `other` may be away",
            "on": "the progressing attribute of each stream",
            "by": BY + ", of `other`",
            "assuming": "pk.order(...): deduce the progress of `other` from arrival, group by group",
            "name": NAME,
        },
    ),
)
