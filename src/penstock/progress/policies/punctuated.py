"""`pk.punctuated`: the source itself says how far it has come."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.algebra.ticks import BEGINNING
from penstock.progress.extremes import Extremes
from penstock.progress.idle import Idle
from penstock.progress.policies.options import check_options, stated, with_options
from penstock.progress.policy import Policy


@dataclass(frozen=True)
class Punctuated(Policy):
    """What the source itself says: punctuation elements, or records marked as punctuation by `where`.

    A record for which the SQL predicate `where` holds is no tuple: it states that every later record of its shard
    has at least its value of the progressing attribute.
    """

    where: str | None = None
    idle: Idle | None = None
    descending: bool = False

    def check(self, kind: pa.DataType) -> None:
        check_options(self, kind)

    def low_water_mark(self, seen: Extremes, kind: pa.DataType) -> int:
        return stated(seen, BEGINNING)

    def describe(self) -> str:
        return with_options(f"punctuated where {self.where}" if self.where else "punctuated", self)


def punctuated(where: str | None = None, *, idle: Idle | None = None, descending: bool = False) -> Punctuated:
    """The source states its own progress, in punctuation elements or in records for which `where` holds.

    `idle` and `descending` as for `ordered`: of a number that decreases, no later record is above what is stated.
    """
    return Punctuated(where, idle, descending)
