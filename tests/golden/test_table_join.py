"""Golden cases of joins with static tables: four kinds of join, in the intake and in stages, and tables that change."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.golden.conftest import Runner
from tests.golden.tables import elements, rows, same

import penstock as pk
from penstock.connectors.tables import file_store
from penstock.runtime.board import Record

CALLS = """
ts  user  cost
 1     1     5
 2     2     7
 3     9     1  | nobody's
 4     -     2
 5     2     3
 6     3     4
"""
SCHEMA = {"ts": "int64", "user": "int64", "cost": "int64"}
USERS = pa.table({"user": [1, 2, 2, 4], "plan": ["free", "gold", "silver", "none"], "note": ["", "", "", ""]})


def write(path: Path, table: pa.Table) -> None:
    """As a careful program replaces a file: whole."""
    unfinished = path.with_name(".unfinished")
    pq.write_table(table, unfinished)
    os.replace(unfinished, path)


def test_every_kind_of_join(run: Runner, data: Path) -> None:
    """aurora.md 5.2.2.3: no window. NULL finds nothing; a tuple that finds two rows leaves twice."""
    write(data / "users.parquet", USERS)
    users = pk.table(data / "users.parquet", columns=["user", "plan"])
    net = pk.Network("kinds")
    calls = net.source("calls", pk.memory(rows(CALLS), schema=SCHEMA, train=4))
    for how in ("inner", "left", "semi", "anti"):
        calls.join(users, "l.user = r.user", how=how).output(how)
    calls.join(pk.table(USERS), "c.cost > 4 AND u.plan LIKE '%o%' AND c.user <> u.user", names=("c", "u")).map(
        ts="ts", cost="cost", plan="plan"
    ).output("odd")
    result = run(net)
    same(
        result["inner"],
        """
        ts  l_user  cost  r_user  plan
         1       1     5       1  free
         2       2     7       2  gold
         2       2     7       2  silver
         5       2     3       2  gold
         5       2     3       2  silver
        """,
    )
    same(
        result["left"],
        """
        ts  l_user  cost  r_user  plan
         1       1     5       1  free
         2       2     7       2  gold
         2       2     7       2  silver
         3       9     1       -  -
         4       -     2       -  -
         5       2     3       2  gold
         5       2     3       2  silver
         6       3     4       -  -
        """,
    )
    same(result["semi"], "ts user cost \n 1 1 5 \n 2 2 7 \n 5 2 3")
    same(result["anti"], "ts user cost \n 3 9 1 \n 4 - 2 \n 6 3 4")
    same(result["odd"], "ts cost plan \n 1 5 gold \n 1 5 none \n 2 7 none")
    for how in ("inner", "left", "semi", "anti"):
        assert [e for e in elements(result, how) if e[0] == "p"] == [("p", 4), ("p", math.inf)]


def test_a_join_behind_an_aggregate(run: Runner) -> None:
    """Stage 1 counts by user and looks the user up; stage 2 sums by plan."""
    net = pk.Network("staged")
    calls = net.source("calls", pk.memory(rows(CALLS), schema=SCHEMA, train=2))
    spent = calls.aggregate({"cost": "sum(cost)"}, size=3, by="user")
    known = spent.join(pk.table(USERS), "l.user = r.user", how="left")
    known.output("known")
    known.aggregate({"cost": "sum(cost)"}, size=6, by="plan").output("plans")
    spent.join(pk.table(USERS), "l.user = r.user", how="anti").output("unknown")
    result = run(net)
    same(
        result["known"].select(["ts", "l_user", "cost", "plan"]),
        """
        ts  l_user  cost  plan
         0       1     5  free
         0       2     7  gold
         0       2     7  silver
         3       9     1  -
         3       -     2  -
         3       2     3  gold
         3       2     3  silver
         6       3     4  -
        """,
    )
    same(result["plans"], "ts plan cost \n 0 free 5 \n 0 gold 10 \n 0 silver 10 \n 0 - 3 \n 6 - 4")
    same(result["unknown"], "ts user cost \n 3 9 1 \n 3 - 2 \n 6 3 4")


def changing(path: Path, to: Any = None) -> pk.Network:
    """Five trains of one; every one asks the table what its version is, at the intake and in a stage."""
    net = pk.Network("changing")
    source = net.source("in", pk.memory([(t, 1) for t in range(5)], schema={"ts": "int64", "k": "int64"}, train=1))
    table = pk.table(path)
    source.join(table, "l.k = r.k").map(ts="ts", version="version").output("o")
    counts = source.aggregate({"n": "count(*)"}, size=1, by="k")
    counts.join(table, "l.k = r.k").map(ts="ts", version="version").output("staged")
    if to is not None:
        source.output("told", to=pk.callback(to))
    return net


def version(number: int) -> pa.Table:
    return pa.table({"k": [1], "version": [number]})


def test_a_table_that_changes_is_seen_by_the_next_batch(run: Runner, data: Path) -> None:
    """After batch 1 the table changes, and after batch 3. A window leaves one batch after its tuple."""
    write(data / "t.parquet", version(0))

    def change(record: Record) -> None:
        if record.batch in (1, 3):
            write(data / "t.parquet", version(record.batch))

    result = run(changing(data / "t.parquet"), on_batch=change)
    same(result["o"], "ts version \n 0 0 \n 1 0 \n 2 1 \n 3 1 \n 4 3")
    same(result["staged"], "ts version \n 0 0 \n 1 1 \n 2 1 \n 3 3 \n 4 3")


def test_a_batch_that_is_done_again_sees_the_table_as_it_was(run: Runner, data: Path, tmp_path: Path) -> None:
    """The run dies in batch 2, before it is committed; then the table changes; then the run goes on with batch 2."""
    write(data / "t.parquet", version(0))
    checkpoint = str(tmp_path / "checkpoint")

    def die(_: pa.Table, batch: int) -> None:
        if batch == 2:
            raise RuntimeError("no power")

    with pytest.raises(pk.QueryError, match="no power"):
        run(changing(data / "t.parquet", to=die), checkpoint=checkpoint)
    write(data / "t.parquet", version(7))
    result = run(changing(data / "t.parquet", to=lambda _: None), checkpoint=checkpoint)
    same(result["o"], "ts version \n 0 0 \n 1 0 \n 2 0 \n 3 7 \n 4 7")
    same(result["staged"], "ts version \n 0 0 \n 1 0 \n 2 7 \n 3 7 \n 4 7")


def test_a_table_that_vanishes_stops_the_run_which_goes_on_when_it_is_back(
    run: Runner, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(data / "t.parquet", version(0))
    checkpoint = str(tmp_path / "checkpoint")
    monkeypatch.setattr(file_store, "_PAUSE", 0.02)

    def vanish(record: Record) -> None:
        if record.batch == 1:
            os.unlink(data / "t.parquet")

    with pytest.raises(pk.WorldError) as stopped:
        run(changing(data / "t.parquet"), checkpoint=checkpoint, on_batch=vanish)
    assert str(stopped.value) == (
        f"network 'changing', box 'join1, join2': there is no table at {data}/t.parquet\n"
        f"  found: no file; looked in {data}/t.parquet\n"
        "  to do: check the place; a run that has stopped for it goes on from its checkpoint when the table is back"
    )
    write(data / "t.parquet", version(2))
    result = run(changing(data / "t.parquet"), checkpoint=checkpoint)
    same(result["o"], "ts version \n 0 0 \n 1 0 \n 2 2 \n 3 2 \n 4 2")
