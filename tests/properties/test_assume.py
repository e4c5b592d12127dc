"""Assume against its definition, tuple by tuple: late is what too many larger ones came before."""

from __future__ import annotations

import datetime as dt
from operator import itemgetter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk
from penstock.boxes.assume.verb import assume

KINDS = {
    "int64": lambda n: n,
    "int8": lambda n: n,
    "timestamp[ms]": lambda n: dt.datetime(1970, 1, 1) + dt.timedelta(seconds=n),
    "date": lambda n: dt.date(1970, 1, 1) + dt.timedelta(days=n),
}


@settings(max_examples=tries(40))
@given(
    values=st.lists(
        st.tuples(st.sampled_from([None, "a", "b"]), st.one_of(st.none(), st.integers(-9, 9))), max_size=30
    ),
    kind=st.sampled_from(sorted(KINDS)),
    slack=st.integers(0, 5),
    by=st.sampled_from([(), ("k",)]),
    train=st.sampled_from([None, 1, 2, 5]),
    buckets=st.integers(1, 3),
)
def test_late_is_what_too_many_larger_ones_came_before(
    values: list[tuple[str | None, int | None]],
    kind: str,
    slack: int,
    by: tuple[str, ...],
    train: int | None,
    buckets: int,
) -> None:
    rows: list[Any] = [(number, k, None if v is None else KINDS[kind](v)) for number, (k, v) in enumerate(values)]
    net = pk.Network("net")
    source = net.source("in", pk.memory(rows, schema={"ts": "int64", "k": "string", "v": kind}, train=train))
    assume(source, pk.order("v", slack, by), name="order").output("out")
    result = net.run(engine="local", buckets=buckets, tasks=2)

    def is_late(at: int) -> bool:
        _, k, v = rows[at]
        larger = [r for r in rows[:at] if v is not None and r[2] is not None and r[2] > v and (not by or r[1] == k)]
        return v is None or len(larger) > slack

    late = [rows[at] for at in range(len(rows)) if is_late(at)]
    found, aside = ([tuple(row.values()) for row in result[name].to_pylist()] for name in ("out", "order!late"))
    if by:
        # In a batch the buckets follow each other; the numbers of the tuples say in which order they came.
        found, aside = sorted(found, key=itemgetter(0)), sorted(aside, key=itemgetter(0))
    assert (found, aside) == ([r for r in rows if r not in late], late)
    stated = None
    for element in result.elements("out"):
        if isinstance(element, dict):
            assert stated is None or element["v"] >= stated
        else:
            stated = dict(element.value).get("v", stated)
            stated = None if isinstance(stated, float) else stated
    if rows:
        work = result.record().boxes["order"]
        assert (work.tuples_in, work.tuples_out, work.late) == (len(rows), len(rows) - len(late), len(late))
