"""Aggregate in plain Python, tuple by tuple, and random inputs for it: what the box must agree with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

import penstock as pk

SCHEMA = {"ts": "int64", "k": "string", "j": "int64", "v": "int64"}
Row = tuple[int, str | None, int, int]

OUTPUTS: dict[str, Any] = {
    "n": "count(*)",
    "total": "sum(v)",
    "mid": "median(v)",
    "last_v": "arg_max(v, v)",
    "kinds": "count(DISTINCT v)",
    # Exact: of so many registers no two of these values share one.
    "about": "approx_count_distinct(v, 0.0022)",
    "vs": pk.window_function(final=lambda window: window["v"].tolist(), returns="list<int64>", columns=["v"]),
    "steps": pk.window_function(list, lambda seen, row: [*seen, row["v"]], returns="list<int64>", columns="v"),
}


@dataclass(frozen=True)
class Spec:
    """What an aggregate box is told."""

    size: int
    advance: int | None = None
    opens: int | None = None
    """The predicate is `v < opens`."""
    by: tuple[str, ...] = ()
    numbered: bool = False
    first: bool = False
    slack: int | None = None
    order_by: tuple[str, ...] = ()
    timeout: int | None = None
    """In seconds."""
    partial: bool = False

    def arguments(self) -> dict[str, Any]:
        found: dict[str, Any] = {"size": self.size, "by": self.by, "on": pk.TUPLE_NUMBER if self.numbered else "ts"}
        if self.advance is not None or self.opens is not None:
            found["advance"] = f"v < {self.opens}" if self.opens is not None else self.advance
        if self.slack is not None:
            found["assuming"] = pk.order("ts", self.slack, self.order_by)
        if self.timeout is not None:
            found["timeout"] = f"{self.timeout} seconds"
        return {**found, "origin": "first" if self.first else "epoch", "partial": self.partial}


@dataclass
class Member:
    """A tuple that belongs to windows."""

    tick: int
    arrival: int
    arrived: int
    row: Row


@dataclass
class Group:
    members: list[Member] = field(default_factory=list)
    count: int = 0
    origin: int | None = None
    fixed: bool = False
    opened: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)


class Oracle:
    """One box, told of trains one after the other."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.groups: dict[tuple[Any, ...], Group] = {}
        self.seen: dict[tuple[Any, ...], list[int]] = {}
        self.mark: float = -math.inf
        self.arrivals = 0
        self.results: list[tuple[Any, ...]] = []
        self.late: list[Row] = []
        self.ended = False

    def train(self, rows: Sequence[Row], mark: float, now: int, *, ended: bool) -> None:
        self._time_out(now)
        for row in rows:
            self._admit(row, now)
        self.mark, self.ended = mark, ended
        for key, group in self.groups.items():
            for start in self.starts(group):
                if start not in group.left and self._complete(key, group, start):
                    self._emit(key, group, start)
        self._time_out(now)

    def _admit(self, row: Row, now: int) -> None:
        spec, named = self.spec, dict(zip(SCHEMA, row, strict=True))
        group = self.groups.setdefault(tuple(named[b] for b in spec.by), Group())
        self.arrivals += 1
        tick = row[0]
        if spec.slack is not None:
            earlier = self.seen.setdefault(tuple(named[b] for b in spec.order_by), [])
            larger = sum(value > tick for value in earlier)
            earlier.append(tick)
            if larger > spec.slack:
                self.late.append(row)
                return
        if spec.numbered:
            group.count += 1
            tick = group.count
        if spec.first:
            if group.fixed and group.origin is not None and tick < group.origin:
                self.late.append(row)
                return
            group.origin = tick if group.origin is None else min(group.origin, tick)
        if spec.opens is not None and row[3] < spec.opens:
            group.opened.add(tick)
        around = self.windows_of(group, tick)
        if around and all(s in group.gone for s in around):
            self.late.append(row)
            return
        group.members.append(Member(tick, self.arrivals, now, row))

    def windows_of(self, group: Group, tick: int) -> list[int]:
        spec = self.spec
        if spec.opens is not None:
            return [a for a in group.opened if a <= tick < a + spec.size]
        advance = spec.advance or spec.size
        origin = 1 if spec.numbered else group.origin if spec.first else 0
        assert origin is not None
        last = origin + (tick - origin) // advance * advance
        found = []
        while last + spec.size > tick:
            if last >= origin or not (spec.numbered or spec.first):
                found.append(last)
            last -= advance
        return found

    def starts(self, group: Group) -> list[int]:
        return sorted({s for m in group.members for s in self.windows_of(group, m.tick)})

    def reached(self, key: tuple[Any, ...], group: Group) -> float:
        """The smallest tick that may still come in a group."""
        if self.spec.numbered:
            return group.count + 1
        if self.spec.slack is None:
            return self.mark
        named = dict(zip(self.spec.by, key, strict=True))
        values = sorted(self.seen[tuple(named[b] for b in self.spec.order_by)], reverse=True)
        return values[self.spec.slack] if len(values) > self.spec.slack else -math.inf

    def inside(self, group: Group, start: int) -> list[Member]:
        return [m for m in group.members if start <= m.tick < start + self.spec.size]

    def _complete(self, key: tuple[Any, ...], group: Group, start: int) -> bool:
        ended = self.ended and (self.spec.partial or not self.spec.numbered)
        return ended or self.reached(key, group) >= start + self.spec.size

    def _time_out(self, now: int) -> None:
        if self.spec.timeout is None:
            return
        for key, group in self.groups.items():
            for start in self.starts(group):
                opened = min(m.arrived for m in self.inside(group, start))
                if start not in group.left and opened + self.spec.timeout < now:
                    self._emit(key, group, start)
                    group.gone.add(start)
                    group.fixed = True

    def _emit(self, key: tuple[Any, ...], group: Group, start: int) -> None:
        group.left.add(start)
        inside = self.inside(group, start)
        vs = tuple(m.row[3] for m in sorted(inside, key=lambda m: (m.tick, m.arrival)))
        arrived = min(m.arrived for m in inside)
        ranked = sorted(vs)
        middle = (ranked[(len(vs) - 1) // 2] + ranked[len(vs) // 2]) / 2
        self.results.append(
            (start, *key, len(vs), sum(vs), middle, max(vs), len(set(vs)), len(set(vs)), vs, vs, arrived)
        )


@dataclass(frozen=True)
class Train:
    """What one batch takes in."""

    rows: tuple[Row, ...]
    mark: int | None
    """What punctuation states at its end, if it states anything."""
    now: int


@dataclass(frozen=True)
class Case:
    spec: Spec
    trains: tuple[Train, ...]
    buckets: int
    tasks: int

    @property
    def rows(self) -> list[Row]:
        return [row for train in self.trains for row in train.rows]

    def source(self, net: pk.Network) -> pk.Stream:
        """The trains as they are: filled up to one length with further readings of the clock."""
        longest = max(len(train.rows) for train in self.trains) + 2
        elements: list[Any] = []
        for train in self.trains:
            stated = [] if train.mark is None else [pk.punctuation(ts=train.mark)]
            elements += [*train.rows, *stated, *[pk.clock(train.now)] * (longest - len(train.rows) - len(stated))]
        script = pk.memory(elements, schema=SCHEMA, train=longest)
        return net.source("in", script, progress=pk.punctuated())

    def network(self) -> pk.Network:
        net = pk.Network("net")
        self.source(net).aggregate(OUTPUTS, name="box", **self.spec.arguments()).output("out")
        return net

    def oracle(self) -> Oracle:
        oracle = Oracle(self.spec)
        for number, train in enumerate(self.trains, 1):
            mark = oracle.mark if train.mark is None else train.mark
            oracle.train(train.rows, mark, train.now, ended=number == len(self.trains))
        return oracle


def check(case: Case, result: pk.Result) -> None:
    """The box agrees with the oracle: results, when their tuples arrived, late tuples, and all tuples accounted for."""
    oracle = case.oracle()
    leaving = [e for e in result.elements("out") if isinstance(e, dict)]
    found = Counter((*values(e), round(e.arrived.timestamp())) for e in leaving)
    assert found == Counter(oracle.results)
    aside = case.spec.slack is not None or case.spec.timeout is not None
    late = [values(row) for row in result.late("box").to_pylist()] if aside else []
    assert Counter(late) == Counter(oracle.late)
    work = result.record().boxes["box"]
    assert work.late == len(late)
    assert work.released + work.late == work.tuples_in == len(case.rows)
    assert work.held_rows == work.open_windows == 0
    assert result.late("in").num_rows == 0
    check_progress(result, "Tup#" if case.spec.numbered else "ts")


def values(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The values of a tuple, so that they can be counted."""
    return tuple(tuple(v) if isinstance(v, list) else v for v in row.values())


def check_progress(result: pk.Result, on: str) -> None:
    """Punctuation only rises, and no tuple violates what was stated before it."""
    stated = -math.inf
    for element in result.elements("out"):
        if isinstance(element, dict):
            assert element[on] >= stated
        else:
            ((attribute, value),) = element.value
            assert attribute == on
            assert value > stated
            stated = value


@st.composite
def cases(draw: Any, specs: st.SearchStrategy[Spec], *, most: int = 8) -> Case:
    """Trains of rows around a time that goes on, each stating no more than what follows keeps, with a clock."""
    disorder = draw(st.integers(0, 25))
    sizes = draw(st.lists(st.sampled_from([0, 1, 2, 4, 7, 12]), min_size=1, max_size=most))
    groups = st.tuples(st.sampled_from(["x", "y", None]), st.integers(0, 1), st.integers(-3, 9))
    at, now, found = draw(st.integers(-20, 20)), 0, []
    for size in sizes:
        rows = []
        for k, j, v in draw(st.lists(groups, min_size=size, max_size=size)):
            at += draw(st.integers(0, 6))
            rows.append((at - draw(st.integers(0, disorder)), k, j, v))
        now += draw(st.integers(0, 4))
        found.append((tuple(rows), now))
    trains, follows = [], at + draw(st.integers(0, 20))
    for rows, reading in reversed(found):
        mark = None if draw(st.booleans()) else follows - draw(st.integers(0, 5))
        trains.append(Train(rows, mark, reading))
        follows = min([follows, *(row[0] for row in rows)])
    # What was stated once stays stated.
    made, stated = [], None
    for train in reversed(trains):
        rises = train.mark is not None and (stated is None or train.mark > stated)
        stated = train.mark if rises else stated
        made.append(train if rises else Train(train.rows, None, train.now))
    return Case(draw(specs), tuple(made), draw(st.integers(1, 3)), draw(st.integers(1, 3)))
