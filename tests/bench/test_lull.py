"""lull: the silent link is silent, its heartbeats follow the scripted clock, and both queries are right."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.bench.test_held import weighed

import penstock as pk
from penstock.runtime.board import Record
from penstock_bench.contract import Size
from penstock_bench.lull import LULL, SECONDS, silent
from penstock_bench.traffic import EPOCH_US


def test_heartbeats_of_the_silent_link_come_as_often_as_they_should() -> None:
    net = pk.Network("net")
    net.source("control", silent(9), on="ts", progress=pk.heartbeat(every="3 seconds")).output("o")
    marks: list[int] = []

    def note(record: Record) -> None:
        marks.append((record.marks["control"].of("ts") - EPOCH_US) // 1_000_000)

    net.run("local", on_batch=note)
    assert marks[:8] == [1, 1, 1, 4, 4, 4, 7, 7]


@pytest.mark.parametrize("case", ["merge", "join"])
def test_only_in_order_does_what_is_held_grow_with_the_interval(case: str, tmp_path: Path) -> None:
    asked = LULL.question(case, Size(8 * SECONDS * 20, 4))
    orderly, freely = (weighed(asked, tmp_path / name, name) for name in ("in-order", "out-of-order"))
    assert orderly["30s"]["all_rows"] > 5 * orderly["1s"]["all_rows"]
    assert freely["30s"]["rows"] < orderly["30s"]["rows"] / 5
