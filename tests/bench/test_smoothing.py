"""smoothing: the ring buffer's arithmetic, and a tiny run of every flush."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from penstock_bench.contract import Job, Size
from penstock_bench.measure import run
from penstock_bench.our_smoothing import Load, drive
from penstock_bench.ring import fullest, highest_rate
from penstock_bench.smoothing import FLUSHES, SHARES, SMOOTHING, TABLES, WINDOWS, load_of

LOAD = Load(groups=400, window=1000, windows=WINDOWS, train=100)


def test_a_ring_holds_what_comes_while_a_train_is_worked_on() -> None:
    # Trains of 10 at 5 a second are complete every 2 s; one that takes 4 s leaves 20 more behind it.
    assert fullest([0.0, 0.0], 10, rate=5) == 10
    assert fullest([4.0, 0.0], 10, rate=5) == 30


def test_one_pause_decides_the_rate_of_a_small_ring_and_not_of_a_large_one() -> None:
    even, uneven = [1.0] * 50, [*[0.9] * 49, 5.9]
    assert sum(even) == pytest.approx(sum(uneven))
    assert highest_rate(even, train=10, ring=20) == pytest.approx(10)
    assert highest_rate(uneven, train=10, ring=20) == pytest.approx(10 / 5.9)
    # However large, it stands no more than the work allows on average.
    assert highest_rate(uneven, train=10, ring=1000) == pytest.approx(10)


def test_cases_have_as_many_packets_to_a_group() -> None:
    loads = [load_of(SMOOTHING.size, case) for case in SHARES]
    assert [load.groups for load in loads] == [65_536, 131_072, 262_144, 524_288]
    assert {load.window / load.groups for load in loads} == {6}
    assert all(load.window % load.train == 0 for load in loads)


def test_addresses_lead_back_to_their_group() -> None:
    packets = next(iter(LOAD.trains()))
    groups = LOAD.group(packets["srcIP"].to_numpy(), packets["destIP"].to_numpy())
    assert (np.bincount(groups, minlength=LOAD.groups) <= LOAD.counts()[0]).all()
    assert LOAD.counts().sum() == LOAD.window * LOAD.windows


@pytest.mark.parametrize("table", [200, 800])
def test_in_order_flushes_in_a_burst_and_out_of_order_does_not(table: int) -> None:
    found = {name: drive(LOAD, table, **FLUSHES[name]) for name in FLUSHES}
    assert {name: each.wrong for name, each in found.items()} == dict.fromkeys(FLUSHES, 0)
    assert {len(each.low) for each in found.values()} == {LOAD.window // LOAD.train}
    assert all(low < stage for each in found.values() for low, stage in zip(each.low, each.stage, strict=True))
    assert found["in-order"].burst > 1.5 * max(found["slow"].burst, found["lazy"].burst)
    # The window ends are seen a train late at most.
    assert found["in-order"].delay < 0.2 < found["lazy"].delay <= 2.1


def test_a_run_is_right_and_shown(tmp_path: Path) -> None:
    size = Size(rows=8_000, groups=400)
    done = run(SMOOTHING, Job("smoothing", "slow-half", size, tmp_path, tmp_path))
    assert done.correct
    assert set(done.detail["tables"]) == set(TABLES)
    told = SMOOTHING.told({done.peer: done})
    console = Console(file=io.StringIO(), width=150)
    for part in SMOOTHING.shown(told):
        console.print(part)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "200 │" in text
    # In a grid and in a figure, for the low level and for the stage.
    assert text.count("slow") == 4 * len(TABLES)
