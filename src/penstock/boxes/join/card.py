"""The card of join."""

from __future__ import annotations

from typing import Final

from penstock.boxes.join.box import Join
from penstock.boxes.words import NAME, Words

CARDS: Final = (
    Words(
        "join",
        Join,
        "stream",
        "Pairs of tuples of two streams that are near each other in time and satisfy a predicate; of events of "
        "temporal streams, while both are valid; or lookups in a static table.",
        "one stream of pairs; names that collide come out as l_x and r_x",
        'packets.join(replies, "l.srcIP = r.destIP", on=("ts", "ts"), size="10 seconds")',
        {
            "other": "a stream, or pk.table(...)",
            "predicate": "an SQL condition over l.x and r.y",
            "on": "the progressing attribute of each side",
            "size": "how far the two may be apart",
            "band": "(before, after): the right one may lie from `before` before to `after` after the left one",
            "how": "'inner', 'left', 'right', 'full', 'semi' or 'anti'",
            "names": "what the sides are called",
            "progress": "which attribute progresses: 'pair' (both), 'left', 'right', 'min' or 'max'",
            "assuming": "(pk.order(...), pk.order(...)): deduce progress from arrival",
            "name": NAME,
        },
    ),
)
