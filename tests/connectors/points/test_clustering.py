"""Which files of a connection point are merged."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.connectors.points import point_target
from penstock.connectors.points.clustering import FAN, MERGED_BYTES, runs_to_merge
from penstock.connectors.points.retention import Horizon
from penstock.connectors.points.stored_files import StoredFile
from penstock.storage.folder import Folder

SMALL = 1000


def files(*sizes: int, first: int = 0) -> list[StoredFile]:
    return [StoredFile(f"part-{at}", size, 1, at, at, 0, 0) for at, size in enumerate(sizes, first)]


def test_neighbours_are_merged_once_there_are_enough_of_them() -> None:
    few, enough = files(*[SMALL] * (FAN - 1)), files(*[SMALL] * FAN)
    assert runs_to_merge(few) == []
    assert runs_to_merge(enough) == [enough]


def test_a_large_file_stays_and_parts_those_around_it() -> None:
    found = files(*[SMALL] * FAN, MERGED_BYTES, *[SMALL] * FAN)
    assert runs_to_merge(found) == [found[:FAN], found[FAN + 1 :]]


def test_merged_files_are_merged_with_their_like_only() -> None:
    merged = 300_000
    assert runs_to_merge(files(merged, *[SMALL] * FAN)) == [files(*[SMALL] * FAN, first=1)]
    assert runs_to_merge(files(*[merged] * FAN)) == [files(*[merged] * FAN)]


def test_no_merged_file_is_larger_than_fits() -> None:
    size = MERGED_BYTES // FAN
    found = runs_to_merge(files(*[size] * (3 * FAN)))
    assert [sum(file.size for file in run) for run in found] == [MERGED_BYTES] * 3


def test_the_files_of_a_batch_stay_together() -> None:
    """Else merged files would overlap in a batch, and with them all of history."""
    found = [
        StoredFile(f"part-{batch}-{bucket}", MERGED_BYTES // 20, 1, batch, batch, 0, 0)
        for batch in range(20)
        for bucket in range(3)
    ]
    runs = runs_to_merge(found)
    ends = [(run[0].first, run[-1].last) for run in runs]
    assert len(runs) > 1
    assert all(later > earlier for (_, earlier), (later, _) in itertools.pairwise(ends))


def test_each_row_is_copied_a_few_times_in_all() -> None:
    held: list[StoredFile] = []
    written, total = 0, 4000
    for batch in range(total):
        held.append(StoredFile(f"part-{batch}", 20_000, 1, batch, batch, 0, 0))
        while batch % 32 == 31 and (runs := runs_to_merge(held)):
            for run in runs:
                size = sum(file.size for file in run)
                written += size
                merged = StoredFile(f"merged-{batch}", size, len(run), run[0].first, run[-1].last, 0, 0)
                held = sorted([file for file in held if file not in run] + [merged], key=lambda file: file.first)
    assert written <= 5 * total * 20_000
    assert len(held) < 40


def test_who_looks_for_one_key_reads_few_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point_target, "GROUP_ROWS", 10)
    net = pk.Network("n")
    rows = [(t, f"k{t % 20:02}") for t in range(400)]
    source = net.source("s", pk.memory(rows, schema={"ts": "int64", "k": "string"}, train=20))
    source.connection_point("raw", path=str(tmp_path / "raw"), key="k")
    net.run(engine="local", checkpoint=str(tmp_path / "cp"))
    target: Any = net.network.outputs[0].target
    target.tend(99, Folder(str(tmp_path / "cp" / "outlet" / "raw")), Horizon())
    (file,) = deltalake.DeltaTable(str(tmp_path / "raw")).file_uris()
    footer = pq.read_metadata(file)
    bounds = [footer.row_group(at).column(1).statistics for at in range(footer.num_row_groups)]
    assert len(bounds) == 40
    assert sum(bound.min <= "k07" <= bound.max for bound in bounds) == 2
