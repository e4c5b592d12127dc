"""A static table both ways: pulled by a join, and pushed as an input; and one that is followed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.golden.conftest import Runner
from tests.golden.tables import same

import penstock as pk

USERS = pa.table({"user": [4, 1, 2], "since": [30, 10, 10], "plan": ["gold", "free", "gold"]})


def test_a_table_is_pushed_and_pulled_in_one_network(run: Runner, data: Path) -> None:
    pq.write_table(USERS, data / "users.parquet")
    users = pk.table(data / "users.parquet")
    net = pk.Network("both")
    joined = net.source("users", users, on="since")
    joined.aggregate({"n": "count(*)"}, size=20).output("per_age")
    joined.join(users, "l.plan = r.plan AND l.user <> r.user", how="semi").output("not_alone")
    result = run(net, train_rows=1)
    same(result["per_age"], "since n \n 0 2 \n 20 1")
    same(result["not_alone"], "user since plan \n 4 30 gold \n 2 10 gold")


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
def test_a_followed_table_goes_on_after_a_restart(tmp_path: Path) -> None:
    place, checkpoint = tmp_path / "t.sqlite", str(tmp_path / "run")

    def execute(statement: str) -> None:
        with closing(sqlite3.connect(place)) as database, database:
            database.execute(statement)

    def start() -> pk.Run:
        net = pk.Network("orders")
        orders = net.source("orders", pk.table(place, table="orders", follow=True), timestamps="internal")
        orders.output("orders")
        return net.start(checkpoint=checkpoint)

    execute("CREATE TABLE orders (id INTEGER, what TEXT)")
    execute("INSERT INTO orders VALUES (1, 'tea'), (2, 'cup')")
    run = start()
    run.wait_for(lambda record: record.outputs.get("orders", 0) == 2)
    execute("INSERT INTO orders VALUES (3, 'pot')")
    run.wait_for(lambda record: record.outputs.get("orders", 0) == 3)
    run.stop()
    execute("INSERT INTO orders VALUES (4, 'mug')")
    run = start()
    run.wait_for(lambda record: record.outputs.get("orders", 0) == 4)
    assert run.stop()["orders"]["id"].to_pylist() == [1, 2, 3, 4]
