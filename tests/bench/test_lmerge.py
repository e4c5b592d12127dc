"""lmerge: copies are copies, every algorithm gives their events, and a tiny run is shown."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import penstock as pk
from penstock.algebra.ticks import END
from penstock_bench.contract import Job, Size
from penstock_bench.lmerge import ALGORITHMS, LMERGE, SPARK
from penstock_bench.measure import run
from penstock_bench.our_lmerge import SCHEMA, Copy, Load, Stream, drive, loads

LOAD = Load(events=600, inputs=3, payload=20, disorder=0.5, adjusts=0.36, stable_freq=0.05, train=100)


def test_copies_differ_and_stand_for_the_same_events() -> None:
    stream = Stream(LOAD)
    one, other = (Copy(stream, at).train(0, 10_000).select(SCHEMA.names) for at in range(2))
    assert not one.equals(other)
    assert pk.equivalent(one, other)
    assert pk.tdb(one).num_rows == LOAD.events
    adjusts = one.column("kind").to_pylist().count("adjust") / one.num_rows
    assert adjusts == pytest.approx(LOAD.adjusts, abs=0.05)


def test_no_element_comes_behind_its_stable_point() -> None:
    copy = Copy(Stream(LOAD), 0)
    marks = [copy.mark(stop) for stop in range(len(copy.event) + 1)]
    assert marks == sorted(marks)
    assert marks[-1] == END
    assert len(set(marks)) > 5
    assert all((copy.sync[stop:] >= mark).all() for stop, mark in enumerate(marks[:-1]))


@pytest.mark.parametrize("case", [case for case in ALGORITHMS if case != SPARK])
def test_every_algorithm_gives_the_events(case: str) -> None:
    for algorithm in ALGORITHMS[case]:
        for load in list(loads(case, 400, 4).values())[-1:]:
            reached = drive(Load(**{**vars(load), "train": 100, "payload": 30}), algorithm)
            assert reached.wrong == "", algorithm
            assert reached.inserts == 400
            assert np.isfinite(reached.told()["rate"])


def test_a_copy_more_costs_r3_little_memory_and_r3_minus_its_share() -> None:
    held = {
        (name, inputs): drive(Load(events=2_000, inputs=inputs, disorder=0.2, train=200), name).state_bytes
        for name in ("R3", "R3-")
        for inputs in (2, 8)
    }
    assert held["R3", 8] < 1.5 * held["R3", 2]
    assert held["R3-", 8] > 2 * held["R3-", 2]


def test_a_run_is_right_and_shown(tmp_path: Path) -> None:
    size = Size(rows=300, groups=2)
    done = [run(LMERGE, Job("lmerge", peer, size, tmp_path, tmp_path)) for peer in ("R3-output", "R3-properties")]
    assert all(each.correct for each in done)
    told = LMERGE.told({each.peer: each for each in done})
    console = Console(file=io.StringIO(), width=150)
    for part in LMERGE.shown(told):
        console.print(part)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "adjusts out" in text
    assert "properties: MB of R3, most inputs / fewest" in text
