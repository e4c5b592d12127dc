"""The card of aggregate."""

from __future__ import annotations

from typing import Final

from penstock.boxes.aggregate.box import Aggregate
from penstock.boxes.words import BY, NAME, Words

CARDS: Final = (
    Words(
        "aggregate",
        Aggregate,
        "stream",
        "Aggregates over windows of an attribute, for each group. A result leaves once, when its window is complete; "
        "or early, and is revised.",
        "one stream of results: window start, group, outputs; late() if it is defined on arrival order",
        'packets.aggregate({"n": "count(*)", "mb": "sum(len) / 1000000"}, on="ts", size="1 minute", by="link")',
        {
            "outputs": "{attribute: SQL with aggregates} or {attribute: pk.window_function(...)}",
            "size": "the length of a window, in values of `on` or in tuples",
            "on": "the window attribute, or pk.TUPLE_NUMBER; the only progressing one if not given",
            "advance": "the distance of two window starts, or a predicate: windows start where it holds; the size if "
            "not given",
            "by": BY,
            "assuming": "pk.order(...): deduce progress from arrival; tuples further out of order go to late()",
            "timeout": "a window open for longer than this on the wall clock leaves as it is",
            "origin": "'epoch': windows start at multiples of advance; 'first': at the first value of the group",
            "emit": "'final': a result leaves once, when its window is complete; 'speculative': in every batch, and is "
            "revised",
            "partial": "whether windows of tuples that are not full leave at the end of the input",
            "flush": "smooth the work of window ends: how entries of complete windows leave the low level's table, "
            "'at-once', 'slow', 'lazy' or 'in-order'",
            "table": "entries of that table in every bucket; 65536 if not given",
            "every": "slow: how many tuples must arrive for an old entry to leave; 160 if not given, 1 in order",
            "delay": "slow and lazy: how many windows later a result may leave; 2 if not given",
            "name": NAME,
        },
    ),
)
