"""Temporal databases in plain Python, and random streams of elements that make them.

An event is (payload, start, end), and a database counts how often it holds each. Nothing here is shared with the code
under test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

SCHEMA = {"kind": "string", "vs": "int64", "ve": "int64", "vold": "int64", "k": "string", "v": "int64"}
Event = tuple[tuple[Any, ...], Any, Any]
Database = Counter[Event]


def database(rows: Iterable[dict[str, Any]], payload: tuple[str, ...] = ("k", "v")) -> Database:
    """What elements come to, in any order: each adds an event, takes one away, or both."""
    found: Database = Counter()
    for row in rows:
        if row["kind"] == "stable":
            continue
        p = tuple(row[name] for name in payload)
        if row["kind"] == "adjust":
            found[p, row["vs"], row["vold"]] -= 1
        if row["kind"] == "insert" or row["ve"] != row["vs"]:
            found[p, row["vs"], row["ve"]] += 1
    return Counter({event: number for event, number in found.items() if number})


def database_of(table: pa.Table, payload: tuple[str, ...] = ("k", "v")) -> Database:
    return database(table.to_pylist(), payload)


@dataclass(frozen=True)
class Script:
    """Rows of a temporal input, stable ones among them, and which of them adjust no event."""

    rows: tuple[dict[str, Any], ...]
    illegal: frozenset[int]

    def legal(self, before: int | None = None) -> list[dict[str, Any]]:
        """The elements up to a row that are no mistake."""
        return [row for at, row in enumerate(self.rows[:before]) if at not in self.illegal and row["kind"] != "stable"]


def element(kind: str, p: tuple[Any, ...], vs: int, ve: int | None, vold: int | None = None) -> dict[str, Any]:
    return {"kind": kind, "vs": vs, "ve": ve, "vold": vold, "k": p[0], "v": p[1]}


@st.composite
def scripts(draw: Any, most: int = 25, mistakes: bool = False) -> Script:
    """Inserts, adjusts, removals and stable points in any order that is legal; with mistakes, adjusts of no event."""
    rows: list[dict[str, Any]] = []
    illegal: set[int] = set()
    events: Database = Counter()
    stable, scale = draw(st.integers(-3, 0)), draw(st.sampled_from([1, 700]))
    payloads = st.tuples(st.sampled_from([None, "a"]), st.integers(0, 2))

    def later(least: int) -> Any:
        return st.one_of(st.none(), st.integers(least, least + 4).map(lambda t: t))

    for _ in range(draw(st.integers(0, most))):
        open_ones = sorted((e for e in events if e[2] is None or e[2] >= stable), key=repr)
        what = draw(st.sampled_from(["insert", "insert", "adjust", "adjust", "stable", "mistake"]))
        if what == "stable":
            stable += draw(st.integers(0, 3))
            rows.append(element("stable", (None, None), stable, None))
        elif what == "adjust" and open_ones:
            p, vs, old = draw(st.sampled_from(open_ones))
            ends = [e for e in range(max(stable, vs), max(stable, vs) + 5) if e != old] + [None] * (old is not None)
            end = draw(st.sampled_from(ends))
            events[p, vs, old] -= 1
            if end != vs:
                events[p, vs, end] += 1
            events = +events
            rows.append(element("adjust", p, vs, end, old))
        elif what == "mistake" and mistakes:
            p, vs = draw(payloads), stable + draw(st.integers(-2, 3))
            old, end = draw(st.permutations([None, *range(max(stable, vs + 1), max(stable, vs + 1) + 3)]))[:2]
            if not events[p, vs, old]:
                illegal.add(len(rows))
                rows.append(element("adjust", p, vs, end, old))
        elif what == "insert":
            p, vs = draw(payloads), stable + draw(st.integers(0, 4))
            end = draw(later(vs + 1))
            events[p, vs, end] += 1
            rows.append(element("insert", p, vs, end))

    def scaled(row: dict[str, Any]) -> dict[str, Any]:
        return {n: v * scale if n in ("vs", "ve", "vold") and v is not None else v for n, v in row.items()}

    return Script(tuple(map(scaled, rows)), frozenset(illegal))
