"""The floor harness: what it counts as a batch, as a result, and as right."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock_bench.contract import Job, Size
from penstock_bench.floor import EPOCH_S, FLOOR, WARM_UP_TUPLES, settled, summarise, write_tuple
from penstock_bench.measure import run

JOB = Job("floor", "spark-rocksdb", Size(3, 1), Path(), Path())


def batch(rows: int, total: int, **phases: int) -> dict[str, object]:
    return {"numInputRows": rows, "durationMs": {"triggerExecution": total, **phases}}


def test_medians_are_of_batches_with_data_and_the_empty_batch_is_a_part() -> None:
    progress = [
        batch(1, 100, addBatch=70, walCommit=6),
        batch(0, 80, addBatch=60),
        batch(0, 3, latestOffset=3),  # an idle poll
        batch(1, 120, addBatch=90, walCommit=8),
        batch(0, 90, addBatch=60),
        batch(1, 900, addBatch=800, walCommit=7),
    ]
    found = summarise([200.0, 220.0, 210.0], progress)
    assert (found["batch_ms"], found["latency_ms"]) == (120, 210.0)
    assert found["parts"]["addBatch"] == 90
    assert found["parts"]["walCommit"] == 7
    assert found["parts"]["noDataBatch"] == 85


def test_a_peer_without_empty_batches_has_no_such_part() -> None:
    assert "noDataBatch" not in summarise([1.0], [batch(1, 100, addBatch=70)])["parts"]


def test_batches_are_settled_when_every_planned_one_is_committed(tmp_path: Path) -> None:
    assert not settled(tmp_path, 1)
    for log, batches in (("offsets", (7, 8)), ("commits", (7,))):
        (tmp_path / log).mkdir()
        for number in batches:
            (tmp_path / log / str(number)).touch()
            (tmp_path / log / f".{number}.crc").touch()
    assert not settled(tmp_path, 1)
    (tmp_path / "commits" / "8").touch()
    assert settled(tmp_path, 9)
    assert not settled(tmp_path, 10)


@pytest.mark.parametrize("suffix", [".json", ".parquet"])
def test_a_tuple_file_holds_one_tuple_a_second_after_the_one_before(tmp_path: Path, suffix: str) -> None:
    file = write_tuple(tmp_path, 5, suffix)
    if suffix == ".json":
        assert json.loads(file.read_text()) == {"ts": "2026-01-01T00:00:05+00:00", "v": 1}
    else:
        (row,) = pq.read_table(file).to_pylist()
        assert row["ts"].timestamp() == EPOCH_S + 5


def test_every_closed_window_must_have_one_result_of_one() -> None:
    right = [[EPOCH_S + number, 1] for number in range(WARM_UP_TUPLES + 2)]
    assert FLOOR.check(JOB, {"results": right[::-1]}) is None
    assert FLOOR.check(JOB, {"results": right[1:]}) is not None
    assert FLOOR.check(JOB, {"results": [*right, right[0]]}) is not None
    assert FLOOR.check(JOB, {"results": [[EPOCH_S, 2], *right[1:]]}) is not None


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.peer
def test_native_floor_is_measured_with_its_phases(tmp_path: Path) -> None:
    done = run(FLOOR, Job("floor", "spark-rocksdb", Size(3, 1), tmp_path, tmp_path))
    assert done.correct
    assert 0 < done.detail["batch_ms"] < done.detail["latency_ms"]
    assert done.detail["parts"]["addBatch"] > 0
    assert done.detail["parts"]["noDataBatch"] > 0
