"""SIGKILL while the optimizer arranges boxes and a stored table is pushed in: every row once, as DuckDB finds them."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.arranged_network import COSTLY
from tests.spark.lives import Life, newest_batch, rows_of

APP = Path(__file__).with_name("arranged_network.py")
KILLS = int(os.environ.get("PENSTOCK_ARRANGED_KILLS", "1"))
FILES, PER_FILE = 12 + 3 * KILLS, 2_000


def write_input(folder: Path) -> pa.Table:
    """Files of words, and a stored table of as many rows; all that shall be counted, as one table."""
    rng = random.Random(3)
    rows = FILES * PER_FILE
    ids = pa.array(range(rows))
    words = pa.array([f"word {rng.randrange(20)}" for _ in range(rows)])
    sent = pa.table({"ts": ids, "word": words, "id": ids})
    (folder / "words").mkdir(parents=True)
    for number in range(FILES):
        pq.write_table(sent.slice(number * PER_FILE, PER_FILE), folder / "words" / f"{number:03d}.parquet")
    stored = sent.set_column(2, "id", pa.array(range(rows, 2 * rows)))
    pq.write_table(stored, folder / "stored.parquet")
    return pa.concat_tables([duckdb.sql(f"SELECT * FROM sent WHERE id % 10 = 0 AND {COSTLY}").to_arrow_table(), stored])


def expected(tuples: pa.Table) -> Counter[tuple[Any, ...]]:
    """The counts, with their columns in order of their names."""
    rows = duckdb.sql(
        "SELECT count(*) AS n, CAST(sum(id) AS BIGINT) AS s, ts // 500 * 500 AS ts, word FROM tuples GROUP BY ALL"
    )
    return Counter(rows.fetchall())


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kills_while_boxes_are_arranged_do_not_matter(tmp_path: Path) -> None:
    rng = random.Random(11)
    tuples = write_input(tmp_path / "data")
    board, arguments = tmp_path / "run" / "board", (tmp_path / "data", tmp_path / "run", tmp_path / "out")
    for number in range(KILLS):
        life = Life.begin(arguments, tmp_path / f"life-{number}.log", rng.choice(("express", "exchange")), APP)
        # The optimizer looks at every fourth batch.
        life.kill_after(board, newest_batch(board) + rng.randint(3, 5), rng.uniform(0, 0.3))
    told = Life.begin(arguments, tmp_path / "last.log", app=APP).finish()
    assert told["versions"] > 1, "nothing was arranged, so nothing was tried"
    assert {name: count["taken"] for name, count in told["inputs"].items()} == {
        "words": FILES * PER_FILE,
        "stored": FILES * PER_FILE,
    }
    assert rows_of(tmp_path / "out", "counts") == expected(tuples)
    assert rows_of(tmp_path / "out", "few").total() == tuples.num_rows - FILES * PER_FILE
