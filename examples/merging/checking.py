"""What the examples of merging share: waiting, and comparing what came out with what should have."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

import duckdb
import pyarrow as pa

import penstock as pk


def wait_until(done: Callable[[], bool], seconds: float = 180.0) -> None:
    """Wait for a condition; the example ends if that takes too long."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit("gave up waiting")
        time.sleep(0.05)


def has_come_to(run: pk.Run, moment: dt.datetime) -> bool:
    """Whether what is merged is complete up to a time. Before anything is known of it, its mark is no time."""
    mark = run.progress()["merged"][""]["ts"]
    return isinstance(mark, dt.datetime) and mark >= moment


def difference(wanted: pa.Table, found: pa.Table) -> dict[str, int]:
    """How many results are missing, and how many are too many or other than they should be."""
    both = duckdb.connect()
    both.register("wanted", wanted)
    both.register("found", found.select(wanted.column_names))
    ways = {"missing": ("wanted", "found"), "too_many": ("found", "wanted")}
    sql = "SELECT count(*) FROM (SELECT * FROM {} EXCEPT ALL SELECT * FROM {})"
    return {name: both.sql(sql.format(*pair)).fetchall()[0][0] for name, pair in ways.items()}
