"""The checker of q7 lets no wrong count pass, and holds a peer to the windows that its watermark has let go."""

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
from penstock_bench.q7 import BANDS, Q7, difference, expect, write_links
from penstock_bench.traffic import EPOCH_US, SCHEMA

EPOCH = datetime.fromtimestamp(EPOCH_US / 1e6, UTC)
PACKET = {"srcIP": 1, "srcPort": 1000, "destIP": 2, "destPort": 80, "len": 40}
REPLY = {"srcIP": 2, "srcPort": 80, "destIP": 1, "destPort": 1000, "len": 40}


def link(folder: Path, packet: dict[str, int], *seconds: float, **changed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"ts": EPOCH + timedelta(seconds=at), **packet, **changed} for at in seconds]
    name = f"{len(list(folder.iterdir()))}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), folder / name)


def counts(file: Path) -> dict[float, int]:
    return {(row["ts"] - EPOCH).total_seconds(): row["n"] for row in pq.read_table(file).to_pylist()}


# 200 s of event time: with a band of 10 s the windows that start at -60, 0, 60 and 120 s close.
@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("q7")
    write_links(folder / "links", 40_000, 500, rate=100, files_a_link=2)
    expect(folder / "links", 10, folder / "expected.parquet")
    return folder


def verdict(data: Path, out: Path, change: Callable[[pa.Table], pa.Table], *, band: int | None) -> str | None:
    out.mkdir(exist_ok=True)
    pq.write_table(change(pq.read_table(data / "expected.parquet").sort_by("ts")), out / "part.parquet")
    return difference(data / "expected.parquet", data / "links", out, band=band)


def ending_by(seconds: int) -> Callable[[pa.Table], pa.Table]:
    last = EPOCH_US + (seconds - 60) * 1_000_000
    return lambda table: table.filter(pc.less_equal(table["ts"].cast(pa.int64()), last))


def test_a_match_lies_within_the_band_both_ways_ends_included(tmp_path: Path) -> None:
    link(tmp_path / "m1", PACKET, 100)
    link(tmp_path / "m2", REPLY, 89.999999, 90, 95, 110, 110.000001)
    expect(tmp_path, 10, tmp_path / "expected.parquet")
    assert counts(tmp_path / "expected.parquet") == {60.0: 3}


def test_the_window_is_that_of_the_request(tmp_path: Path) -> None:
    link(tmp_path / "m1", PACKET, 59, 61)
    link(tmp_path / "m2", REPLY, 60)
    expect(tmp_path, 1, tmp_path / "expected.parquet")
    assert counts(tmp_path / "expected.parquet") == {0.0: 1, 60.0: 1}


@pytest.mark.parametrize("column", ["srcIP", "srcPort", "destIP", "destPort"])
def test_all_four_of_addresses_and_ports_must_be_swapped(tmp_path: Path, column: str) -> None:
    link(tmp_path / "m1", PACKET, 5)
    link(tmp_path / "m2", REPLY, 5)
    link(tmp_path / "m2", REPLY, 5, **{column: 77})
    link(tmp_path / "m2", PACKET, 5)
    expect(tmp_path, 1, tmp_path / "expected.parquet")
    assert counts(tmp_path / "expected.parquet") == {0.0: 1}


def test_equal_results_are_right_and_a_wrong_count_is_not(data: Path, tmp_path: Path) -> None:
    assert verdict(data, tmp_path, lambda table: table, band=None) is None
    text = "1 results missing or wrong, 1 that should not be there"
    n = pq.read_table(data / "expected.parquet").sort_by("ts")["n"].to_pylist()
    wrong = pa.array([n[0], n[1] + 1, *n[2:]], pa.int64())
    assert verdict(data, tmp_path, lambda table: table.set_column(1, "n", wrong), band=None) == text


def test_a_peer_that_does_not_see_the_end_is_held_to_windows_that_no_match_can_reach(
    data: Path, tmp_path: Path
) -> None:
    # The watermark ends at 198 s, short of 200 by what packets may be late.
    assert verdict(data, tmp_path, ending_by(180), band=10) is None
    assert verdict(data, tmp_path, ending_by(120), band=10) is not None
    assert verdict(data, tmp_path, lambda table: table, band=10) is not None
    assert verdict(data, tmp_path, ending_by(120), band=60) is None
    assert verdict(data, tmp_path, ending_by(180), band=60) is not None


def test_a_run_of_duckdb_in_every_band_is_measured_and_right(tmp_path: Path) -> None:
    size = Size(rows=100_000, groups=4_000)
    Q7.prepare(size, tmp_path / "data", lambda rows: None)
    for case in BANDS:
        scratch = tmp_path / case
        scratch.mkdir()
        done = run(Q7, Job("q7", f"duckdb-{case}", size, tmp_path / "data", scratch))
        assert done.correct
        assert (done.case, done.rows) == (case, size.rows)


@pytest.mark.slow
@pytest.mark.peer
def test_our_peer_is_right(tmp_path: Path) -> None:
    # 70 s of packets: the window of the first minute closes. A native run takes over a minute even so; every run of the
    # benchmark checks it.
    size = Size(rows=700_000, groups=400_000)
    Q7.prepare(size, tmp_path / "data", lambda rows: None)
    (tmp_path / "scratch").mkdir()
    assert run(Q7, Job("q7", "penstock-10s", size, tmp_path / "data", tmp_path / "scratch")).correct
