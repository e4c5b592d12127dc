"""Outputs that take a part of a long train piece by piece show what they would have shown."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.connectors import growing_parquet
from penstock.runtime import intake

ROWS = 3_000


@pytest.fixture
def packets(tmp_path: Path) -> str:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(6):
        values = range(number * 500, number * 500 + 500)
        table = pa.table({"ts": pa.array(values, pa.int64()), "host": [f"h{value % 7}" for value in values]})
        pq.write_table(table, folder / f"{number}.parquet")
    return str(folder)


@pytest.fixture
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "PIECE_BYTES", 0)
    monkeypatch.setattr(growing_parquet, "GROUP_ROWS", 700)


def run(packets: str, target: pk.Target) -> None:
    net = pk.Network("selection")
    net.source("packets", pk.files(packets), on="ts").where("ts % 3 <> 1").output("out", to=target)
    net.run(engine="local", tasks=1)


def expected() -> list[dict[str, object]]:
    return [{"ts": value, "host": f"h{value % 7}"} for value in range(ROWS) if value % 3 != 1]


def test_a_part_is_one_parquet_file_of_several_groups(packets: str, short_pieces: None, tmp_path: Path) -> None:
    run(packets, pk.parquet(str(tmp_path / "out")))
    (file,) = (tmp_path / "out").glob("*.parquet")
    assert pq.read_table(file).to_pylist() == expected()
    assert [pq.read_metadata(file).row_group(at).num_rows for at in range(3)] == [700, 700, 600]


def test_a_part_is_staged_when_it_is_large(
    packets: str, short_pieces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "LEAVING_BYTES", 10_000)
    run(packets, pk.parquet(str(tmp_path / "out")))
    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert len(files) > 1
    assert [row for file in files for row in pq.read_table(file).to_pylist()] == expected()


def test_others_get_their_tuples_at_once(packets: str, short_pieces: None, tmp_path: Path) -> None:
    run(packets, pk.csv(str(tmp_path / "out")))
    (file,) = (tmp_path / "out").glob("*.csv")
    assert len(file.read_text().splitlines()) == 1 + len(expected())


def test_the_log_of_a_delta_table_tells_the_bounds_of_all_pieces(
    packets: str, short_pieces: None, tmp_path: Path
) -> None:
    run(packets, pk.delta(str(tmp_path / "out")))
    table = deltalake.DeltaTable(str(tmp_path / "out"))
    (add,) = table.get_add_actions(flatten=True).to_struct_array().to_pylist()
    assert (add["num_records"], add["min.ts"], add["max.ts"], add["null_count.ts"]) == (2_000, 0, 2_999, 0)
    assert pa.table(table.to_pyarrow_table()).sort_by("ts").to_pylist() == expected()


def test_a_partitioned_table_gets_its_tuples_at_once(packets: str, short_pieces: None, tmp_path: Path) -> None:
    run(packets, pk.delta(str(tmp_path / "out"), partition_by=["host"]))
    rows = deltalake.DeltaTable(str(tmp_path / "out")).to_pyarrow_table().select(["ts", "host"])
    assert rows.sort_by("ts").to_pylist() == expected()
