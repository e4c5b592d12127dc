"""Random networks of every kind of box, for engines that must agree with each other.

All streams have the attributes `ts`, `u`, `k` and `v`: whatever a box gives is mapped back to them. Which boxes fit is
asked of the streams themselves. Inputs that may break their promises deliver one element to a batch, so that runs and
steps judge lateness by the same marks; others come in one train. Boxes that are defined on arrival stand only where the
order of arrival is fixed: behind inputs, and behind boxes that give their results in one order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

import penstock as pk

NAMES: Final = ("ts", "u", "k", "v")
SCHEMA: Final = {"ts": "int64", "u": "int64", "k": "string", "v": "int64"}

ARRIVING: Final = "arriving"
"""The order of arrival is that of the inputs."""
MADE: Final = "made"
"""It is that of a box which gives its results in one order."""
FREE: Final = "free"
"""It depends on how the network is run."""


@dataclass(frozen=True)
class Input:
    """Elements as they arrive: rows, punctuation, clocks."""

    elements: tuple[Any, ...]
    progress: Any
    late: str = "route"
    shard_by: str | None = None


@dataclass(frozen=True)
class Drawn:
    """One box: its kind, the numbers of the streams that it reads, and a choice among its forms."""

    kind: str
    one: int
    other: int
    form: int


@dataclass(frozen=True)
class Case:
    inputs: tuple[Input, ...]
    boxes: tuple[Drawn, ...]
    buckets: int = 1
    train: int | None = 1


@dataclass(frozen=True)
class Flow:
    """A stream, and what is known of the order of its tuples."""

    stream: pk.Stream
    order: str = FREE
    whole: bool = False
    """Whether inputs come in one train: of several, one then comes after the other."""

    @property
    def on(self) -> tuple[str, ...]:
        return tuple(name for name in self.stream.progressing if name in NAMES)

    @property
    def falls(self) -> bool:
        return "u" in self.stream._port.shape.falling


# --- inputs ----------------------------------------------------------------------------------------------------------


def _policies(groups: bool) -> st.SearchStrategy[Any]:
    bounds = st.sampled_from([0, 2, 4])
    by = st.sampled_from([(), "k"]) if groups else st.just(())
    return st.one_of(
        st.builds(lambda by: pk.ordered(by=by), by),
        st.builds(lambda bound, by: pk.delayed(bound, by=by), bounds, by),
        st.builds(pk.slack, st.sampled_from([0, 1, 3])),
        st.just(pk.punctuated()),
        st.just(pk.punctuated(where="v = 7")),
    )


@st.composite
def inputs(draw: Any, keeps: bool) -> Input:
    """Times that grow, jitter, rows that cannot be taken, and punctuation; and rows that come too late, unless the
    input `keeps` its promise."""
    also = draw(st.sampled_from([None, None, None, pk.ordered(), pk.delayed(3), pk.slack(2), "falling"]))
    policy = draw(_policies(groups=also is None))
    bound = getattr(policy, "by", 0)
    late = bound if keeps else draw(st.sampled_from([0, 0, 2, 9]))
    elements: list[Any] = []
    now, other = draw(st.integers(-4, 4)), draw(st.integers(-4, 4))
    for number in range(draw(st.integers(0, 12))):
        now, other = now + draw(st.integers(0, 3)), other + draw(st.integers(0, 2))
        ts: Any = now - draw(st.integers(0, late))
        if draw(st.integers(0, 19)) == 0:
            ts = draw(st.sampled_from([None, "x"]))
        u = (20 - other if also == "falling" else other) - (0 if keeps else draw(st.integers(0, 1)))
        elements.append((ts, u, draw(st.sampled_from(["a", "b", None])), number % 9))
        if draw(st.integers(0, 5)) == 0:
            elements.append(pk.punctuation(ts=now - draw(st.integers(late if keeps else 0, 4))))
    track = pk.ordered(descending=True) if also == "falling" else also
    progress = policy if track is None else {"ts": policy, "u": track}
    shard_by = draw(st.sampled_from([None, None, "k"]))
    return Input(tuple(elements), progress, draw(st.sampled_from(["route", "route", "drop"])), shard_by)


@st.composite
def timed_inputs(draw: Any, readings: list[int]) -> Input:
    """An element or silence at each reading of a clock that all inputs share.

    Timestamps on demand are stated where somebody waits, and who waits when differs from run to run: tuples that come
    are not too late for them. Heartbeats come on a timer, so tuples may be.
    """
    beat, asked = pk.heartbeat("1 second", "2 seconds", unit="s"), pk.on_demand("2 seconds", unit="s")
    idle = draw(st.sampled_from([None, beat, asked]))
    behind = st.integers(0, 2 if idle is asked else 4)
    elements: list[Any] = []
    for number, now in enumerate(readings[: draw(st.integers(0, len(readings)))]):
        row = (now - draw(behind), number, draw(st.sampled_from("ab")), number)
        elements += [pk.clock(now), row if draw(st.integers(0, 2)) else pk.clock(now)]
    policy = pk.delayed(2, idle=idle) if draw(st.booleans()) else pk.delayed(2, idle=idle, by="k")
    return Input(tuple(elements), policy, "route", draw(st.sampled_from([None, "k"])))


# --- boxes -----------------------------------------------------------------------------------------------------------

KINDS: Final = (
    "where", "filter", "map", "turn", "union", "merge", "cleanse", "dedupe", "bsort", "aggregate", "aggregate",
    "assuming", "numbered", "timeout", "smoothed", "join", "join", "join assuming", "joint", "paced", "paced",
    "resample", "table", "late",
)  # fmt: skip

WHERE: Final = ("v % 3 <> 1", "k = 'a'", "v > 2", "ts % 2 = 0")
MAPS: Final = (
    {"ts": "ts + 2", "u": "u", "k": "k", "v": "v * 2"},
    {"ts": "ts", "u": "ts / 4", "k": "k", "v": "v"},
    {"ts": "u", "u": "ts", "k": "k", "v": "v"},
    {"ts": "ts", "u": "u", "k": "coalesce(k, 'b')", "v": "v + 1"},
    {"ts": "CASE WHEN v % 5 = 4 THEN NULL ELSE ts END", "u": "u", "k": "k", "v": "v"},
)
TURNS: Final = ("0 - u", "50 - u")
BANDS: Final = ((0, 0), (2, 1), (0, 4), (-1, 3), (5, 5))
HOW: Final = ("inner", "inner", "left", "right", "full", "semi", "anti")
FLUSHES: Final = ({"flush": "at-once"}, {"flush": "slow", "every": 2}, {"flush": "lazy"}, {"flush": "in-order"})
TABLE: Final = pa.table({"k": ["a", "a", "b"], "w": pa.array([1, 2, 3], pa.int64())})


def grown(net: pk.Network, flows: list[Flow], boxes: tuple[Drawn, ...]) -> list[Flow]:
    """The streams, and those of boxes over them as drawn; a box that does not fit is left out."""
    flows = list(flows)
    for number, drawn in enumerate(boxes):
        left, right = flows[drawn.one % len(flows)], flows[drawn.other % len(flows)]
        make = _MAKERS[drawn.kind]
        flows += make(left, right, drawn.form, f"b{number}_{drawn.kind.replace(' ', '_')}")
    return flows


def _where(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    return [replace(left, stream=left.stream.where(WHERE[form % len(WHERE)], name=name))]


def _filter(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    return [
        replace(left, stream=port) for port in left.stream.filter("v % 2 = 0", "k = 'a'", name=name)[: 1 + form % 3]
    ]


def _map(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    return [replace(left, stream=left.stream.map(**MAPS[form % len(MAPS)], name=name))]


def _turn(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    made = left.stream.map(ts="ts", u=TURNS[form % 2], k="k", v="v", name=name)
    return [replace(left, stream=made)]


def _union(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    # Copies of one tuple have one arrival number: their order among each other is free.
    shared = {box.name for box in _upstream(left.stream)} & {box.name for box in _upstream(right.stream)}
    order = ARRIVING if left.order == right.order == ARRIVING and not shared and not left.whole else FREE
    return [Flow(pk.union(left.stream, right.stream, name=name), order)]


def _merge(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    shared = [a for a in left.on if a in right.on]
    if not shared:
        return []
    return [Flow(pk.merge(left.stream, right.stream, on=shared[form % len(shared)], name=name))]


def _cleanse(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    if not left.on:
        return []
    by = ("k",) if form % 3 == 0 else ()
    made = left.stream.cleanse(on=left.on[form % len(left.on)], by=by, name=name)
    return [Flow(made, MADE if left.order != FREE and not by else FREE)]


def _dedupe(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    if not left.on:
        return []
    on = left.on[form % len(left.on)]
    if left.order == FREE or form % 2:
        return [replace(left, stream=left.stream.dedupe(on=on, name=name))]
    return [replace(left, stream=left.stream.dedupe(on=on, by="k", name=name))]


def _bsort(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    by = ("k",) if form % 2 else ()
    made = left.stream.bsort(on=("ts", "u")[form % 3 == 2], slack=form % 4, by=by, name=name)
    return [Flow(made, MADE if not by else FREE)] if left.order != FREE else []


def _windows(left: Flow, form: int, name: str, **more: Any) -> pk.Stream | None:
    """An aggregate on any attribute that progresses, or one that decreases, by nothing, `k`, or more."""
    choices = [*left.on, *(["u"] if left.falls and not more else [])]
    if not choices and "assuming" not in more:
        return None
    on = more.pop("on", None) or choices[form % len(choices)]
    by = more.pop("by", ((), ("k",), ("k", "v"))[form // 2 % 3])
    size, advance = ((5, 5), (6, 2), (1, 1), (2, 4))[form // 6 % (4 if on in left.on else 3)]
    made = left.stream.aggregate(
        {"n": "count(*)", "w": "sum(v)::BIGINT"}, on=on, size=size, advance=more.pop("advance", advance), by=by,
        name=name, **more,
    )  # fmt: skip
    return _fitted(made, on, by, name)


def _fitted(made: pk.Stream, on: str, by: tuple[str, ...], name: str) -> pk.Stream:
    k = "k" if "k" in by else "'z'"
    return made.map(ts=on, u=f"{on} / 2", k=k, v="w + n", name=f"{name}.fit")


def _aggregate(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    more: dict[str, Any] = [{}, {}, {"origin": "first"}, {"advance": "v % 3 = 0"}][form % 4]
    made = _windows(left, form, name, **more)
    if made is None:
        return []
    grouped = any("group" in box.kind for box in _upstream(made))
    return [Flow(made, MADE if not more and left.order != FREE and not grouped else FREE)]


def _upstream(stream: pk.Stream) -> list[Any]:
    found, todo = [], [stream._port.box]
    while todo:
        box = todo.pop()
        found.append(box)
        todo += [port.box for port in box.inputs]
    return found


def _assuming(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    if left.order == FREE:
        return []
    on, by = ("ts", "u")[form % 2 and not left.falls], ((), ("k",))[form // 2 % 2]
    order = pk.order(on, slack=form % 3, by=by if form % 5 else ())
    more = {"origin": "first"} if form % 7 == 0 else {}
    made = _windows(left, form, name, on=on, by=by, assuming=order, **more)
    return [] if made is None else [Flow(made)]


def _numbered(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    if left.order == FREE:
        return []
    by = ((), ("k",))[form % 2]
    made = left.stream.aggregate(
        {"n": "count(*)", "w": "sum(v)::BIGINT", "t": "max(ts)"}, on=pk.TUPLE_NUMBER, size=1 + form % 4,
        advance=1 + form % 3, by=by, partial=form % 5 == 0, name=name,
    )  # fmt: skip
    return [Flow(made.map(ts="t", u="n", k="k" if by else "'z'", v="w", name=f"{name}.fit"))]


def _timeout(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    if left.order != ARRIVING:
        return []
    made = _windows(left, form, name, timeout=f"{1 + form % 4} seconds")
    return [] if made is None else [Flow(made)]


def _smoothed(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    made = _windows(left, form, name, table=1 + form % 3, **FLUSHES[form % 4]) if left.on else None
    return [] if made is None else [Flow(made)]


def _join(left: Flow, right: Flow, form: int, name: str, **more: Any) -> list[Flow]:
    if not left.on or not right.on:
        return []
    on = left.on[form % len(left.on)], right.on[form // 2 % len(right.on)]
    how, band = HOW[form % len(HOW)], BANDS[form // 3 % len(BANDS)]
    predicate = ("l.k = r.k", "l.v > r.v", "l.k = r.k AND l.v <> r.v")[form // 2 % 3]
    progress = ("pair", "left", "right", "min", "max")[form // 5 % 5]
    try:
        made = left.stream.join(
            right.stream, predicate, on=on, band=band, how=how, progress=progress, name=name, **more
        )
    except pk.QueryError:
        made = left.stream.join(right.stream, predicate, on=on, band=band, how=how, name=name, **more)
    times = list(made.progressing)
    side = "" if how in ("semi", "anti") else "l_"
    k = "k" if not side else "coalesce(l_k, r_k)"
    v = "v" if not side else "coalesce(l_v, 0) + coalesce(r_v, 0)"
    ts = times[0] if times else f"{side}ts"
    made = made.map(ts=ts, u=times[-1] if times else f"{side}u", k=k, v=v, name=f"{name}.fit")
    return [Flow(made)]


def _join_assuming(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    if FREE in (left.order, right.order):
        return []
    orders = pk.order("ts", slack=form % 2, by=("k",) if form % 4 == 0 else ()), pk.order("ts", slack=form % 3)
    if not left.on or not right.on:
        return []
    made = (
        left.stream.join(right.stream, "l.k = r.k", on="ts", band=BANDS[form % 5], assuming=orders, name=name)
        if ("ts" in left.on or not orders[0].by)
        else None
    )
    if made is None or not made.progressing:
        return []
    return [Flow(made.map(ts=made.progressing[0], u="l_u", k="l_k", v="l_v + r_v", name=f"{name}.fit"))]


def _joint(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    if not left.on or not right.on:
        return []
    pairs = left.stream.join(
        right.stream, "l.k = r.k", on=(left.on[0], right.on[0]), band=BANDS[form % len(BANDS)], name=name
    )
    times = [f"l_{left.on[0]}", f"r_{right.on[0]}"]
    on, other = times if form % 2 else times[::-1]
    slow = pairs.where("l_v <> r_v", name=f"{name}.apart") if form % 3 else pairs
    made = slow.aggregate({"n": "count(*)"}, on=on, size=1 + form % 4, by=[other], name=f"{name}.windows")
    return [Flow(made.map(ts=on, u=other, k="'z'", v="n", name=f"{name}.fit"))]


def _paced(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    """Pairs of devices, each by its own mark where the inputs have such."""
    if not left.on or not right.on:
        return []
    on = left.on[0], right.on[0]
    pairs = left.stream.join(right.stream, "l.k = r.k", on=on, band=BANDS[form % len(BANDS)], name=name)
    time = (f"l_{on[0]}", f"r_{on[1]}")[form % 2]
    fast = pairs.where("l_v <> 3", name=f"{name}.some") if form % 3 == 0 else pairs
    made = fast.aggregate({"n": "count(*)"}, on=time, size=1 + form % 5, by=["l_k"], name=f"{name}.windows")
    return [Flow(made.map(ts=time, u=f"{time} / 2", k="l_k", v="n", name=f"{name}.fit"))]


def _resample(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    if not left.on or not right.on:
        return []
    on = left.on[form % len(left.on)], right.on[form // 2 % len(right.on)]
    by = ((), ("k",))[form % 2]
    assuming = pk.order(on[1], slack=form % 3, by=by) if right.order != FREE and form % 3 == 0 else None
    made = left.stream.resample(
        right.stream, {"w": "sum(v)::BIGINT"}, on=on, size=1 + form % 4, by=by, assuming=assuming, name=name
    )
    return [Flow(made.map(ts=on[0], u=on[0], k="k" if by else "'z'", v="w", name=f"{name}.fit"))]


def _table(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    how = ("inner", "left", "semi", "anti")[form % 4]
    made = left.stream.join(pk.table(TABLE), "l.k = r.k", how=how, name=name)
    if how in ("inner", "left"):
        made = made.map(ts="ts", u="u", k="l_k", v="coalesce(w, v)", name=f"{name}.fit")
    # Pairs of one tuple have one arrival number.
    return [Flow(made, left.order if how in ("semi", "anti") else FREE)]


def _late(left: Flow, right: Flow, form: int, name: str) -> list[Flow]:
    if left.stream._port.box.late_port() is None or left.stream._port.index != 0:
        return []
    return [Flow(left.stream.late().map(ts="ts", u="u", k="k", v="v", name=name))]


_Maker = Callable[[Flow, Flow, int, str], list[Flow]]
_MAKERS: Final[dict[str, _Maker]] = {
    "where": _where, "filter": _filter, "map": _map, "turn": _turn, "union": _union, "merge": _merge,
    "cleanse": _cleanse, "dedupe": _dedupe, "bsort": _bsort, "aggregate": _aggregate, "assuming": _assuming,
    "numbered": _numbered, "timeout": _timeout, "smoothed": _smoothed, "join": _join, "join assuming": _join_assuming,
    "joint": _joint, "paced": _paced, "resample": _resample, "table": _table, "late": _late,
}  # fmt: skip


@st.composite
def cases(draw: Any, boxes: int = 6) -> Case:
    timed = draw(st.integers(0, 3)) == 0
    readings = [100 + sum(gaps) for gaps in _beginnings(draw(st.lists(st.integers(0, 4), min_size=1, max_size=7)))]
    keeps = not timed and draw(st.booleans())
    found = draw(st.lists(timed_inputs(readings) if timed else inputs(keeps), min_size=1, max_size=3))
    kinds = st.sampled_from(KINDS if timed else [kind for kind in KINDS if kind != "timeout"])
    number = st.integers(0, 9)
    drawn = draw(st.lists(st.builds(Drawn, kinds, number, number, st.integers(0, 209)), min_size=1, max_size=boxes))
    return Case(tuple(found), tuple(drawn), draw(st.integers(1, 2)), None if keeps else 1)


def _beginnings(values: list[int]) -> list[list[int]]:
    return [values[: end + 1] for end in range(len(values))]


def build(case: Case) -> tuple[pk.Network, list[Flow]]:
    """The network, with outputs o0, o1, ... of all streams."""
    net = pk.Network("stepped")
    flows = []
    for number, given in enumerate(case.inputs):
        connector = pk.memory(given.elements, schema=SCHEMA, train=case.train, shard_by=given.shard_by)
        source = net.source(f"in{number}", connector, on="ts", progress=given.progress, late=given.late)
        whole = case.train is None
        # In one train, the tuples of one shard come after those of another.
        flows.append(Flow(source, FREE if whole and given.shard_by else ARRIVING, whole))
    flows = grown(net, flows, case.boxes)
    for number, flow in enumerate(flows):
        flow.stream.output(f"o{number}")
    return net, flows
