"""An input that lags takes long trains of what is left out of them anyway."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import deltalake
import pytest

import penstock as pk
from penstock.connectors.delta.reader_needs import tell
from penstock.plan.compile import compile_network
from penstock.runtime.local import LocalExecutor
from penstock.runtime.opening import open_job
from penstock.runtime.settings import Settings
from penstock.runtime.work import InputCount
from penstock.storage.folder import Folder

SCHEMA = {"ts": "int64"}
TRAIN = 10


def reads(rows: list[tuple[int]], floor: int, folder: Path, *, train: int | None = TRAIN) -> Iterator[InputCount]:
    """What has been read after each batch, of which the third and all later ones know of a floor."""
    net = pk.Network("net")
    stream = net.source("in", pk.memory(rows, schema=SCHEMA), progress=pk.delayed(3))
    stream.output("out", to=pk.delta(str(folder / "table"), feedback=True))
    settings = Settings(train_rows=train)
    executor = LocalExecutor(open_job(compile_network(net.network), settings, Folder(str(folder / "run")), cores=2))
    try:
        for batch in range(100):
            if batch == 2:
                tell(Folder(str(folder / "table")), {"ts": floor}, stream.schema, Folder(str(folder / "reader")))
            if (record := executor.step()) is None:
                return
            yield record.inputs["in"]
    finally:
        executor.close()


@pytest.fixture(autouse=True)
def _listen_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.runtime.feedback._LISTEN_SECONDS", 0.0)


def test_the_way_to_a_floor_takes_a_few_trains(tmp_path: Path) -> None:
    found = list(reads([(ts,) for ts in range(400)], 320, tmp_path))
    # Three quarters of what is estimated each time, and never less than a train.
    assert [count.read for count in found[:8]] == [10, 20, 245, 302, 316, 326, 336, 346]
    assert found[-1].read == 400
    assert found[-1].taken == 20 + 80
    stored = deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_table().column("ts").to_pylist()
    assert sorted(stored) == [*range(20), *range(320, 400)]


def test_rows_of_use_are_few_where_the_estimate_is_wrong(tmp_path: Path) -> None:
    # First a row for each tick, then one for ten ticks.
    rows = [(ts,) for ts in [*range(30), *range(30, 4000, 10)]]
    counts = list(reads(rows, 100, tmp_path))
    taken = [after.taken - before.taken for before, after in pairwise(counts)]
    assert max(taken) <= 6 * TRAIN
    assert counts[-1].read == len(rows)


def test_trains_have_a_greatest_length(tmp_path: Path) -> None:
    counts = list(reads([(ts,) for ts in range(2000)], 2000, tmp_path))
    assert [count.read for count in counts] == [10, 20, 20 + 64 * TRAIN, 20 + 2 * 64 * TRAIN, 1825, 1957, 1990, 2000]


def test_trains_without_a_limit_stay_as_they_are(tmp_path: Path) -> None:
    assert [count.read for count in reads([(ts,) for ts in range(400)], 320, tmp_path, train=None)] == [400]
