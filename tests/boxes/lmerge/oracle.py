"""The definitions and algorithms of lmerge.md in plain Python, one element after the other."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.algebra.temporal.prefixes import Element, adjust, insert

INF = math.inf
Key = tuple[Any, int]
Database = Counter[tuple[Any, int, float]]


def end(value: int | None) -> float:
    return INF if value is None else value


class Reconstituted:
    """tdb(S, i), element by element; an adjust of what is not there fails."""

    def __init__(self) -> None:
        self.events: Database = Counter()

    def add(self, elements: Iterable[Element]) -> None:
        for _, kind, vs, ve, vold, p in elements:
            if kind == "adjust":
                assert self.events[p, vs, end(vold)] > 0, f"adjusts what is not there: {p, vs, vold, ve}"
                self.events[p, vs, end(vold)] -= 1
            if end(ve) != vs:
                assert end(ve) > vs
                self.events[p, vs, end(ve)] += 1
        self.events = +self.events


def compatible(output: Database, mark: float, inputs: Sequence[tuple[Database, float]]) -> list[str]:
    """Conditions C1 to C3 of III-D, or those of R4 where an input has several events of a payload and a Vs."""
    furthest = max(m for _, m in inputs)
    wrong = [] if mark <= furthest else ["C1"]
    if any(n > 1 for db, _ in inputs for n in Counter((p, vs) for p, vs, _ in db.elements()).values()):
        leader = next(db for db, m in inputs if m == furthest)
        return [*wrong, *_compatible_counts(output, mark, leader)]
    ours = _by_key(output)
    theirs = [(_by_key(db), m) for db, m in inputs]
    wrong += [f"C2 several {key}" for key, ends in ours.items() if len(ends) > 1]
    for key, ends in ours.items():
        for ve in ends:
            held = [(v, m) for db, m in theirs for v in db.get(key, ())]
            if _state(key, ve, mark) == "HF" and not any(
                _state(key, v, m) == "HF" or (_state(key, v, m) == "FF" and mark <= v) for v, m in held
            ):
                wrong.append(f"C2 HF {key}")
            if _state(key, ve, mark) == "FF" and not any(v == ve and _state(key, v, m) == "FF" for v, m in held):
                wrong.append(f"C2 FF {key}")
    for key in {key for db, _ in theirs for key in db}:
        held = [(v, m) for db, m in theirs for v in db.get(key, ())]
        half = any(_state(key, ve, mark) == "HF" for ve in ours.get(key, ()))
        full = [v for v, m in held if _state(key, v, m) == "FF"]
        halves = [m for v, m in held if _state(key, v, m) == "HF"]
        for v in full:
            if not (mark <= key[1] or (mark <= v and half) or (v < mark and v in ours.get(key, ()))):
                wrong.append(f"C3 FF {key}")
        if not full and halves and not (mark <= key[1] or (mark <= max(halves) and half)):
            wrong.append(f"C3 HF {key}")
    return wrong


def _compatible_counts(output: Database, mark: float, leader: Database) -> list[str]:
    def frozen(db: Database) -> Database:
        return Counter({event: n for event, n in db.items() if event[2] < mark})

    def half(db: Database) -> Counter[Key]:
        found: Counter[Key] = Counter()
        for (p, vs, ve), n in db.items():
            found[p, vs] += n if vs < mark <= ve else 0
        return +found

    return ["R4 FF"] * (frozen(output) != frozen(leader)) + ["R4 HF"] * (half(output) != half(leader))


def _state(key: Key, ve: float, mark: float) -> str:
    return "FF" if ve < mark else "HF" if key[1] < mark else "UF"


def _by_key(db: Database) -> dict[Key, list[float]]:
    found: dict[Key, list[float]] = defaultdict(list)
    for p, vs, ve in db.elements():
        found[p, vs].append(ve)
    return dict(found)


@dataclass
class R0:
    """Algorithm R0; `out` gets elements, and stable points as numbers."""

    inputs: int
    out: list[Element | float] = field(default_factory=list)
    max_vs: float = -INF
    max_stable: float = -INF

    def element(self, e: Element, s: int) -> None:
        if e[2] > self.max_vs:
            self.max_vs = e[2]
            self.out.append(e)

    def stable(self, t: float, s: int) -> None:
        if t > self.max_stable:
            self.max_stable = t
            self.out.append(t)


@dataclass
class R1(R0):
    """Algorithm R1."""

    same: dict[int, int] = field(default_factory=dict)

    def element(self, e: Element, s: int) -> None:
        if e[2] < self.max_vs:
            return
        if e[2] > self.max_vs:
            self.same = {}
            self.max_vs = e[2]
        if max(self.same.values(), default=0) == self.same.get(s, 0):
            self.out.append(e)
        self.same[s] = self.same.get(s, 0) + 1


@dataclass
class R2(R0):
    """Algorithm R2."""

    hashed: set[Any] = field(default_factory=set)

    def element(self, e: Element, s: int) -> None:
        if e[2] < self.max_vs:
            return
        if e[2] > self.max_vs:
            self.hashed = set()
            self.max_vs = e[2]
        if e[5] not in self.hashed:
            self.hashed.add(e[5])
            self.out.append(e)


@dataclass
class R3(R0):
    """Algorithm R3; key None is the output."""

    index: dict[Key, dict[int | None, float]] = field(default_factory=dict)

    def element(self, e: Element, s: int) -> None:
        _, kind, vs, ve, _, p = e
        node = self.index.get((p, vs))
        if kind == "insert":
            if node is None:
                if vs < self.max_stable:
                    return
                node = self.index[p, vs] = {None: end(ve)}
                self.out.append(e)
            node[s] = end(ve)
        elif node is not None:
            node[s] = end(ve)

    def stable(self, t: float, s: int) -> None:
        if t <= self.max_stable:
            return
        for (p, vs), node in sorted(self.index.items()):
            if vs >= t:
                continue
            told, ours = node.get(s, vs), node[None]
            if told != ours and (told < t or ours < t):
                self.out.append(adjust(p, vs, ours, told) if ours != vs else insert(p, vs, told))
                node[None] = told
            if told < t:
                del self.index[p, vs]
        self.max_stable = t
        self.out.append(t)
