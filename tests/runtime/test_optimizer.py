"""The optimizer at work: what it learns, when it changes something, what it takes back, and what survives."""

from __future__ import annotations

import contextlib
import hashlib
import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import penstock as pk
from penstock.errors import QueryError
from penstock.language.attaching import Order
from penstock.plan.compile import compile_network
from penstock.plan.optimize import without_combining
from penstock.plan.plan import Step
from penstock.runtime.attaching import attached_plan
from penstock.runtime.board import Record
from penstock.runtime.box_statistics import NOTHING_YET, BoxStatistics
from penstock.runtime.local import LocalExecutor
from penstock.runtime.opening import open_job
from penstock.runtime.optimizer import Optimizer, known_of
from penstock.runtime.result import Result
from penstock.runtime.settings import Settings
from penstock.runtime.shelf import Shelf
from penstock.runtime.work import BoxWork, InputCount
from penstock.storage.folder import Folder

SCHEMA = {"ts": "int64", "k": "int64", "s": "string"}
ROWS = [(n, n % 10, f"text {n % 997}") for n in range(24_000)]


def network(rows: list[tuple[Any, ...]] = ROWS) -> pk.Network:
    net = pk.Network("optimized")
    stream = net.source("in", pk.memory(rows, schema=SCHEMA, train=2_000))
    stream.where("md5(s) > '1'", name="dear").where("k = 3", name="cheap").output("o")
    return net


class EnoughError(Exception):
    """The run is stopped."""


def run(folder: Path, net: pk.Network, last: int | None = None, **options: Any) -> list[Record]:
    """Run to the end, or to a batch."""
    seen: list[Record] = []

    def on_batch(record: Record) -> None:
        seen.append(record)
        if record.batch == last:
            raise EnoughError

    with contextlib.suppress(EnoughError):
        net.run(engine="local", checkpoint=str(folder), durability="process", buckets=1, on_batch=on_batch, **options)
    return seen


def steps(net: pk.Network, folder: Path) -> list[tuple[Step, ...]]:
    return [without_combining(version.steps) for version in net.look_at_versions(str(folder))]


def test_the_cheap_filter_comes_first_and_the_answer_is_the_same(tmp_path: Path) -> None:
    plain, optimized = run(tmp_path / "plain", network()), run(tmp_path / "run", network(), optimize="on")
    assert steps(network(), tmp_path / "run") == [(), (Step("swap_filters", "cheap"),)]
    found = {name: network().look(str(tmp_path / name)) for name in ("plain", "run")}
    assert found["plain"]["o"].equals(found["run"]["o"])
    assert found["plain"].elements("o") == found["run"].elements("o")
    began = next(record.batch for record in optimized if record.version == 2)
    assert began <= 10
    assert len(plain) == len(optimized)
    # The user sees the boxes that he has named, and no tuple is lost from sight.
    assert optimized[-1].boxes.keys() == {"dear", "cheap"}
    last, before = (record.boxes for record in (optimized[-1], optimized[-2]))
    assert last["cheap"].tuples_in - before["cheap"].tuples_in == 2_000
    assert last["dear"].tuples_in - before["dear"].tuples_in == 200


def test_a_restart_goes_on_as_it_was_arranged(tmp_path: Path) -> None:
    run(tmp_path, network(), last=8, optimize="on")
    known = known_of(Folder(str(tmp_path)))
    assert known.statistics.boxes["cheap"].selectivity == pytest.approx(0.1, abs=0.01)
    assert [change.version for change in known.changes] == [2]
    again = run(tmp_path, network(), optimize="on")
    assert {record.version for record in again} == {2}
    assert [change.version for change in known_of(Folder(str(tmp_path))).changes] == [2]
    assert network().look(str(tmp_path))["o"].num_rows == sum(row[1] == 3 and passes(row) for row in ROWS)


def passes(row: tuple[Any, ...]) -> bool:
    return hashlib.md5(row[2].encode()).hexdigest() > "1"


def test_a_run_tells_what_its_boxes_cost_and_what_was_changed(tmp_path: Path) -> None:
    run(tmp_path, network(), last=9, optimize="on")
    told = network().explain(live=str(tmp_path))
    assert "filter dear <- in: k = 3, then md5(s) > '1'" in told
    assert "from dear, cheap\n    to   cheap, dear" in told
    assert "all boxes took" in told
    assert "(1 - s) / c" in told
    run(tmp_path / "plain", network(), last=0)
    assert "the optimizer has changed nothing" in network().explain(live=str(tmp_path / "plain"))


def test_without_the_optimizer_a_run_goes_back_to_what_the_user_has_said(tmp_path: Path) -> None:
    run(tmp_path, network(), last=8, optimize="on")
    run(tmp_path, network(), optimize="off")
    assert steps(network(), tmp_path) == [(), (Step("swap_filters", "cheap"),), ()]
    assert network().look(str(tmp_path))["o"].num_rows == sum(row[1] == 3 and passes(row) for row in ROWS)


def test_statistics_that_cannot_be_read_are_measured_again(tmp_path: Path) -> None:
    run(tmp_path, network(), optimize="on")
    for content in (b"", b'{"statistics": 3}\n', b"\xff"):
        (tmp_path / "optimizer" / "statistics.json").write_bytes(content)
        assert known_of(Folder(str(tmp_path))).statistics == NOTHING_YET


def test_small_batches_are_left_alone(tmp_path: Path) -> None:
    run(tmp_path, network(ROWS[:900]), optimize="on", train_rows=100)
    assert steps(network(ROWS[:900]), tmp_path) == [()]


def test_what_cannot_be_optimized_is_refused() -> None:
    with pytest.raises(QueryError, match="unknown optimize 'maybe'"):
        network().run(engine="local", optimize="maybe")
    with pytest.raises(QueryError, match="does not go with architecture='in-order'"):
        network().run(engine="local", optimize="on", architecture="in-order")


def records(*batches: tuple[int, dict[str, tuple[int, int, float]]]) -> list[Record]:
    """Records of batches: the version, and of every box tuples in, out and seconds."""
    found, boxes, taken = [Record(0, version=batches[0][0])], dict[str, BoxWork](), 0
    for batch, (version, done) in enumerate(batches, 1):
        taken += max(work[0] for work in done.values())
        for name, (came, left, seconds) in done.items():
            boxes[name] = boxes.get(name, BoxWork()) + BoxWork(came, left, seconds, calls=1)
        counts = {"in": InputCount(read=taken, taken=taken)}
        found.append(Record(batch, boxes=dict(boxes), inputs=counts, version=version))
    return found


def learnt(told: list[Record], disturbed: frozenset[str] = frozenset()) -> BoxStatistics:
    known = NOTHING_YET
    for before, record in pairwise(told):
        known = known.after(before, record, disturbed)
    return known


def test_a_change_of_the_data_shows_within_a_few_batches() -> None:
    known = learnt(records(*[(1, {"f": (10_000, 9_000, 0.2)})] * 9, *[(1, {"f": (10_000, 1_000, 0.02)})] * 4))
    assert known.boxes["f"].selectivity == pytest.approx(0.1, abs=0.06)
    assert known.boxes["f"].seconds == pytest.approx(0.02 / 20_000, rel=0.6)
    assert known.inputs == {"in": pytest.approx(10_000)}


def test_what_few_tuples_cost_does_not_count_where_many_have_been_measured() -> None:
    many, few = (1, {"f": (100_000, 50_000, 0.11)}), (1, {"f": (10, 5, 0.01)})
    before, after = learnt(records(many, many)), learnt(records(many, many, few, few, few))
    assert after.boxes["f"].seconds == before.boxes["f"].seconds


def test_the_first_batch_of_a_version_says_nothing_of_costs() -> None:
    usual, slow = {"f": (10_000, 5_000, 0.1)}, {"f": (10_000, 5_000, 9.0)}
    known = learnt(records((1, usual), (1, usual), (2, slow)))
    assert known.boxes["f"].seconds == learnt(records((1, usual), (1, usual))).boxes["f"].seconds
    assert known.spent is None


def test_boxes_that_a_filter_in_advance_disturbs_keep_their_selectivity() -> None:
    told = records(*[(1, {"f": (10_000, 5_000, 0.1)})] * 3)
    off = [*told, replace(told[-1], batch=4, boxes={"f": BoxWork(40_000, 25_000, 0.4, calls=4)})]
    assert learnt(off).boxes["f"].selectivity > 0.6
    known = learnt(told).after(off[-2], off[-1], {"f"})
    assert known.boxes["f"].selectivity == pytest.approx(0.5)


def test_a_change_that_does_great_harm_is_taken_back(tmp_path: Path) -> None:
    net = network()
    settings = Settings(buckets=1, tasks=1, durability="process", optimize="on")
    job = open_job(compile_network(net.network), settings, Folder(str(tmp_path)), 1)
    shelf = Shelf.of(job)
    optimizer = Optimizer(shelf, job.checkpoint, shelf.arrange)
    dear_first = {"dear": (10_000, 9_000, 0.2), "cheap": (9_000, 900, 0.01)}
    cheap_first = {"cheap": (10_000, 1_000, 0.3), "dear": (1_000, 900, 0.3)}
    told = records(*[(1, dear_first)] * 3, *[(2, cheap_first)] * 4)
    for record in told[:4]:
        optimizer.after(record)
    assert without_combining(shelf.newest.plan.arrangement) == (Step("swap_filters", "cheap"),)
    for record in told[4:]:
        optimizer.after(record)
    assert (shelf.newest.version, shelf.newest.plan.arrangement) == (3, ())
    first, second = known_of(job.checkpoint).changes
    assert first.cost_after is not None
    assert first.cost_before is not None
    assert first.cost_after > first.cost_before
    assert second.taken_back
    job.release()


def slow_first(stream: pk.Stream) -> None:
    stream.where("md5(s) > '1'", name="dear").where("k = 3", name="cheap").output("o")


def test_filters_of_an_attached_query_are_arranged_on_both_sides_of_its_seam(tmp_path: Path) -> None:
    net = pk.Network("attached")
    stream = net.source("in", pk.memory(ROWS, schema=SCHEMA, train=2_000)).connection_point("point", key="k")
    stream.where("k = 5").output("live")
    settings = Settings(buckets=1, tasks=1, optimize="on", durability="process")
    job = open_job(compile_network(net.network), settings, Folder(str(tmp_path)), cores=1, dumps=pickle.dumps)
    executor, shelf = LocalExecutor(job), Shelf.of(job)
    for batch in range(400):
        if batch == 3:
            order = Order(slow_first, ("point",), "q", share=1.0)
            shelf.change(attached_plan(shelf.newest, order), (), shelf.newest.version)
        if executor.step() is None:
            break
    executor.close()
    arranged = [version for version in shelf.versions.all() if version.arrangement]
    assert arranged
    assert all(query["name"] == "q" for query in arranged[-1].attached)
    assert sorted(Result(shelf.newest)["o"]["ts"].to_pylist()) == expected(ROWS)


def expected(rows: list[tuple[Any, ...]]) -> list[int]:
    return [ts for ts, k, s in rows if k == 3 and hashlib.md5(s.encode()).hexdigest() > "1"]
