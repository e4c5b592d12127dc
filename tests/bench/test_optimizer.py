"""The benchmark of the optimizer: its peers are right, and what is told of their batches."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from penstock_bench.contract import Job, Run, Size
from penstock_bench.measure import run
from penstock_bench.optimizer import BATCHES, HALF, OPTIMIZER, write
from penstock_bench.our_optimizer import BEST, WHERE, WORST, network


def test_the_data_changes_in_the_middle(tmp_path: Path) -> None:
    write(Size(BATCHES * 200, 4), tmp_path, lambda rows: None)
    for half, (bots, api) in enumerate(((0.95, 0.05), (0.05, 0.95))):
        files = [str(tmp_path / f"{batch:04d}.parquet") for batch in range(half * HALF, (half + 1) * HALF)]
        shares = ", ".join(f"avg(CAST({WHERE[name]} AS INTEGER))" for name in ("bots", "api", "words", "few"))
        found = duckdb.sql(f"SELECT {shares} FROM read_parquet({files})").fetchall()[0]
        assert found == pytest.approx((bots, api, 1.0, 0.9), abs=0.04)


def test_all_orders_have_the_same_boxes(tmp_path: Path) -> None:
    write(Size(BATCHES, 4), tmp_path, lambda rows: None)
    boxes = [{box.name for box in network(order, tmp_path, tmp_path / "out").network.boxes} for order in (WORST, *BEST)]
    assert boxes[0] == boxes[1] == boxes[2]
    assert len(boxes[0] - {"requests", "counts"}) == 6


def test_what_is_told_of_a_half() -> None:
    versions = [1] * 4 + [2] * 16 + [3] * 12
    seconds = [4.0] * 4 + [1.0] * 12 + [2.0] * 4 + [0.5] * 12
    batches = [
        {"seconds": each, "cpu": each / 2, "version": version, "rows": 1_000}
        for each, version in zip(seconds, versions, strict=True)
    ]
    told = OPTIMIZER.told({"penstock": Run("penstock", 32_000, 1.0, 1.0, True, {"batches": batches})})
    first, second = told["optimizer"]["penstock"]["halves"]
    assert first == {"rows_per_s": 1_000, "us_per_row": 500, "found": 4}
    assert second == {"rows_per_s": 2_000, "us_per_row": 250, "found": 4}


@pytest.mark.parametrize(
    "peer", [pytest.param(peer.label, marks=[pytest.mark.slow, pytest.mark.peer]) for peer in OPTIMIZER.peers]
)
def test_every_peer_is_right(tmp_path: Path, peer: str) -> None:
    size = Size(rows=40_000, groups=4)
    OPTIMIZER.prepare(size, tmp_path / "data", lambda rows: None)
    (tmp_path / "scratch").mkdir()
    assert run(OPTIMIZER, Job("optimizer", peer, size, tmp_path / "data", tmp_path / "scratch")).correct
