"""What a run takes up on disk does not grow with its batches, and the benchmark says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from penstock_bench.catalog import choose, find
from penstock_bench.contract import Job, Run, Size
from penstock_bench.report import document
from penstock_bench.retention import BATCH_ROWS, RETENTION, Sampling, amount, growth, network, summary, wrong

BATCHES = 400


@pytest.mark.slow
def test_disk_is_flat_over_the_last_half_of_a_run_with_points_results_and_late_tuples(tmp_path: Path) -> None:
    sampling = Sampling(tmp_path / "run", 4)
    net = network(Size(BATCHES * BATCH_ROWS, 3), point_rows=400, grace="1 second", late_by=1_000)
    result = net.run(
        "local", checkpoint=str(sampling.checkpoint), durability="process", buckets=1, keep="16 kB", on_batch=sampling
    )
    assert wrong(result) is None
    assert result.forgotten("counts") > 0
    assert result.forgotten("packets!late") > 0
    assert [sample["batch"] for sample in sampling.samples] == list(range(4, BATCHES + 1, 4))
    # Small files are merged every 32 batches and the log is cut every 100 commits: what there is goes up and down.
    assert growth(sampling.samples, "bytes") <= 1.15
    assert growth(sampling.samples, "files") <= 1.15
    last = sampling.samples[len(sampling.samples) // 2 :]
    assert max(amount(sample, "files") for sample in last) <= 1_000
    for kind, most in (("results", 24_000), ("late tuples", 24_000), ("board", 60_000)):
        assert max(sample["bytes"][kind] for sample in last) <= most


def sample(batch: int, size: int, files: int = 3) -> dict[str, object]:
    return {"batch": batch, "bytes": {"state": size, "board": 1}, "files": {"state": files}}


def test_growth_compares_the_most_of_the_last_two_quarters() -> None:
    samples = [sample(n, size) for n, size in enumerate([1, 1, 5, 5, 9, 3, 8, 19])]
    assert growth(samples, "bytes") == 2.0
    assert growth(samples, "files") == 1.0
    told = summary(samples)
    assert (told["bytes"]["half"], told["bytes"]["end"], told["batches"]) == (6, 20, 7)


def test_a_run_that_grows_is_wrong(tmp_path: Path) -> None:
    job = Job("retention", "penstock-local", Size(100, 5), tmp_path, tmp_path)
    flat = {"wrong": None, "samples": [sample(n, 100) for n in range(8)]}
    assert RETENTION.check(job, flat) is None
    steep = {"wrong": None, "samples": [sample(n, 100 * n) for n in range(8)]}
    assert RETENTION.check(job, steep) == "bytes grow 1.40 times"
    assert RETENTION.check(job, {**flat, "wrong": "2 read, but 1 taken"}) == "2 read, but 1 taken"


def test_the_local_executor_is_the_usual_case() -> None:
    assert [peer.label for peer in choose(find("retention"), [])] == ["penstock-local"]
    assert [peer.label for peer in choose(find("retention"), [], ["spark"])] == ["penstock-spark"]


def test_people_see_what_there_was_at_half_and_at_the_end() -> None:
    detail = {"samples": [sample(n, 1000 + n) for n in range(1, 9)]}
    runs = {"penstock-local": Run("penstock-local", 100, 1.0, 1.0, True, detail, "local")}
    console = Console(record=True, width=160)
    for part in RETENTION.shown(document(RETENTION, Size(100, 5), runs)):
        console.print(part)
    shown = console.export_text()
    for text in ("local", "1,005", "1,009", "1.00"):
        assert text in shown
