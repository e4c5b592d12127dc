"""What is held is weighed after every batch, by value of the parameter, and shown beside what was aimed at."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console

import penstock as pk
from penstock_bench.contract import Job, Run, Size
from penstock_bench.held import Holding, Question, answer, difference, grown, packets, share
from penstock_bench.measure import run
from penstock_bench.report import document
from penstock_bench.skew import SKEW
from penstock_bench.traffic import EPOCH_US

SCHEMA = {"ts": "int64", "v": "int64"}


def network() -> pk.Network:
    net = pk.Network("held")
    for label, ahead in (("near", 5), ("far", 30)):
        rows = [(t, 0) for t in range(60)]
        a = net.source(f"{label}-a", pk.memory([(t + ahead, v) for t, v in rows], schema=SCHEMA, train=10))
        b = net.source(f"{label}-b", pk.memory(rows, schema=SCHEMA, train=10))
        pk.merge(a, b, name=f"{label}-merged").output(f"{label}-out")
    return net


def test_the_peaks_are_those_of_each_value_and_of_what_its_batches_bring(tmp_path: Path) -> None:
    holding = Holding(tmp_path / "c", width=100)
    network().run("local", checkpoint=str(tmp_path / "c"), buckets=2, on_batch=holding)
    near, far = holding.peaks["near"], holding.peaks["far"]
    assert near["in_hand"] == far["in_hand"] == 20
    # The one ahead waits: for 5 ticks of tuples, or for 30.
    assert 5 <= near["rows"] <= 7
    assert 30 <= far["rows"] <= 32
    assert far["all_rows"] == far["rows"] + 20
    assert far["bytes"] >= far["rows"] * 16
    assert far["all_bytes"] == far["bytes"] + 2000
    assert near["bytes"] < far["bytes"]


def test_packets_are_in_order_and_as_old_as_they_should_be() -> None:
    link = packets(10, 3, behind=40, groups=9, seed=1)
    times = link.column("ts").cast(pa.int64()).to_pylist()
    assert times == sorted(times)
    assert (times[0], len(times)) == (EPOCH_US - 40_000_000, 30)
    assert len(set(zip(link["srcIP"].to_pylist(), link["destIP"].to_pylist(), strict=True))) <= 9
    assert link.equals(packets(10, 3, behind=40, groups=9, seed=1))


def test_a_wrong_result_is_noticed() -> None:
    net = pk.Network("net")
    net.source("in", pk.memory([(1, 2), (3, 4)], schema=SCHEMA)).output("o")
    result = net.run("local")
    right = pa.table({"v": [4, 2], "ts": [3, 1]})
    assert difference(result, {"o": right}) is None
    assert difference(result, {"o": right.slice(1)}) == "o: 0 results missing or wrong, 1 that should not be there"
    assert difference(result, {"o": right.slice(2)}) == "o: nothing is expected, so nothing is compared"


def test_shares_and_growth_are_of_the_figures_named() -> None:
    both = {
        "out-of-order": {"1s": {"all_rows": 10.0, "rows": 1.0}, "40s": {"all_rows": 12.0, "rows": 5.0}},
        "in-order": {"1s": {"all_rows": 20.0, "rows": 2.0}, "40s": {"all_rows": 60.0, "rows": 50.0}},
    }
    assert (share(both, "40s"), share(both, "40s", "rows")) == (0.2, 0.1)
    assert (grown(both["out-of-order"]), grown(both["out-of-order"], "rows")) == (1.2, 5.0)


def test_the_report_has_a_table_bars_and_aims_for_every_case() -> None:
    point = {"rows": 10, "bytes": 1e6, "in_hand": 5, "all_rows": 15, "all_bytes": 2e6}
    points = {f"{skew}s": point for skew in (1, 5, 10, 20, 40)}
    results = {
        peer.label: Run(peer.label, 100, 1.0, 10.0, True, {"points": points}, peer.case)
        for peer in SKEW.peers
        if peer.case == "count"
    }
    found = document(SKEW, Size(100, 1), results)
    assert set(found["held"]["count"]) == {"out-of-order", "in-order"}
    console = Console(width=200, record=True)
    for part in SKEW.shown(found):
        console.print(part)
    text = console.export_text()
    for expected in ("skew, count: peaks of what is held", "100%", "█", "out of order, 40s / 1s", "<= 1.5"):
        assert expected in text


def test_a_question_is_answered_alike_in_both_architectures(tmp_path: Path) -> None:
    asked = SKEW.question("count", Size(6_000, 4))
    peaks = [weighed(asked, tmp_path / name, name) for name in ("in-order", "out-of-order")]
    assert peaks[0]["40s"]["rows"] > 3 * peaks[0]["1s"]["rows"]
    assert peaks[1]["40s"]["rows"] < peaks[0]["40s"]["rows"] / 2


def weighed(asked: Question, checkpoint: Path, architecture: str) -> dict[str, dict[str, float]]:
    holding = Holding(checkpoint, asked.width)
    result = asked.net.run(
        "local", checkpoint=str(checkpoint), buckets=1, tasks=1, architecture=architecture, on_batch=holding
    )
    assert difference(result, asked.expected) is None
    return holding.peaks


def test_what_is_right_is_what_a_whole_count_says() -> None:
    link = packets(2, 20, groups=1, seed=1)
    counts = answer("SELECT time_bucket(INTERVAL '10 seconds', ts) AS ts, count(*) AS n FROM m GROUP BY ALL", m=link)
    assert pc.sum(counts["n"]).as_py() == 40
    assert sorted(counts["ts"].cast(pa.int64()).to_pylist()) == [EPOCH_US, EPOCH_US + 10_000_000]


@pytest.mark.slow
@pytest.mark.peer
def test_a_run_on_spark_is_measured_and_right(tmp_path: Path) -> None:
    size = Size(6_000, 4)
    done = run(SKEW, Job("skew", "in-order-q9", size, tmp_path, tmp_path))
    assert done.correct
    assert set(done.detail["points"]) == {"1s", "5s", "10s", "20s", "40s"}
