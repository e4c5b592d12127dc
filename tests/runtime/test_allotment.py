"""How much of each input one train takes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.plan.compile import compile_network
from penstock.runtime.opening import open_job
from penstock.runtime.planner import Planner
from penstock.runtime.settings import Settings
from penstock.storage.folder import Folder

SCHEMA = {"ts": "int64", "k": "int64", "text": "string"}
PART_ROWS = 100


def network(folder: Path, parts: dict[str, int], *, by: tuple[str, ...] = ()) -> pk.Network:
    """Inputs of so many parts of a hundred rows each, counted."""
    net, streams = pk.Network("trains"), []
    for name, count in parts.items():
        (folder / name).mkdir()
        rows = PART_ROWS * count
        table = pa.table({"ts": list(range(rows)), "k": list(range(rows)), "text": ["x"] * rows})
        pq.write_table(table, folder / name / "all.parquet", row_group_size=PART_ROWS)
        connector = pk.files(str(folder / name), split_rows=PART_ROWS)
        streams.append(net.source(name, connector, schema=SCHEMA))
    united = pk.union(*streams) if len(streams) > 1 else streams[0]
    united.aggregate({"n": "count(*)"}, size=1000, by=by).output("counts")
    return net


def batches(net: pk.Network, folder: Path, settings: Settings) -> list[dict[str, int]]:
    """The rows that each batch takes of each input."""
    planner = Planner(open_job(compile_network(net.network), settings, Folder(str(folder / "checkpoint")), cores=2))
    at, found = planner.initial(), []
    while (after := planner.latest(at)) != at:
        counts: dict[str, int] = {}
        for share in planner.assignments(at, after):
            for name, split in share.splits:
                counts[name] = counts.get(name, 0) + split.rows
        found.append(counts)
        at = after
    return found


def test_inputs_share_a_train_evenly(tmp_path: Path) -> None:
    net = network(tmp_path, {"a": 4, "b": 4})
    assert batches(net, tmp_path, Settings(train_rows=400)) == [{"a": 200, "b": 200}, {"a": 200, "b": 200}]


def test_what_a_small_input_leaves_empty_goes_to_the_others(tmp_path: Path) -> None:
    net = network(tmp_path, {"small": 1, "large": 7})
    #  half of 800 is more than the small one has: the large one takes the rest
    assert batches(net, tmp_path, Settings(train_rows=800)) == [{"small": 100, "large": 700}]


def test_an_input_that_leaves_little_is_not_asked_twice(tmp_path: Path) -> None:
    net = network(tmp_path, {"a": 3, "b": 9})
    assert batches(net, tmp_path, Settings(train_rows=800))[0] == {"a": 300, "b": 400}


@pytest.mark.parametrize(
    ("by", "rows_a_train"),
    [
        pytest.param((), 200, id="only the timestamp is read: 8 bytes"),
        pytest.param(("k",), 100, id="two numbers: 16 bytes"),
    ],
)
def test_bytes_are_those_of_the_columns_that_are_needed(tmp_path: Path, by: tuple[str, ...], rows_a_train: int) -> None:
    net = network(tmp_path, {"a": 4}, by=by)
    taken = batches(net, tmp_path, Settings(train_bytes=200 * 8))
    assert taken[0] == {"a": rows_a_train}
    assert sum(batch["a"] for batch in taken) == 4 * PART_ROWS
