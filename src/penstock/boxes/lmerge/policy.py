"""Policies of LMerge: when its output says what its inputs say (lmerge.md V-A)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.algebra.ticks import Duration
from penstock.errors import QueryError

EAGER: Final = "eager"
LEADING: Final = "leading"
HALF_FROZEN: Final = "half-frozen"
AT_STABLE: Final = "stable"
EVERY: Final = "every"
LARGEST: Final = "largest"


@dataclass(frozen=True)
class MergePolicy:
    """When events are inserted, when they are adjusted, and how far behind its inputs the output is stable."""

    insert: str | float = EAGER
    adjust: str = AT_STABLE
    stable: Duration = LARGEST

    @property
    def at_once(self) -> bool:
        """Whether inserts leave as they come, and nothing else does: all that R0 to R2 can do."""
        return self.insert == EAGER and self.adjust == AT_STABLE

    def describe(self) -> str:
        """The choices, for explain.

        >>> MergePolicy(insert=0.5, stable="2 seconds").describe()
        'insert by 0.5 of the inputs, adjust at stable points, 2 seconds behind'
        """
        insert = self.insert if isinstance(self.insert, str) else f"by {self.insert:g} of the inputs"
        adjust = "at stable points" if self.adjust == AT_STABLE else "at once"
        behind = "" if self.stable == LARGEST else f", {self.stable} behind"
        return f"insert {insert}, adjust {adjust}{behind}"


DEFAULT: Final = MergePolicy()


def merge_policy(insert: str | float = EAGER, adjust: str = AT_STABLE, stable: Duration = LARGEST) -> MergePolicy:
    """When the output of `pk.lmerge` says what its inputs say.

    `insert`: "eager", when the first input has an event; "leading", when the input with the largest stable point has
    it; "half-frozen", when it is certain to stay; or when a fraction of the inputs has it, above 0 and up to 1. What
    gets half frozen is inserted by then in any case. `adjust`: "stable", when a stable point would make a difference
    last for ever; or "every", in the batch in which an input adjusts. `stable`: "largest", as far as the input that
    is furthest; or a span behind it, such as "2 seconds" or 10, which saves adjusts.
    """
    if isinstance(insert, str):
        if insert not in (EAGER, LEADING, HALF_FROZEN):
            raise QueryError(
                f"insert={insert!r} is unknown", expected=f"'{EAGER}', '{LEADING}', '{HALF_FROZEN}' or a fraction"
            )
    elif isinstance(insert, bool) or not isinstance(insert, int | float) or not 0 < insert <= 1:
        raise QueryError(f"insert={insert!r} is no fraction of the inputs", expected="a number above 0 and up to 1")
    if adjust not in (AT_STABLE, EVERY):
        raise QueryError(f"adjust={adjust!r} is unknown", expected=f"'{AT_STABLE}' or '{EVERY}'")
    return MergePolicy(insert if isinstance(insert, str) else float(insert), adjust, stable)
