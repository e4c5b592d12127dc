"""The generator keeps the promise that every peer relies on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock_bench.traffic import DELAY_US, EPOCH_US, SCHEMA, Traffic, write

SMALL = Traffic(rows=250_000, groups=1_000, file_rows=100_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("traffic")
    write(SMALL, folder)
    return folder


def packets(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(file) for file in sorted(folder.glob("*.parquet")))


def times(folder: Path) -> np.ndarray:
    return packets(folder)["ts"].cast(pa.int64()).to_numpy()


def test_all_rows_are_written_in_the_schema(folder: Path) -> None:
    table = packets(folder)
    assert table.num_rows == SMALL.rows
    assert table.schema.equals(SCHEMA)


def test_rate_is_exact_and_delays_fill_zero_to_two_seconds(folder: Path) -> None:
    arrival = EPOCH_US + np.arange(SMALL.rows) * 10  # 100,000 packets a second
    delay = arrival - times(folder)
    assert delay.min() >= 0
    assert delay.max() <= DELAY_US
    assert abs(delay.mean() - DELAY_US / 2) < DELAY_US * 0.01
    assert np.quantile(delay, [0.1, 0.9]) == pytest.approx([0.2e6, 1.8e6], rel=0.05)


def test_no_packet_is_more_than_two_seconds_behind_those_before_it(folder: Path) -> None:
    ts = times(folder)
    assert (np.maximum.accumulate(ts) - ts).max() <= DELAY_US


def test_the_pairs_of_addresses_are_exactly_the_groups_and_no_address_tells_the_pair(folder: Path) -> None:
    keys = packets(folder).select(["srcIP", "destIP"])
    assert keys.group_by(["srcIP", "destIP"]).aggregate([]).num_rows == SMALL.groups
    for address in ("srcIP", "destIP"):
        assert keys.group_by(address).aggregate([]).num_rows < SMALL.groups // 10


def test_files_are_as_old_as_they_arrive_so_that_spark_reads_them_in_order(folder: Path) -> None:
    files = sorted(folder.glob("*.parquet"))
    assert len(files) == 3
    ages = [file.stat().st_mtime for file in files]
    assert ages == sorted(set(ages))


def test_the_same_declaration_gives_the_same_packets() -> None:
    assert SMALL.packets(2).equals(SMALL.packets(2))
    assert not SMALL.packets(0)["srcPort"].equals(SMALL.packets(1)["srcPort"])


def test_a_folder_is_reused_for_the_same_traffic_and_rewritten_for_another(tmp_path: Path) -> None:
    first = Traffic(rows=100, groups=4)
    write(first, tmp_path / "t")
    (tmp_path / "t" / "mark").touch()
    write(first, tmp_path / "t")
    assert (tmp_path / "t" / "mark").exists()
    write(Traffic(rows=101, groups=4), tmp_path / "t")
    assert not (tmp_path / "t" / "mark").exists()
    assert packets(tmp_path / "t").num_rows == 101
