"""Attaching queries, and views: what is refused when a query is attached, and what a change does to those that are."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as pk
from penstock.errors import QueryError
from penstock.language.attaching import Order, Query, query_name
from penstock.plan.compile import compile_network
from penstock.plan.plan import Plan
from penstock.runtime.attaching import attached_plan, detached_plan
from penstock.runtime.job import Job
from penstock.runtime.local import LocalExecutor
from penstock.runtime.opening import look_at, open_job
from penstock.runtime.result import Result
from penstock.runtime.settings import PROCESS, Settings
from penstock.runtime.shelf import Shelf
from penstock.runtime.viewing import shown
from penstock.storage.folder import Folder

SCHEMA = {"ts": "int64", "k": "string"}
ROWS = [(at, "ab"[at % 2]) for at in range(40)]


def network(*, point: bool = True, column: str = "k", kind: str = "int64") -> pk.Network:
    net = pk.Network("live")
    rows = pk.memory(ROWS, schema={"ts": kind, column: "string"}, train=5)
    stream = net.source("in", rows, progress=pk.ordered())
    if point:
        stream = stream.connection_point("point")
    stream.late().connection_point("late ones")
    stream.aggregate({"n": "count(*)"}, on="ts", size=10, name="tens").output("tens")
    return net


def opened(folder: Path, net: pk.Network) -> Job:
    settings = Settings(buckets=2, tasks=2, durability=PROCESS)
    return open_job(compile_network(net.network), settings, Folder(str(folder)), 2, dumps=pickle.dumps)


def few(stream: pk.Stream) -> None:
    stream.where("k = 'a'", name="few").output("few")


def order(query: Query = few, at: str = "point", **options: object) -> Order:
    return Order(query, (at,), "q", **options)  # type: ignore[arg-type]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A run that has done three batches."""
    job = opened(tmp_path / "run", network())
    executor = LocalExecutor(job)
    for _ in range(3):
        executor.step()
    return Shelf.of(job).newest


def no_output(stream: pk.Stream) -> None:
    stream.where("k = 'a'")


def two(stream: pk.Stream, other: pk.Stream) -> None:
    few(stream)


def same_name(stream: pk.Stream) -> None:
    stream.aggregate({"n": "count(*)"}, on="ts", size=10, name="tens").output("more")


def unknown_column(stream: pk.Stream) -> None:
    stream.where("nope = 1").output("few")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (order(at="points"), "no connection point or view 'points'"),
        (order(at="tens"), "no connection point or view 'tens'"),
        (order(at="late ones"), "makes no progress"),
        (order(no_output), "has no output"),
        (order(two), "takes other arguments than its connection points"),
        (order(same_name), "already a box named 'tens'"),
        (order(unknown_column), "unknown column 'nope'"),
        (order(since="1 hour"), "since='1 hour' says nothing on 'ts'"),
        (order(since=-3), "history lies behind, not ahead"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_attached_is_refused(job: Job, asked: Order, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        attached_plan(job, asked)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"share": 0}, "a share is more than 0"),
        ({"share": 1.5}, "a share is more than 0"),
        ({"share": True}, "a share is more than 0"),
        ({"query": "select 1"}, "is no query"),
    ],
    ids=str,
)
def test_orders_that_make_no_sense_are_refused(options: dict[str, object], reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        order(**options)  # type: ignore[arg-type]


def test_a_query_without_a_name_is_refused() -> None:
    assert query_name(few) == "few"
    with pytest.raises(QueryError, match="has no name"):
        query_name(lambda stream: few(stream))
    with pytest.raises(QueryError, match="at one connection point at least"):
        Order(few, (), "q")


def test_a_query_is_attached_once_and_detached_once(job: Job) -> None:
    shelf = Shelf.of(job)
    shelf.change(attached_plan(job, order()), (), job.version)
    with pytest.raises(QueryError, match="'q' is attached already"):
        attached_plan(shelf.newest, order())
    with pytest.raises(QueryError, match="no query 'p' is attached"):
        detached_plan(shelf.newest, "p")
    shelf.change(detached_plan(shelf.newest, "q"), (), shelf.newest.version)
    assert shelf.newest.plan.declared is not None
    assert [box.name for box in shelf.newest.plan.declared.boxes] == [box.name for box in network().network.boxes]


def test_a_plan_that_follows_another_version_is_refused(job: Job) -> None:
    shelf = Shelf.of(job)
    late = attached_plan(job, order())
    shelf.change(attached_plan(job, Order(same_size, ("point",), "other")), (), job.version)
    with pytest.raises(QueryError, match="changed in between"):
        shelf.change(late, (), job.version)


def same_size(stream: pk.Stream) -> None:
    stream.output("all")


def test_a_query_whose_point_another_one_reads_is_not_detached(job: Job) -> None:
    def kept(stream: pk.Stream) -> None:
        stream.where("k = 'a'").connection_point("kept")

    shelf = Shelf.of(job)
    shelf.change(attached_plan(job, Order(kept, ("point",), "first")), (), job.version)
    shelf.change(attached_plan(shelf.newest, Order(same_size, ("kept",), "second")), (), shelf.newest.version)
    with pytest.raises(QueryError, match="'second' is attached to a connection point of 'first'"):
        detached_plan(shelf.newest, "first")


def test_a_change_keeps_what_is_attached_or_is_refused(job: Job) -> None:
    shelf = Shelf.of(job)
    shelf.change(attached_plan(job, order()), (), job.version)
    changed = network()
    changed.source("more", pk.memory(ROWS, schema=SCHEMA), progress=pk.ordered()).output("more")
    assert "few" in [o.name for o in shelf.change(compile_network(changed.network)).plan.network.outputs]
    with pytest.raises(QueryError, match="no connection point or view 'point'"):
        shelf.change(compile_network(network(point=False).network))
    with pytest.raises(QueryError, match="has other columns"):
        shelf.change(compile_network(network(column="other").network), ["in", "point", "late ones", "tens"])


def test_another_process_sees_what_is_attached(tmp_path: Path) -> None:
    first = opened(tmp_path / "run", network())
    executor, shelf = LocalExecutor(first), Shelf.of(first)
    executor.step()
    shelf.change(attached_plan(shelf.newest, order()), (), shelf.newest.version)
    while executor.step() is not None:
        pass
    executor.close()
    seen = look_at(compile_network(network().network), Folder(str(tmp_path / "run")))
    assert Result(seen)["few"].num_rows == 20
    assert [query["name"] for query in Shelf.of(seen).versions.all()[-1].attached] == ["q"]


def test_without_a_key_nothing_is_attached(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf.of(job)
    plan = attached_plan(job, order())
    object.__setattr__(shelf.versions, "dumps", None)
    with pytest.raises(QueryError, match="no key to sign with"):
        shelf.change(plan, (), job.version)
    assert shelf.newest.version == job.version
    assert shelf.versions.numbers() == [1]


def test_since_a_moment_is_a_value_of_the_attribute(tmp_path: Path) -> None:
    begin = dt.datetime(2026, 1, 1)
    rows = [(begin + dt.timedelta(minutes=at), "a") for at in range(28)]
    net = pk.Network("times")
    stream = net.source("in", pk.memory(rows, schema={"ts": "timestamp[us]", "k": "string"}, train=4))
    stream.connection_point("point").output("all")
    job = opened(tmp_path / "run", net)
    executor, shelf = LocalExecutor(job), Shelf.of(job)
    for _ in range(3):
        executor.step()
    moments = {"moment": begin + dt.timedelta(minutes=7), "length": "3 minutes", "nothing": "now"}
    for name, since in moments.items():
        plan = attached_plan(shelf.newest, Order(leaving(name), ("point",), name, since))  # type: ignore[arg-type]
        shelf.change(plan, (), shelf.newest.version)
        executor.step()
    while executor.step() is not None or executor.step() is not None:
        pass
    executor.close()
    times = {name: Result(shelf.newest)[name]["ts"].to_pylist() for name in moments}
    firsts = {name: (min(found) - begin).seconds // 60 for name, found in times.items()}
    # Twelve tuples have come when the first is attached; an ordered input has come as far as its last tuple.
    assert firsts == {"moment": 7, "length": 15 - 3, "nothing": 20}
    assert Result(shelf.newest)["moment"].num_rows == 28 - 7


def leaving(name: str) -> Query:
    return lambda stream: stream.output(name)


def view_network(**options: object) -> pk.Network:
    net = pk.Network("views")
    stream = net.source("in", pk.memory(ROWS, schema=SCHEMA, train=5), progress=pk.ordered())
    stream = stream.connection_point("point")
    counts = stream.aggregate({"n": "count(*)"}, on="ts", size=10, by="k", name="counts")
    counts.view("counts", **options)  # type: ignore[arg-type]
    return net


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"materialize": "maybe"}, "materialize='maybe' is unknown"),
        ({"materialize": "some"}, "say how much of the view is kept"),
        ({"materialize": "all", "keep": 10}, "keep= goes with materialize='some'"),
        ({"materialize": "none", "key": "k"}, "keeps nothing"),
    ],
    ids=str,
)
def test_views_that_contradict_themselves_are_refused(options: dict[str, object], reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        view_network(**options)


def test_a_view_that_is_not_kept_is_not_computed() -> None:
    plan = compile_network(view_network(materialize="none").network)
    assert plan.pruned == ("counts",) * 2  # the aggregate, and the view
    assert plan.stages == 0
    assert compile_network(view_network(materialize="all").network).stages == 1


def test_what_a_view_shows_is_what_is_kept_or_follows_from_it(tmp_path: Path) -> None:
    tables = {}
    for how in ("all", "none"):
        job = opened(tmp_path / how, view_network(materialize=how))
        executor = LocalExecutor(job)
        for _ in range(7):
            executor.step()
        executor.close()
        found = shown(job, "counts")
        if isinstance(found, Plan):
            found = computed(found, tmp_path / "computed")
        tables[how] = found.sort_by([("ts", "ascending"), ("k", "ascending")])
    # The window from 30 on is open still.
    assert tables["all"]["ts"].to_pylist() == [0, 0, 10, 10, 20, 20]
    assert tables["none"].equals(tables["all"])


def computed(plan: Plan, folder: Path) -> pa.Table:
    own = open_job(plan, Settings(buckets=2, tasks=2, durability=PROCESS), Folder(str(folder)), 2)
    executor = LocalExecutor(own)
    while executor.step() is not None:
        pass
    executor.close()
    return Result(own)["counts"]


def test_a_view_without_any_history_cannot_be_read(tmp_path: Path) -> None:
    net = pk.Network("views")
    stream = net.source("in", pk.memory(ROWS, schema=SCHEMA, train=5), progress=pk.ordered())
    stream.where("k = 'a'").view("few", materialize="none")
    stream.output("all")
    job = opened(tmp_path / "run", net)
    with pytest.raises(QueryError, match="nothing is kept of the input 'in'"):
        shown(job, "few")
    with pytest.raises(QueryError, match="nothing is kept of the input 'in'"):
        attached_plan(job, order(at="few"))
    live = attached_plan(job, order(leaving("now"), at="few", since="now"))
    assert "now" in [output.name for output in live.network.outputs]


def test_an_empty_view_shows_no_rows(tmp_path: Path) -> None:
    job = opened(tmp_path / "run", view_network())
    found = shown(job, "counts")
    assert isinstance(found, pa.Table)
    assert found.num_rows == 0
    assert found.schema.names == ["ts", "k", "n"]


def test_a_query_at_a_view_that_is_not_kept_brings_its_boxes(tmp_path: Path) -> None:
    job = opened(tmp_path / "run", view_network(materialize="none"))
    executor, shelf = LocalExecutor(job), Shelf.of(job)
    for _ in range(3):
        executor.step()
    plan = attached_plan(shelf.newest, order(leaving("all"), at="counts"))
    assert "q counts" in [box.name for box in plan.network.boxes]
    shelf.change(plan, (), shelf.newest.version)
    while executor.step() is not None or executor.step() is not None:
        pass
    executor.close()
    assert Result(shelf.newest)["all"].sort_by("ts")["n"].to_pylist() == [5] * 8


LIVES = [
    *(("insert", at, None, None, "ab"[at % 2]) for at in range(10)),
    *(("adjust", at, at + 5, None, "ab"[at % 2]) for at in range(10)),
]


def temporal_network(keep: int | None = None) -> pk.Network:
    net = pk.Network("live")
    schema = {"kind": "string", "vs": "int64", "ve": "int64", "vold": "int64", "k": "string"}
    rows = pk.temporal(pk.memory(LIVES, schema=schema, train=5))
    net.source("in", rows, progress=pk.punctuated()).connection_point("point", keep=keep).output("out")
    return net


def facts(stream: pk.Stream) -> None:
    stream.where("k = 'a'", name="a").as_facts(name="facts").output("facts")


def test_a_query_on_a_temporal_stream_sees_all_of_its_events(tmp_path: Path) -> None:
    job = opened(tmp_path / "run", temporal_network())
    executor, shelf = LocalExecutor(job), Shelf.of(job)
    for _ in range(3):
        executor.step()
    shelf.change(attached_plan(shelf.newest, order(facts)), (), shelf.newest.version)
    while executor.step() is not None:
        pass
    found = [(row["vs"], row["ve"], row["k"]) for row in Result(shelf.newest)["facts"].to_pylist()]
    assert sorted(found) == [(at, at + 5, "a") for at in range(0, 10, 2)]


@pytest.mark.parametrize("since", ["now", 3, "2 hours"])
def test_a_part_of_a_temporal_stream_is_refused(tmp_path: Path, since: object) -> None:
    job = opened(tmp_path / "run", temporal_network())
    with pytest.raises(QueryError, match="whose elements adjust earlier events"):
        attached_plan(Shelf.of(job).newest, order(facts, since=since))


def test_a_point_that_has_let_go_of_elements_is_refused(tmp_path: Path) -> None:
    job = opened(tmp_path / "run", temporal_network(keep=5))
    with pytest.raises(QueryError, match="does not keep all of its elements"):
        attached_plan(Shelf.of(job).newest, order(facts))
