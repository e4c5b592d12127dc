"""The ets harness: its arrivals, what it counts as waiting, and what it holds against each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock_bench.contract import Job, Run, Size
from penstock_bench.ets import CASES, ETS, FAST_RATE, SLOW_RATE, aims, inputs, summarise
from penstock_bench.measure import run
from penstock_bench.our_ets import Seen
from penstock_bench.poisson import SCHEMA, Part, Poisson
from penstock_bench.report import document

SECOND = 1_000_000


def test_arrivals_are_poisson_at_their_rate_and_the_same_for_a_seed() -> None:
    arrivals = Poisson(50.0, 3, 10 * SECOND, 20_000)
    gaps = np.diff(arrivals.due()) / SECOND
    assert abs(gaps.mean() * 50 - 1) < 0.03
    assert abs(gaps.std() / gaps.mean() - 1) < 0.05
    assert np.array_equal(arrivals.due(), Poisson(50.0, 3, 10 * SECOND, 20_000).due())
    assert not np.array_equal(arrivals.due(), Poisson(50.0, 4, 10 * SECOND, 20_000).due())
    assert abs((arrivals.values() < 95).mean() - 0.95) < 0.01


def test_what_is_read_does_not_depend_on_the_cut() -> None:
    arrivals = Poisson(50.0, 3, 0, 100)
    whole, parts = ([Part("0", 0, 9, 0, 9)], [Part("0", 0, 4, 0, 4), Part("0", 4, 5, 4, 9)])
    read = [[c.tuples for s in splits for c in arrivals.read(s, SCHEMA, SCHEMA.names)] for splits in (whole, parts)]
    assert pa.Table.from_batches(read[0]).equals(pa.Table.from_batches(read[1]).combine_chunks())


def test_the_inputs_have_the_rates_of_the_paper() -> None:
    fast, slow = inputs(0, 3000)
    assert (fast.rate, slow.rate) == (FAST_RATE, SLOW_RATE) == (50.0, 0.05)
    assert 50 * SECOND < fast.due()[-1] < 70 * SECOND < slow.due()[-1]


def _emitted(times: list[int], due: list[int], names: list[str]) -> pa.Table:
    return pa.table({"ts": pa.array(times, pa.timestamp("us")), "due": pa.array(due, pa.int64()), "input": names})


BUSY, QUIET = (SECOND, 5 * SECOND), (10 * SECOND, 20 * SECOND)


class Three(Poisson):
    """One arrival a second, all of which pass."""

    def due(self) -> np.ndarray:
        return np.arange(1, 4) * SECOND + self.origin

    def values(self) -> np.ndarray:
        return np.zeros(3, np.int64)


def test_latency_queue_and_idle_waiting_are_of_the_time_that_counts() -> None:
    """Batches at 1.5, 2.5 and 4 seconds: the merge holds something from the first to the second."""
    fast, slow = Three(1.0, 0, 0, 3), Three(1.0, 0, 10 * SECOND, 3)
    seen = Seen(
        emitted=[
            (2_500_000, _emitted([1, 2], [SECOND, 2 * SECOND], ["fast", "fast"])),
            (4_000_000, _emitted([3], [3 * SECOND], ["fast"])),
        ],
        batches=[(1_500_000, 1), (2_500_000, 0), (4_000_000, 0), (12_000_000, 0)],
    )
    found = summarise(seen, fast, slow, BUSY, QUIET)
    assert found["wrong"] is None
    assert found["latency_ms"] == pytest.approx((1500 + 500 + 1000) / 3)
    assert found["idle_share"] == pytest.approx(1 / 4)
    assert (found["peak_held"], found["peak_queue"], found["batches"]) == (1, 2, 3)
    # The inputs stop at 5; what runs after 10 runs in silence.
    assert found["quiet_batches"] == 1


@pytest.mark.parametrize(
    ("tuples", "reason"),
    [
        (_emitted([2, 1], [SECOND, 2 * SECOND], ["fast", "fast"]), "the merged stream is not in order"),
        (_emitted([1, 2], [SECOND, SECOND], ["fast", "fast"]), "the tuples of 'fast' do not leave once and in order"),
        (_emitted([2], [2 * SECOND], ["fast"]), "the tuples of 'fast' do not leave once and in order"),
    ],
)
def test_a_wrong_answer_is_told(tuples: pa.Table, reason: str) -> None:
    seen = Seen(emitted=[(2_500_000, tuples)], batches=[(2_500_000, 0)])
    found = summarise(seen, Three(1.0, 0, 0, 3), Three(1.0, 0, 10 * SECOND, 3), BUSY, QUIET)
    assert found["wrong"] == reason
    assert ETS.check(Job("ets", "penstock-none", Size(1, 1), Path(), Path()), found) == reason


def test_no_output_is_no_answer() -> None:
    found = summarise(Seen(), Three(1.0, 0, 0, 3), Three(1.0, 0, 10 * SECOND, 3), BUSY, QUIET)
    assert found["wrong"] == "nothing left the network"


def _figures(latency: float, held: int, queue: int, batches: int, quiet: int = 0) -> dict[str, float]:
    counts = {"peak_held": held, "peak_queue": queue, "batches": batches, "quiet_batches": quiet}
    return {"latency_ms": latency, "seconds": 10.0, **counts}


def test_the_cases_are_held_against_each_other() -> None:
    figures = {
        "none": _figures(20_000, 3_000, 3_100, 60),
        "1s": _figures(600, 60, 90, 60),
        "0.1s": _figures(210, 10, 40, 70, 80),
        "on-demand": _figures(200, 0, 31, 60),
        "latent": _figures(190, 0, 30, 61),
    }
    found = {aim["what"]: aim["found"] for aim in aims(figures)}
    assert found == {
        "latency, on demand / latent": "1.05",
        "latency, none / on demand": "100",
        "tuples held by the merge, none / on demand": "3000 / 0",
        "tuples in all buffers, none / on demand": "100",
        "batches a second, on demand / heartbeats every 0.1s (same latency)": "6.00 / 7.00",
        "batches in 10 s of silence, on demand / heartbeats every 0.1s (same latency)": "0 / 80",
    }
    assert aims({"none": figures["none"]}) == []


def test_the_report_has_the_figures_of_every_case_and_draws_them() -> None:
    detail = {**_figures(200, 0, 31, 60), "p95_ms": 300.0, "idle_share": 0.0, "statements": 5, "wrong": None, "rows": 9}
    found = document(ETS, Size(9, 2), {f"penstock-{c}": Run(c, 9, 1.0, 1.0, True, detail, c) for c in CASES})
    assert list(found["ets"]) == list(CASES)
    assert found["ets"]["none"]["latency_ms"] == 200
    assert len(ETS.shown(found)) == 4


@pytest.mark.slow
@pytest.mark.spark
def test_on_demand_nothing_is_held_from_one_batch_to_the_next(tmp_path: Path) -> None:
    done = run(ETS, Job("ets", "penstock-on-demand", Size(200, 2), tmp_path, tmp_path))
    assert done.correct
    assert done.detail["peak_held"] == 0
    assert done.detail["statements"] > 0
