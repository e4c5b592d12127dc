"""The checker of q4 lets no wrong result pass, and holds a peer to the windows it must have emitted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock_bench.contract import Job, Size
from penstock_bench.measure import run
from penstock_bench.q4 import Q4, difference, expect
from penstock_bench.traffic import EPOCH_US, Traffic, write

# 100 s of event time: the windows that start at -60 s and 0 s close, the one at 60 s stays open.
TRAFFIC = Traffic(rows=10_000, groups=50, rate=100)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("q4")
    write(TRAFFIC, folder / "packets")
    expect(folder / "packets", folder / "expected.parquet")
    return folder


def verdict(data: Path, out: Path, change: Callable[[pa.Table], pa.Table], *, all_windows: bool) -> str | None:
    out.mkdir(exist_ok=True)
    pq.write_table(change(pq.read_table(data / "expected.parquet")), out / "part.parquet")
    return difference(data / "expected.parquet", data / "packets", out, all_windows=all_windows)


def closed(table: pa.Table) -> pa.Table:
    return table.filter(pc.less(table["ts"].cast(pa.int64()), EPOCH_US + 60_000_000))


def one_count_off(table: pa.Table) -> pa.Table:
    n = table["n"].to_pylist()
    return table.set_column(3, "n", pa.array([n[0] + 1, *n[1:]], pa.int64()))


def test_the_expected_counts_add_up_to_the_packets(data: Path) -> None:
    assert pc.sum(pq.read_table(data / "expected.parquet")["n"]).as_py() == TRAFFIC.rows


def test_equal_results_are_right(data: Path, tmp_path: Path) -> None:
    assert verdict(data, tmp_path, lambda table: table, all_windows=True) is None


def test_order_and_files_do_not_matter(data: Path, tmp_path: Path) -> None:
    table = pq.read_table(data / "expected.parquet").sort_by([("n", "descending")])
    (tmp_path / "deeper").mkdir()
    pq.write_table(table.slice(0, 7), tmp_path / "deeper" / "a.parquet")
    pq.write_table(table.slice(7), tmp_path / "b.parquet")
    assert difference(data / "expected.parquet", data / "packets", tmp_path, all_windows=True) is None


@pytest.mark.parametrize(
    ("change", "missing", "extra"),
    [
        pytest.param(one_count_off, 1, 1, id="wrong"),
        pytest.param(lambda table: table.slice(1), 1, 0, id="missing"),
        pytest.param(lambda table: pa.concat_tables([table, table.slice(3, 1)]), 0, 1, id="emitted twice"),
    ],
)
def test_a_single_bad_result_is_found(
    data: Path, tmp_path: Path, change: Callable[[pa.Table], pa.Table], missing: int, extra: int
) -> None:
    text = f"{missing} results missing or wrong, {extra} that should not be there"
    assert verdict(data, tmp_path, change, all_windows=True) == text


def test_a_peer_that_does_not_see_the_end_is_held_to_the_closed_windows_alone(data: Path, tmp_path: Path) -> None:
    assert verdict(data, tmp_path, closed, all_windows=False) is None
    assert verdict(data, tmp_path, closed, all_windows=True) is not None
    assert verdict(data, tmp_path, lambda table: closed(table).slice(1), all_windows=False) is not None


def test_a_window_emitted_before_it_closed_is_found(data: Path, tmp_path: Path) -> None:
    assert verdict(data, tmp_path, lambda table: table, all_windows=False) is not None


def test_no_output_is_not_right(data: Path, tmp_path: Path) -> None:
    assert difference(data / "expected.parquet", data / "packets", tmp_path, all_windows=True) == "no results at all"


def test_a_run_of_duckdb_in_a_process_of_its_own_is_measured_and_right(tmp_path: Path) -> None:
    size = Size(rows=200_000, groups=100)
    Q4.prepare(size, tmp_path / "data", lambda rows: None)
    (tmp_path / "scratch").mkdir()
    stages: list[str] = []
    done = run(Q4, Job("q4", "duckdb", size, tmp_path / "data", tmp_path / "scratch"), stages.append)
    assert done.correct
    assert done.rows == size.rows
    assert done.seconds > 0
    assert done.peak_pss_mb > 10  # a Python process with DuckDB loaded is larger than that
    assert stages == ["starting", "warm-up", "timed", "closing", "checking"]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.peer
@pytest.mark.parametrize("peer", ["spark-rocksdb"])
def test_the_native_peers_are_right(tmp_path: Path, peer: str) -> None:
    # Ten seconds of packets: the window before the epoch, which the delays reach back into, is the one that closes.
    size = Size(rows=1_000_000, groups=1_000)
    Q4.prepare(size, tmp_path / "data", lambda rows: None)
    (tmp_path / "scratch").mkdir()
    assert run(Q4, Job("q4", peer, size, tmp_path / "data", tmp_path / "scratch")).correct
