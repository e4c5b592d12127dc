"""feedback: the data has the stretches of the paper, both plans select the same, and wrong answers are told."""

from __future__ import annotations

import io
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from penstock_bench.contract import Job, Run, Size
from penstock_bench.feedback import FEEDBACK, MIDDLE, SLOW_US, difference, elements
from penstock_bench.our_feedback import Plan, Udf


def test_stretches_of_small_and_large_values_alternate() -> None:
    small = elements(200_000).column("x").to_numpy() < MIDDLE
    switches = np.flatnonzero(small[1:] != small[:-1])
    assert len(switches) == 9
    lengths = np.diff([-1, *switches])
    assert lengths.min() >= 10_000
    assert lengths.max() <= 30_000


def test_each_plan_is_slow_for_other_values_and_both_select_the_same() -> None:
    for x in (2, 3, MIDDLE + 2):
        taken = {}
        for small in (True, False):
            began = time.thread_time()
            chosen = Udf(small)({"x": np.array([x])})
            assert chosen == (x, x % 2 == 0)
            taken[small] = time.thread_time() - began
        assert taken[x < MIDDLE] >= SLOW_US / 1e6


def test_the_plan_selects_what_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock_bench.our_feedback.SLOW_US", 1)
    FEEDBACK.prepare(Size(400, 2), tmp_path, lambda rows: None)
    job = Job("feedback", "penstock-udf0", Size(400, 2), tmp_path, tmp_path)
    plan = Plan.of(job, 0)
    plan.network().run(engine="local", checkpoint=plan.checkpoint, train_rows=100)
    assert FEEDBACK.check(job, {}) is None


@pytest.mark.parametrize(
    ("stamps", "reason"),
    [
        (lambda right: right[1:], "1 of 2 are missing, 0 are there more than once"),
        (lambda right: [*right, right[0]], "0 of 2 are missing, 1 are there more than once"),
    ],
)
def test_a_wrong_answer_is_told(stamps: object, reason: str) -> None:
    rows = pa.table({"ts": [0, 1, 2, 3], "x": [2, 3, 4, 5]})
    assert difference(rows, pa.table({"ts": [0, 2]})) is None
    assert difference(rows, pa.table({"ts": stamps([0, 2])})) == reason  # type: ignore[operator]


def test_the_report_has_every_case_and_the_gain() -> None:
    detail = {"results": 7, "batches": 3, "series": [[0.0, 1], [2.0, 7]]}
    seconds = {"udf0": 40.0, "udf1": 41.0, "lmerge": 42.0, "feedback": 12.0}
    runs = {
        peer.label: Run(peer.label, 10, seconds[peer.case], 1.0, True, detail, peer.case) for peer in FEEDBACK.peers
    }
    console = Console(file=io.StringIO(), width=150)
    for part in FEEDBACK.shown(FEEDBACK.told(runs)):
        console.print(part)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(case in text for case in seconds)
    assert "times faster with feedback" in text
    assert "3.50" in text
    assert FEEDBACK.told({"penstock-udf0": runs["penstock-udf0"]})["aims"] == []


def test_the_plans_heed_their_reader_only_with_feedback(tmp_path: Path) -> None:
    job = Job("feedback", "penstock-feedback", Size(4, 2), tmp_path, tmp_path)
    FEEDBACK.prepare(Size(4, 2), tmp_path, lambda rows: None)
    for feedback in (True, False):
        (output,) = Plan.of(job, 1, feedback=feedback).network().network.outputs
        assert output.target.heeds is feedback
