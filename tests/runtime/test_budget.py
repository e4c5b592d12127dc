"""A budget for what a run takes up on disks: refused before it is exceeded, or the oldest history leaves."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as pk
from penstock.connectors.points.point_target import EVERY
from penstock.runtime import budget
from penstock.runtime.board import Record
from penstock.storage.disk import finish_forgetting

BATCHES, ROWS = 80, 40


def network(*, point: str | None = None, batches: int = BATCHES) -> pk.Network:
    net = pk.Network("n")
    ts = pa.array(range(batches * ROWS))
    rows = pa.table({"ts": ts, "k": pa.array([f"key {n % 7}" for n in range(len(ts))])})
    source = net.source("s", pk.memory(rows, train=ROWS))
    source.connection_point("raw", path=point, grace="1 hour")
    source.output("all")
    source.aggregate({"n": "count(*)"}, size=400, by="k").output("counts")
    return net


def size(*places: Path) -> int:
    return sum(_size(file) for place in places for file in place.rglob("*"))


def _size(file: Path) -> int:
    try:
        found = file.stat()
    except FileNotFoundError:  # what a thread beside the run has deleted meanwhile
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def run(checkpoint: Path, **settings: Any) -> pk.Result:
    settings = {"batches": BATCHES, "point": None, **settings}
    net = network(point=settings.pop("point"), batches=settings.pop("batches"))
    return net.run(engine="local", checkpoint=str(checkpoint), durability="process", buckets=1, **settings)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> pk.Result:
    return run(tmp_path_factory.mktemp("undisturbed") / "run")


def test_a_run_that_would_exceed_it_ends_before_that_and_says_what_takes_how_much(tmp_path: Path) -> None:
    seen: list[int] = []

    def look(_: Record) -> None:
        finish_forgetting()  # old files are deleted by a thread
        seen.append(size(tmp_path / "run"))

    with pytest.raises(pk.WorldError, match="more than is left of what the run may take up on disks") as full:
        run(tmp_path / "run", disk="300 kB", on_batch=look)
    assert 150_000 < seen[-1] < 300_000
    told = str(full.value)
    assert "at most 300.0 kB" in told
    assert "connection point 'raw'" in told
    assert "results 'all'" in told
    assert "when_full='oldest'" in told


def test_a_run_that_is_full_is_refused_at_its_start_and_goes_on_with_more_room(
    tmp_path: Path, undisturbed: pk.Result
) -> None:
    batches: list[int] = []

    def note(record: Record) -> None:
        batches.append(record.batch)

    for _ in range(2):
        with pytest.raises(pk.WorldError, match="on disks"):
            run(tmp_path / "run", disk="300 kB", on_batch=note)
    with pytest.raises(pk.WorldError, match="on disks"):
        run(tmp_path / "run", disk="200 kB", on_batch=note)
    whole = run(tmp_path / "run", disk="1 GB", on_batch=note)
    assert batches == sorted(set(batches))  # none was done again
    assert whole.record().batch == BATCHES - 1
    assert whole["counts"].equals(undisturbed["counts"])


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_oldest_history_leaves_and_results_stay_the_same(
    tmp_path: Path, undisturbed: pk.Result, elsewhere: bool
) -> None:
    places = (tmp_path / "run", tmp_path / "raw") if elsewhere else (tmp_path / "run",)
    seen: list[int] = []
    result = run(
        tmp_path / "run",
        point=str(tmp_path / "raw") if elsewhere else None,
        disk="300 kB",
        when_full="oldest",
        on_batch=lambda record: seen.append(size(*places)),
    )
    assert max(seen) <= 320_000  # small files may be merged beside the run just then
    assert min(seen[60:]) >= 150_000
    gone = result.forgotten("all")
    assert 0 < gone < BATCHES * ROWS
    # What stays is the newest, without a hole.
    assert result["all"]["ts"].to_pylist() == list(range(gone, BATCHES * ROWS))
    (point,) = result.points()
    assert 0 < point.rows < BATCHES * ROWS
    again = pk.Network("again")
    again.source("raw", pk.connection_point(point.place)).output("all")
    assert again.run(engine="local")["all"]["ts"].to_pylist() == list(
        range(BATCHES * ROWS - point.rows, BATCHES * ROWS)
    )
    # A budget decides when history leaves, and nothing else.
    left, all_left = result["counts"], undisturbed["counts"]
    assert all_left.slice(all_left.num_rows - left.num_rows).equals(left)
    assert result.record().outputs == undisturbed.record().outputs


def test_a_run_whose_history_was_cut_goes_on_after_a_stop(tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def stop(record: Record) -> None:
        if record.batch == 50:
            raise StopError

    with pytest.raises(StopError):
        run(tmp_path / "run", disk="300 kB", when_full="oldest", on_batch=stop)
    result = run(tmp_path / "run", disk="300 kB", when_full="oldest")
    gone = result.forgotten("all")
    assert result["all"]["ts"].to_pylist() == list(range(gone, BATCHES * ROWS))


def test_if_no_history_is_left_to_leave_the_run_ends_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(pk.WorldError, match="on disks") as full:
        run(tmp_path / "run", disk="50 kB", when_full="oldest")
    assert "when_full" not in str(full.value)


def test_files_are_counted_now_and_then_and_not_for_every_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    footprint = budget.footprint_of
    monkeypatch.setattr(budget, "footprint_of", lambda job: counts.append(1) or footprint(job))
    run(tmp_path / "run", disk="1 GB")
    assert 2 <= len(counts) <= BATCHES // budget.EVERY + BATCHES // EVERY + 8  # now and then, and after upkeep


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"disk": "much"}, "disk='much' is no size"),
        ({"disk": 0}, "disk=0 is no size"),
        ({"keep": "2 hours"}, "keep='2 hours' is no size"),
        ({"when_full": "stop"}, "unknown when_full 'stop'"),
    ],
)
def test_what_is_no_budget_is_refused(tmp_path: Path, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(pk.QueryError, match=told):
        run(tmp_path / "run", **settings)


def test_what_the_run_keeps_holds_for_outputs_that_do_not_say_otherwise(tmp_path: Path) -> None:
    net = pk.Network("n")
    rows = [(n if n % 5 else 0,) for n in range(3_000)]
    source = net.source("s", pk.memory(rows, schema={"ts": "int64"}, train=30), progress=pk.ordered())
    source.output("all")
    source.output("more", keep="1 GB")
    result = net.run(engine="local", checkpoint=str(tmp_path / "run"), keep="20 kB", durability="process")
    assert result.forgotten("all") > 0
    assert result.forgotten("more") == 0
    assert result.forgotten("s!late") > 0
    assert size(tmp_path / "run" / "outlet" / "s!late") <= 24_000
    with pytest.raises(pk.QueryError, match="to= beside keep="):
        source.output("x", to=pk.callback(print), keep="1 MB")
