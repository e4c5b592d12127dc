"""failover: when elements come, what is said of rates, and a tiny run on Spark."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from penstock_bench.contract import Job, Size
from penstock_bench.delays import DISORDER, DISPLACED, HURRY, RATE, bursty, congested, order_of
from penstock_bench.failover import FAILOVER, figures
from penstock_bench.measure import run
from penstock_bench.our_failover import OUTPUT, most_behind, rates


def test_elements_leave_one_after_the_other_and_none_before_it_came() -> None:
    for times in (
        bursty(20_000, 0.005, 1),
        bursty(20_000, 0.003, 1, 10.0),
        congested(20_000, [(0.2, 0.3), (0.6, 0.7)], 2),
    ):
        assert (np.diff(times) >= 1 / (RATE * HURRY) - 1e-9).all()
        assert (times >= np.arange(20_000) / RATE).all()
        # What was held up has about caught up by the end.
        assert times[-1] < 20_000 / RATE + 0.5


def test_a_queue_that_is_held_up_lets_few_go_and_then_hurries() -> None:
    counts, _ = np.histogram(congested(20_000, [(0.25, 0.5)], 3), np.arange(0, 4.01, 0.25))
    assert counts[:4].min() > 1_200
    assert counts[4:7].max() < 20
    assert counts[8] > 2 * counts[0]


def test_a_fifth_is_late_but_not_by_much() -> None:
    order = order_of(10_000, 5)
    behind = np.maximum.accumulate(order) - order
    assert sorted(order) == [*range(10_000)]
    assert behind.max() <= DISPLACED
    assert (behind > 0).mean() == pytest.approx(DISORDER, abs=0.02)


def test_elements_of_a_batch_are_spread_over_the_time_since_the_batch_before() -> None:
    noted = [(10.5, {"copy1": 100, OUTPUT: 0}), (11.0, {"copy1": 100, OUTPUT: 300})]
    assert rates(noted, 10.0, 0.25) == {"copy1": [200, 200, 0, 0], OUTPUT: [0, 0, 600, 600]}


def test_a_stream_is_behind_what_its_source_has_had() -> None:
    noted = [(10.5, {"copy1": 2_000}), (11.0, {"copy1": 2_500, OUTPUT: 3_750}), (12.0, {"copy1": 9_000, OUTPUT: 9_500})]
    assert most_behind(noted, 10.0, 0.6, 3.0) == {"copy1": 0.5, OUTPUT: 0.25}


def test_figures_tell_how_steady_a_stream_is() -> None:
    steady, stalled = [100.0] * 20, [100.0] * 14 + [5.0, 0.0, 0.0, 100.0, 100.0, 100.0]
    told = figures({"a": steady, "b": stalled}, 5.0)
    assert told["a"] == {"variation": 0.0, "gap_s": 0.0, "least": 100.0, "most": 100.0}
    assert told["b"]["gap_s"] == 0.75
    assert told["b"]["variation"] > 0.4


@pytest.mark.peer
@pytest.mark.parametrize("case", ["long-bursts", "congestion"])
def test_a_run_is_right_and_shown(case: str, tmp_path: Path) -> None:
    size = Size(rows=20_000, groups=2)
    FAILOVER.prepare(size, tmp_path / "data", lambda rows: None)
    done = run(FAILOVER, Job("failover", f"penstock-{case}", size, tmp_path / "data", tmp_path))
    assert done.correct
    console = Console(file=io.StringIO(), width=150)
    for part in FAILOVER.shown(FAILOVER.told({done.peer: done})):
        console.print(part)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "longest gap in s" in text
    assert OUTPUT in text
