"""Joins with static tables as they are built: schema, progress, explain, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as pk
from penstock.plan.compile import compile_network

ROWS = pa.table({"k": [1], "name": ["a"], "note": ["n"]})


def stream(net: pk.Network | None = None) -> pk.Stream:
    net = net if net is not None else pk.Network("net")
    return net.source("in", pk.memory([], schema={"ts": "int64", "k": "int64", "v": "double"}))


def test_pairs_have_the_columns_of_both_sides_and_the_progress_of_the_stream() -> None:
    joined = stream().join(pk.table(ROWS), "l.k = r.k")
    assert joined.schema.names == ["ts", "l_k", "v", "r_k", "name", "note"]
    assert joined.progressing == ("ts",)
    timed = pa.table({"ts": [1], "k": [1]})
    renamed = stream().join(pk.table(timed), "s.k = t.k", names=("s", "t"))
    assert renamed.schema.names == ["s_ts", "s_k", "v", "t_ts", "t_k"]
    assert renamed.progressing == ("s_ts",)
    for how in ("semi", "anti"):
        chosen = stream().join(pk.table(timed), "l.k = r.k", how=how)
        assert chosen.schema.names == ["ts", "k", "v"]
        assert chosen.progressing == ("ts",)


def test_windows_close_behind_a_join_with_a_table() -> None:
    joined = stream().join(pk.table(ROWS), "l.k = r.k")
    assert joined.aggregate({"n": "count(*)"}, size=10, by="name").progressing == ("ts",)


def test_a_join_in_a_stage_keeps_the_buckets_of_its_input() -> None:
    net = pk.Network("net")
    counts = stream(net).aggregate({"n": "count(*)"}, size=10, by="k")
    joined = counts.join(pk.table(ROWS), "l.k = r.k", how="left")
    joined.aggregate({"n": "sum(n)"}, size=20, by="l_k", name="same").output("same")
    joined.aggregate({"n": "sum(n)"}, size=20, by="name", name="other").output("other")
    counts.join(pk.table(ROWS), "l.k = r.k", how="semi").aggregate(
        {"n": "sum(n)"}, size=20, by="k", name="chosen"
    ).output("chosen")
    plan = compile_network(net.network)
    assert plan.stage_of == {"aggregate1": 1, "same": 1, "chosen": 1, "other": 2}


def test_explain_shows_the_table_and_what_is_loaded_of_it() -> None:
    net = pk.Network("net")
    stream(net).join(pk.table(ROWS), "l.k = r.k").map(ts="ts", who="name").output("o")
    assert (
        "  table join join1 <- in: inner with a table in memory on l.k = r.k\n"
        "    loads k, name (2 of 3 columns of the table)\n"
        "    -> join1: progress on ts\n"
    ) in net.explain()


@pytest.mark.parametrize(
    ("predicate", "options", "text"),
    [
        ("l.k = r.k", {"how": "right"}, "those are never known: as long as the stream goes on, one may come"),
        ("l.k = r.k", {"how": "full"}, "expected: one of inner, left, semi, anti"),
        ("l.k = r.k", {"how": "cross"}, "how='cross' is unknown"),
        (None, {}, "a join with a table needs a predicate"),
        ("l.k = r.nix", {}, "unknown column 'r.nix' in the predicate"),
        ("k = 1", {}, "column 'k' of the predicate is in both streams"),
        ("l.k + r.k", {}, "the predicate 'l.k + r.k' is no condition"),
        ("l.k = r.name[", {}, "cannot read the predicate"),
        ("l.k = r.k AND random() < 0.5", {}, "random"),
        ("l.k = r.k", {"names": ("x", "x")}, "the sides need two different names"),
        ("l.k = r.k", {"size": 10}, "a join with a static table has no window"),
        ("l.k = r.k", {"on": ("ts", "k"), "band": (1, 1)}, "to do: leave out on= and band="),
    ],
)
def test_a_join_that_makes_no_sense_is_refused(predicate: str | None, options: dict[str, Any], text: str) -> None:
    with pytest.raises(pk.QueryError) as refused:
        stream().join(pk.table(ROWS), predicate, name="lookup", **options)
    assert text in str(refused.value)
    assert str(refused.value).startswith("network 'net', box 'lookup': ")


def test_a_table_is_looked_at_when_the_box_is_built(data: Path) -> None:
    with pytest.raises(pk.WorldError) as refused:
        stream().join(pk.table(data / "t.parquet"), "l.k = r.k")
    assert str(refused.value).startswith(f"network 'net', box 'join1': there is no table at {data}/t.parquet\n")
    with pytest.raises(pk.QueryError, match=r"box 'join1': the table a table in memory has no column 'y'"):
        stream().join(pk.table(ROWS, columns=["y"]), "l.k = r.k")
    with pytest.raises(pk.QueryError, match="'#k' begins with '#'"):
        stream().join(pk.table(pa.table({"#k": [1]})), "true")


def test_columns_of_pairs_that_would_share_a_name_are_refused() -> None:
    rows = pa.table({"k": [1], "l_k": [2]})
    with pytest.raises(pk.QueryError, match="two columns of the pairs would be named 'l_k'"):
        stream().join(pk.table(rows), "l.k = r.k")
    assert stream().join(pk.table(rows), "l.k = r.k", how="semi").schema.names == ["ts", "k", "v"]
