"""The counts that q9 expects are those of sliding windows, and its checker lets no wrong one pass."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock_bench.contract import Job, Size
from penstock_bench.measure import run
from penstock_bench.q9 import LINKS, Q9, SPAN_S, difference, expect, write_links
from penstock_bench.traffic import DELAY_US, EPOCH_US, SCHEMA

EPOCH = datetime.fromtimestamp(EPOCH_US / 1e6, UTC)
PACKET = {"srcIP": 1, "srcPort": 1000, "destIP": 2, "destPort": 80, "len": 40}


def link(folder: Path, *seconds: float) -> None:
    folder.mkdir(parents=True)
    rows = [{"ts": EPOCH + timedelta(seconds=at), **PACKET} for at in seconds]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), folder / "part.parquet")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("q9")
    write_links(folder / "links", 20_000)
    expect(folder / "links", 5, folder / "expected.parquet")
    return folder


def times(folder: Path) -> list[int]:
    return sorted(pa.concat_tables(map(pq.read_table, folder.glob("*.parquet")))["ts"].cast(pa.int64()).to_pylist())


def verdict(data: Path, out: Path, change: Callable[[pa.Table], pa.Table], *, all_windows: bool) -> str | None:
    out.mkdir(exist_ok=True)
    pq.write_table(change(pq.read_table(data / "expected.parquet").sort_by("ts")), out / "part.parquet")
    return difference(data / "expected.parquet", data / "links", out, minutes=5, all_windows=all_windows)


def test_every_packet_counts_in_each_window_that_covers_it(tmp_path: Path) -> None:
    for name, seconds in zip(LINKS, ([0, 59.999999], [60], [180, -1]), strict=True):
        link(tmp_path / name, *seconds)
    expect(tmp_path, 2, tmp_path / "expected.parquet")
    found = {
        (row["ts"] - EPOCH).total_seconds(): row["n"]
        for row in pq.read_table(tmp_path / "expected.parquet").to_pylist()
    }
    #  minutes:   -1: 1 packet   0: 2 packets   1: 1 packet   2: none   3: 1 packet
    assert found == {-120.0: 1, -60.0: 3, 0.0: 3, 60.0: 1, 120.0: 1, 180.0: 1}


def test_any_number_of_rows_spans_three_hours_on_every_link(data: Path) -> None:
    sizes = []
    for name in LINKS:
        ts = times(data / "links" / name)
        sizes.append(len(ts))
        assert ts[0] >= EPOCH_US - DELAY_US
        assert (ts[-1] - EPOCH_US) / 1e6 == pytest.approx(SPAN_S, rel=0.01)
    assert sum(sizes) == 20_000
    assert sizes[2] == 200


def test_equal_results_are_right_and_a_wrong_count_is_not(data: Path, tmp_path: Path) -> None:
    assert verdict(data, tmp_path, lambda table: table, all_windows=True) is None
    assert verdict(data, tmp_path, lambda table: table.slice(1), all_windows=True) == (
        "1 results missing or wrong, 0 that should not be there"
    )
    assert verdict(data, tmp_path, lambda table: pa.concat_tables([table, table.slice(9, 1)]), all_windows=True) == (
        "0 results missing or wrong, 1 that should not be there"
    )


def test_a_peer_that_does_not_see_the_end_is_held_to_windows_that_every_link_has_passed(
    data: Path, tmp_path: Path
) -> None:
    passed = min(times(data / "links" / name)[-1] for name in LINKS) - DELAY_US - 5 * 60_000_000

    def closed(table: pa.Table) -> pa.Table:
        return table.filter(pc.less_equal(table["ts"].cast(pa.int64()), passed))

    assert verdict(data, tmp_path, closed, all_windows=False) is None
    assert verdict(data, tmp_path, lambda table: closed(table).slice(1), all_windows=False) is not None
    assert verdict(data, tmp_path, lambda table: table, all_windows=False) is not None


def test_a_run_of_duckdb_is_measured_and_right(tmp_path: Path) -> None:
    size = Size(rows=100_000, groups=1)
    written: list[int] = []
    Q9.prepare(size, tmp_path / "data", written.append)
    assert sum(written) == size.rows
    (tmp_path / "scratch").mkdir()
    done = run(Q9, Job("q9", "duckdb-5min", size, tmp_path / "data", tmp_path / "scratch"))
    assert done.correct
    assert done.case == "5min"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.peer
def test_the_native_peer_is_right(tmp_path: Path) -> None:
    # Every run of the benchmark checks its peers, ours too; this one is here for what "closed" means without an end.
    size = Size(rows=100_000, groups=1)
    Q9.prepare(size, tmp_path / "data", lambda rows: None)
    (tmp_path / "scratch").mkdir()
    assert run(Q9, Job("q9", "spark-rocksdb-5min", size, tmp_path / "data", tmp_path / "scratch")).correct
