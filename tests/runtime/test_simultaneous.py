"""Simultaneous tuples and timestamps on demand, in batches: what a merge lets go of in the batch that brings it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.jobs import job_of

import penstock as pk
from penstock.runtime.local import LocalExecutor


def _outputs(net: pk.Network, tmp_path: Path, batches: int) -> list[tuple[int, int]]:
    """(tuples that have left, tuples that the merge holds) after each batch."""
    executor = LocalExecutor(job_of(net, tmp_path))
    records = [executor.step() for _ in range(batches)]
    return [(r.outputs["out"], r.boxes["merge"].held_rows) for r in records if r is not None]


@pytest.mark.parametrize(
    ("idle", "wanted"),
    [
        (None, [(0, 1), (0, 2), (0, 3), (0, 4)]),
        # The silent input is asked with every batch, the first included.
        (pk.on_demand(), [(1, 0), (2, 0), (3, 0), (4, 0)]),
    ],
)
def test_a_silent_input_that_is_asked_releases_what_is_stamped_with_the_same_clock(
    idle: Any, wanted: list[tuple[int, int]], tmp_path: Path
) -> None:
    (tmp_path / "silent").mkdir()
    net = pk.Network("net")
    script = [element for second in (1, 2, 3, 4) for element in (pk.clock(second), ("x",))]
    busy = net.source("busy", pk.memory(script, schema={"k": "string"}, train=2), timestamps="internal")
    silent = net.source(
        "silent",
        pk.files(str(tmp_path / "silent" / "*.parquet"), follow=True),
        schema={"k": "string"},
        timestamps="internal",
        progress=pk.ordered(idle=idle),
    )
    pk.merge(busy, silent, name="merge").output("out")
    assert _outputs(net, tmp_path, 4) == wanted


def test_ties_of_ordered_inputs_leave_in_the_batch_that_brings_them(tmp_path: Path) -> None:
    net = pk.Network("net")
    schema = {"ts": "int64", "k": "string"}
    left, right = (
        net.source(name, pk.memory([(5, name)] * 3 + [(6, name)], schema=schema, train=1)) for name in ("left", "right")
    )
    pk.merge(left, right, name="merge").output("out")
    assert _outputs(net, tmp_path, 4) == [(2, 0), (4, 0), (6, 0), (8, 0)]
