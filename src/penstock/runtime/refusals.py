"""Why records were refused: the first reasons, each with a count and an example.

Reasons quote the value that did not fit, so they are counted by kind, without it. Every task notes the first kinds that
it meets, and the board's record keeps the first of all; what is beyond is counted together. So a note and a record stay
small, however broken an input is, and the same batches give the same record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

KINDS: Final = 16
"""Kinds of reasons that are kept of an input."""
SHOWN: Final = 3
"""Kinds that a sentence names."""
LONGEST_REASON: Final = 300
"""Characters that are kept of a reason, and of a place."""
_VALUES: Final = (
    (r"(?s)^(column .*?): .* is no ", r"\1: … is no "),
    (r"(?s)invalid value '.*'", "invalid value '…'"),
)
"""Where reasons quote a value, and how they read without it."""


@dataclass(frozen=True)
class Refusal:
    """Records that were refused for one kind of reason, and the first of them."""

    kind: str
    count: int
    example: str
    """The reason of the first one, as it stands in the error stream."""
    origin: str
    position: int | None

    def __str__(self) -> str:
        place = self.origin if self.position is None else f"{self.origin} at {self.position}"
        alike = " and the like" if self.count > 1 and self.kind != self.example else ""
        return f"{self.example}{alike} ({self.count:,}, first in {place})"


@dataclass(frozen=True)
class Refusals:
    """The refused records of an input, by kind of reason, in the order in which kinds appeared."""

    kinds: Mapping[str, Refusal] = field(default_factory=dict)
    others: int = 0
    """Records that were refused for reasons beyond those that are kept."""

    @property
    def count(self) -> int:
        return self.others + sum(refusal.count for refusal in self.kinds.values())

    def add(self, rejects: pa.Table) -> Refusals:
        """These and the rows of an error stream; one may stand for several records."""
        kinds = rejects.column("reason")
        for pattern, plain in _VALUES:
            kinds = pc.replace_substring_regex(kinds, pattern, plain)
        told = rejects.set_column(rejects.column_names.index("record"), "kind", kinds)
        told = told.set_column(told.column_names.index("rows"), "rows", pc.fill_null(told.column("rows"), 1))
        firsts = ("reason", "origin", "position")
        # By one thread, groups come in the order in which they appear.
        found = told.group_by("kind", use_threads=False).aggregate(
            [("rows", "sum"), *((name, "first", pc.ScalarAggregateOptions(skip_nulls=False)) for name in firsts)]
        )
        more = []
        for row in found.to_pylist():
            reason, origin = row["reason_first"][:LONGEST_REASON], row["origin_first"][:LONGEST_REASON]
            kind = row["kind"][:LONGEST_REASON]
            more.append(Refusal(kind, row["rows_sum"], reason, origin, row["position_first"]))
        return self._with(more)

    def merge(self, more: Refusals) -> Refusals:
        """These and what another place has counted later."""
        return self._with(more.kinds.values(), more.others)

    def sentence(self) -> str:
        """The most frequent reasons, for people."""
        frequent = sorted(self.kinds.values(), key=lambda refusal: -refusal.count)
        rest = sum(refusal.count for refusal in frequent[SHOWN:]) + self.others
        told = [*map(str, frequent[:SHOWN]), *([f"other reasons ({rest:,})"] if rest else [])]
        return "; ".join(told)

    def _with(self, more: Iterable[Refusal], others: int = 0) -> Refusals:
        kinds, others = dict(self.kinds), self.others + others
        for refusal in more:
            known = kinds.get(refusal.kind)
            if known is not None:
                kinds[refusal.kind] = replace(known, count=known.count + refusal.count)
            elif len(kinds) < KINDS:
                kinds[refusal.kind] = refusal
            else:
                others += refusal.count
        return Refusals(kinds, others)

    def to_json(self) -> dict[str, Any]:
        return {"kinds": {kind: dict(vars(refusal)) for kind, refusal in self.kinds.items()}, "others": self.others}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Refusals:
        return Refusals({kind: Refusal(**refusal) for kind, refusal in document["kinds"].items()}, document["others"])
