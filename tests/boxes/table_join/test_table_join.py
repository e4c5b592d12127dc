"""Join with a static table: a train in, pairs or tuples out, in the order of the train."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pytest
from tests.operators.scripted import box_of, source

import penstock as pk
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.boxes.table_join import operator as table_join
from penstock.boxes.table_join.known_rows import KnownRows

SCHEMA = {"ts": "int64", "k": "int64"}
ROWS = pa.table({"k": [2, 1, 2, None], "name": ["b", "a", "bb", "none"], "lo": [0, 5, 9, 0]})


def train(*keys: int | None) -> pa.Table:
    return pa.table({"ts": pa.array(range(len(keys)), pa.int64()), "k": pa.array(keys, pa.int64())})


def leaving(how: str, tuples: pa.Table, predicate: str = "l.k = r.k", needed: Collection[str] | None = None) -> Any:
    box = box_of(source(SCHEMA).join(pk.table(ROWS), predicate, how=how))
    columns = frozenset(box.schema(0).names if needed is None else needed)
    work = box.operator(columns, KnownRows(ROWS.select(box.loaded(columns).names)))
    found = list(work.process(0, tuples))
    return found[0][1] if found else None


def pairs(how: str, *keys: int | None) -> list[tuple[Any, ...]]:
    found = leaving(how, train(*keys))
    return [] if found is None else [(row["ts"], row["name"]) for row in found.to_pylist()]


def test_pairs_leave_in_the_order_of_tuples_then_of_rows() -> None:
    assert pairs("inner", 2, 7, 1, 2) == [(0, "b"), (0, "bb"), (2, "a"), (3, "b"), (3, "bb")]
    assert pairs("left", 2, 7, 1) == [(0, "b"), (0, "bb"), (1, None), (2, "a")]
    assert pairs("inner", 1, 7, 1) == [(0, "a"), (2, "a")]
    assert pairs("left", 1, 7, 1) == [(0, "a"), (1, None), (2, "a")]
    assert pairs("inner", 1, 1) == [(0, "a"), (1, "a")]


def test_null_finds_nothing() -> None:
    assert pairs("inner", None, 9) == []
    assert pairs("left", None) == [(0, None)]
    assert leaving("semi", train(None)) is None
    assert leaving("anti", train(None)).equals(train(None))


def test_semi_and_anti_part_a_train() -> None:
    tuples = train(2, 7, 1, None, 2)
    assert leaving("semi", tuples)["ts"].to_pylist() == [0, 2, 4]
    assert leaving("anti", tuples)["ts"].to_pylist() == [1, 3]
    whole = train(1, 2)
    assert leaving("semi", whole) is whole
    assert leaving("anti", whole) is None


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("l.ts >= r.lo", [(0, "b"), (0, "none"), (1, "b"), (1, "none")]),
        ("l.k = r.k AND r.lo > 0", [(0, "bb"), (1, "a")]),
        ("r.name LIKE 'b%' AND l.ts = 1", [(1, "b"), (1, "bb")]),
        ("l.k = r.k OR r.name = 'none'", [(0, "b"), (0, "bb"), (0, "none"), (1, "a"), (1, "none")]),
        ("l.ts = 0", [(0, "b"), (0, "a"), (0, "bb"), (0, "none")]),
        ("true", [(ts, name) for ts in (0, 1) for name in ("b", "a", "bb", "none")]),
        ("l.ts > 5", []),
    ],
)
def test_any_predicate_joins(predicate: str, expected: list[Any]) -> None:
    tuples = train(2, 1)
    inner, semi = leaving("inner", tuples, predicate), leaving("semi", tuples, predicate)
    assert ([] if inner is None else [(r["ts"], r["name"]) for r in inner.to_pylist()]) == expected
    chosen = [] if semi is None else semi["ts"].to_pylist()
    assert chosen == sorted({ts for ts, _ in expected})


def test_hidden_columns_go_with_their_tuples() -> None:
    tuples = train(2, 7, 1).append_column(SEQ, pa.array([30, 20, 10])).append_column(ARRIVED, pa.array([3, 2, 1]))
    for how, expected in (("inner", [30, 30, 10]), ("left", [30, 30, 20, 10]), ("semi", [30, 10]), ("anti", [20])):
        found = leaving(how, tuples)
        assert found[SEQ].to_pylist() == expected
        assert found[ARRIVED].to_pylist() == [seq // 10 for seq in expected]


def test_only_what_is_needed_is_gathered() -> None:
    found = leaving("inner", train(1, 2), needed={"name"})
    assert found.to_pydict() == {"name": ["a", "b", "bb"]}
    assert leaving("inner", train(1, 2), needed=()).num_rows == 3


def test_what_is_gathered_in_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    tuples = train(2, 1, 7, None, 2, 2, 1)
    whole = [leaving(how, tuples) for how in ("inner", "left")]
    monkeypatch.setattr(table_join, "_GATHERED", 2)
    assert [leaving(how, tuples) for how in ("inner", "left")] == whole


def test_names_that_differ_in_case_only_stay_apart() -> None:
    rows = pa.table({"K": [1], "k": [2], "Name": ["x"], "name": ["y"]})
    box = box_of(source(SCHEMA).join(pk.table(rows), "l.k = r.K"))
    work = box.operator(frozenset(box.schema(0).names), KnownRows(rows))
    ((_, found),) = work.process(0, train(1, 2))
    assert found.to_pylist() == [{"ts": 0, "l_k": 1, "K": 1, "r_k": 2, "Name": "x", "name": "y"}]


def test_an_empty_table_has_no_partners() -> None:
    box = box_of(source(SCHEMA).join(pk.table(ROWS), "l.k = r.k", how="left"))
    work = box.operator(frozenset(box.schema(0).names), KnownRows(ROWS.slice(0, 0)))
    ((_, found),) = work.process(0, train(1, 2))
    assert found["name"].to_pylist() == [None, None]
    assert found.schema.field("name").type == pa.string()


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_ranges_alone_do_not_lose_nulls(how: str) -> None:
    rng = random.Random(5)
    words, truths = [None, "x", "y"], [None, True, False]
    rows = [(rng.randrange(30), rng.choice(words), rng.choice(truths)) for _ in range(60)]
    table = [(low := rng.randrange(30), low + 3, rng.choice(words), rng.randrange(3)) for _ in range(40)]
    net = pk.Network("net")
    connector = pk.memory(rows, schema={"ts": "int64", "k": "string", "b": "bool"})
    ranges = pa.table([pa.array(column) for column in zip(*table, strict=True)], ["low", "high", "other", "i"])
    text = "l.ts >= r.low AND l.ts <= r.high AND l.k IS DISTINCT FROM r.other AND (l.b OR r.i = 1)"
    stream = net.source("in", connector, progress=pk.punctuated())
    stream.join(pk.table(ranges), text, how=how).output("out")
    found = Counter(tuple(row.values()) for row in net.run(engine="local")["out"].to_pylist())
    partnered = [
        any(lo <= ts <= hi and k != other and (b or i == 1) for lo, hi, other, i in table) for ts, k, b in rows
    ]
    assert 0 < sum(partnered) < len(rows)
    assert found == Counter(row for row, yes in zip(rows, partnered, strict=True) if yes == (how == "semi"))
