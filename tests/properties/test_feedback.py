"""Feedback changes no answer: what a merge lets out is the same with it and without it, batch by batch.

Copies of one stream go through boxes that are drawn, most of which hold state, and meet in an LMerge. Trains have any
length and go either way, the process ends in the middle of batches, and begins anew. Then the same with copies that
networks of their own write to Delta tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.thoroughness import tries

import penstock as pk
from penstock.cli.accounts import accounts, balanced
from penstock.plan.compile import compile_network
from penstock.plan.plan import IN_ORDER, OUT_OF_ORDER
from penstock.runtime.board import Board, Record
from penstock.runtime.job import Job
from penstock.runtime.local import LocalExecutor
from penstock.runtime.opening import open_job
from penstock.runtime.outlet import Outlet
from penstock.runtime.result import Result
from penstock.runtime.settings import PROCESS, Settings
from penstock.storage.folder import Folder

CASES = tries(15)
SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}
DELAY = 5
MOST = 400
Row = tuple[int, str, int]

Chain = Callable[[pk.Stream], pk.Stream]
CHAINS: dict[str, Chain] = {
    "nothing": lambda s: s,
    "filter": lambda s: s.where("v % 3 > 0"),
    "both ports": lambda s: pk.union(*s.filter("v > 4")),
    "map": lambda s: s.map(t="ts", w="v * 2", k="k").map(ts="t", k="k", v="w / 2"),
    "tumbling": lambda s: s.aggregate({"n": "count(*)", "total": "sum(v)"}, size=4),
    "sliding": lambda s: s.aggregate({"n": "count(*)"}, size=7, advance=3, by="k"),
    "filter, tumbling": lambda s: s.where("v > 1").aggregate({"n": "max(v)"}, size=3, by="k").where("n < 9"),
    "moved": lambda s: s.map(ts="ts + 3", k="k", v="v"),
    "moved, tumbling": lambda s: s.map(ts="ts + 3", k="k", v="v").aggregate({"n": "count(*)"}, size=4, by="k"),
    "functions": lambda s: s.aggregate(pk.window_function(final=Spread(), returns={"w": "int64"}, columns="v"), **WIDE),
    "distinct": lambda s: s.aggregate({"n": "count(DISTINCT v)", "mid": "median(v)"}, **WIDE),
    "two windows": lambda s: s.aggregate({"n": "count(*)"}, size=4, by="k").aggregate({"n": "sum(n)"}, size=12),
    "cleanse": lambda s: s.cleanse(),
    "cleanse of groups": lambda s: s.cleanse(by="k").where("v > 1"),
    "bsort": lambda s: s.bsort(slack=2, on="ts"),
    "dedupe": lambda s: s.dedupe(on="ts", by=["k", "v"]).aggregate({"n": "count(*)"}, size=5, by="k"),
    "top": lambda s: s.top(2, by="v", size=6, advance=2, groups="k").map(ts="window", rank="rank", v="v"),
    "top by its own time": lambda s: s.top(3, by="v * 1000 + ts", size=6).map(ts="ts", window="window", v="v"),
    "low level": lambda s: s.aggregate({"n": "count(*)"}, size=4, by="k", flush="lazy", table=4),
}
WIDE = {"size": 9, "advance": 2, "by": "k"}
TIMES = {"ts": "l_ts", "ots": "r_ts", "v": "l_v", "w": "r_v"}


def joined(**options: Any) -> Callable[[pk.Stream, pk.Stream], pk.Stream]:
    return lambda s, o: s.join(o, "l.k = r.k", on=("ts", "ts"), band=(2, 4), **options)


PAIRS: dict[str, Callable[[pk.Stream, pk.Stream], pk.Stream]] = {
    "join": lambda s, o: joined()(s, o).map(**TIMES),
    "join, by the other time": lambda s, o: joined()(s, o).map(**{**TIMES, "ts": "r_ts", "ots": "l_ts"}),
    "join, the least time": lambda s, o: joined(progress="min")(s, o).map(**{**TIMES, "ts": "ts"}),
    "join, the greatest time": lambda s, o: joined(progress="max")(s, o).map(**{**TIMES, "ts": "ts"}),
    "left join": lambda s, o: joined(how="left")(s, o).map(**TIMES),
    "right join": lambda s, o: joined(how="right")(s, o).map(**{**TIMES, "ts": "r_ts", "ots": "l_ts"}),
    "full join": lambda s, o: joined(how="full", progress="min")(s, o).map(**{**TIMES, "ts": "ts"}),
    "full join, the greatest time": lambda s, o: joined(how="full", progress="max")(s, o).map(**{**TIMES, "ts": "ts"}),
    "semi join": joined(how="semi"),
    "anti join": joined(how="anti"),
    "join without keys": lambda s, o: s.join(o, on=("ts", "ts"), band=(2, 4)).map(**TIMES),
    "join, tumbling": lambda s, o: joined()(s, o).aggregate({"n": "count(*)"}, on="l_ts", size=4).map(ts="l_ts", n="n"),
    "join, pairs of windows": lambda s, o: (
        joined()(s, o).aggregate({"n": "count(*)"}, on="l_ts", size=4, by="r_ts").map(ts="l_ts", n="n", o="r_ts")
    ),
    "resample": lambda s, o: s.resample(o, {"n": "count(*)", "total": "sum(v)"}, size=3, on=("ts", "ts"), by="k"),
    "resample without groups": lambda s, o: s.resample(o, {"n": "count(*)"}, size=3, on=("ts", "ts")),
    "merge": lambda s, o: pk.merge(s, o),
}

WITHOUT_A_RULE = ("moved", "moved, tumbling", "bsort", "low level")
"""Through these no floor goes up to the inputs."""


@dataclass(frozen=True)
class Spread:
    """A function of windows that depends on all of their tuples."""

    def __call__(self, window: Any) -> tuple[int]:
        return (int(max(window["v"])) * 100 + len(window["v"]),)


@dataclass(frozen=True)
class Case:
    """What is drawn."""

    chain: str
    copies: tuple[tuple[Row, ...], ...]
    others: tuple[tuple[Row, ...], ...]
    """What copies are joined with."""
    trains: tuple[int, ...]
    """Of the copies, and of the others."""
    buckets: int
    kills: frozenset[int]
    way: str = "auto"
    architecture: str = OUT_OF_ORDER
    read_twice: bool = False
    """Whether an output reads all of every copy, too."""

    def network(self, *, feedback: bool) -> pk.Network:
        net = pk.Network("net")
        rows = {f"{what}{at}": each for what, all_of in self.streams() for at, each in enumerate(all_of)}
        streams = {
            name: net.source(name, pk.memory(each, schema=SCHEMA, train=train), progress=pk.delayed(DELAY))
            for (name, each), train in zip(rows.items(), self.trains, strict=False)
        }
        chained = [self._chained(streams, at) for at in range(len(self.copies))]
        pk.lmerge(*chained, on="ts", name="merged", feedback=feedback).output("all")
        for name in rows if self.read_twice else ():
            streams[name].output(f"{name} out")
        return net

    def streams(self) -> list[tuple[str, tuple[tuple[Row, ...], ...]]]:
        return [("c", self.copies), *([("o", self.others)] if self.chain in PAIRS else [])]

    def _chained(self, streams: dict[str, pk.Stream], at: int) -> pk.Stream:
        copy = streams[f"c{at}"]
        return CHAINS[self.chain](copy) if self.chain in CHAINS else PAIRS[self.chain](copy, streams[f"o{at}"])


@st.composite
def rows_of_copies(draw: st.DrawFn, copies: int) -> tuple[tuple[Row, ...], ...]:
    steps = draw(
        st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.integers(0, 9)), min_size=5, max_size=40)
    )
    rows, now = [], draw(st.integers(-9, 3))
    for later, key, value in steps:
        now += later
        rows.append((now, key, value))
    found = []
    for _ in range(copies):
        arrivals = [(row[0] + draw(st.integers(0, DELAY)), place) for place, row in enumerate(rows)]
        found.append(tuple(rows[place] for _, place in sorted(arrivals)))
    return tuple(found)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    copies = draw(st.integers(2, 3))
    return Case(
        draw(st.sampled_from(sorted([*CHAINS, *PAIRS]))),
        draw(rows_of_copies(copies)),
        draw(rows_of_copies(copies)),
        tuple(draw(st.lists(st.integers(1, 6), min_size=2 * copies, max_size=2 * copies))),
        draw(st.integers(1, 3)),
        draw(st.frozensets(st.integers(0, 15), max_size=3)),
        draw(st.sampled_from(["express", "exchange"])),
        draw(st.sampled_from([OUT_OF_ORDER, OUT_OF_ORDER, IN_ORDER])),
        draw(st.booleans()),
    )


class KilledError(Exception):
    """The process ends: a batch has been worked on, and nobody knows of it."""


def opened(net: pk.Network, folder: Path, buckets: int = 2, way: str = "auto", architecture: str = OUT_OF_ORDER) -> Job:
    options = Settings(buckets=buckets, tasks=2, durability=PROCESS, way=way)
    return open_job(compile_network(net.network, architecture), options, Folder(str(folder)), 2)


def run(case: Case, folder: Path, *, feedback: bool, kills: frozenset[int] = frozenset()) -> tuple[list[Any], Record]:
    """What has left, and the last record."""

    def begin() -> Job:
        return opened(case.network(feedback=feedback), folder, case.buckets, case.way, case.architecture)

    job = begin()
    executor, due, plans = LocalExecutor(job), set(kills), {}
    with pytest.MonkeyPatch.context() as patch:
        commit = Outlet.commit

        def killed(outlet: Outlet, batch: int, rows: Any, offset: str) -> Record:
            plans.setdefault(batch, offset)
            assert plans[batch] == offset, "a batch is done again as it was planned"
            if batch in due:
                due.remove(batch)
                raise KilledError
            return commit(outlet, batch, rows, offset)

        patch.setattr(Outlet, "commit", killed)
        for _ in range(MOST):
            try:
                if executor.step() is None:
                    break
            except KilledError:
                executor.close()
                job = begin()
                executor = LocalExecutor(job)
    executor.close()
    result = Result(job)
    return [result.elements(name) for name in sorted(result.outputs())], result.record()


@settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_what_leaves_a_merge_is_the_same_with_feedback_and_without(
    case: Case, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("case")
    plain, _ = run(case, folder / "plain", feedback=False)
    found, record = run(case, folder / "feedback", feedback=True, kills=case.kills)
    assert found == plain
    for count in record.inputs.values():
        assert count.read == count.taken + count.late + count.refused + count.skipped
    assert balanced(accounts(compile_network(case.network(feedback=True).network, case.architecture).network, record))
    skipped = sum(count.skipped for count in record.inputs.values())
    assert skipped == 0 or not (case.chain in WITHOUT_A_RULE or case.read_twice)
    passed = sum(work.skipped for work in record.boxes.values())
    purged = sum(work.purged for work in record.boxes.values())
    event(f"{case.chain}: {'some' if skipped or passed else 'none'} skipped, {'some' if purged else 'none'} purged")


@dataclass(frozen=True)
class Apart:
    """Two networks that write copies, and one that merges them; `moves` says who does a batch, and whether it dies."""

    copies: tuple[tuple[Row, ...], ...]
    trains: tuple[int, ...]
    chain: str
    moves: tuple[tuple[str, bool], ...]


@st.composite
def apart(draw: st.DrawFn) -> Apart:
    moves = st.tuples(st.sampled_from(["0", "1", "merge"]), st.sampled_from([False, False, False, True]))
    return Apart(
        draw(rows_of_copies(2)),
        (draw(st.integers(1, 6)), draw(st.integers(1, 6))),
        draw(st.sampled_from(["nothing", "filter", "sliding"])),
        tuple(draw(st.lists(moves, max_size=40))),
    )


def writing(case: Apart, at: int, table: Path) -> pk.Network:
    net = pk.Network(f"writer {at}")
    rows = pk.memory(case.copies[at], schema=SCHEMA, train=case.trains[at])
    copy = CHAINS[case.chain](net.source("in", rows, progress=pk.delayed(DELAY)))
    copy.output("out", to=pk.delta(str(table), feedback=True))
    return net


def merging(tables: list[Path], schema: Any) -> pk.Network:
    net = pk.Network("merging")
    copies = [
        net.source(
            table.name, pk.delta(str(table), follow=True, feedback=True), schema=schema, progress=pk.punctuated()
        )
        for table in tables
    ]
    pk.lmerge(*copies, on="ts", name="merged", feedback=True).output("all")
    return net


@settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=apart())
def test_networks_that_write_copies_skip_only_what_the_merge_has(
    case: Apart, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("case")
    tables = [folder / "t0", folder / "t1"]
    whole = pk.Network("whole")
    stream = CHAINS[case.chain](
        whole.source("in", pk.memory(case.copies[0], schema=SCHEMA), progress=pk.delayed(DELAY))
    )
    stream.output("all")
    expected = Counter(tuple(row.values()) for row in whole.run(engine="local")["all"].to_pylist())

    def build(who: str) -> Job:
        net = merging(tables, stream.schema) if who == "merge" else writing(case, int(who), tables[int(who)])
        return opened(net, folder / f"run {who}")

    executors = {who: LocalExecutor(build(who)) for who in ("0", "1", "merge")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.runtime.feedback._LISTEN_SECONDS", 0.0)
        commit, dies = Outlet.commit, [False]

        def killed(outlet: Outlet, batch: int, rows: Any, offset: str) -> Record:
            if dies.pop():
                dies.append(False)
                raise KilledError
            dies.append(False)
            return commit(outlet, batch, rows, offset)

        patch.setattr(Outlet, "commit", killed)

        def move(who: str, dying: bool = False) -> bool:
            dies[:] = [dying]
            try:
                return executors[who].step() is not None
            except KilledError:
                executors[who].close()
                executors[who] = LocalExecutor(build(who))
                return True

        for who, dying in case.moves:
            move(who, dying)
        for _ in range(MOST):
            if not any([move("merge"), move("0"), move("1")]):
                break
    executors["merge"].close()
    found = Result(build("merge"))["all"]
    assert Counter(tuple(row.values()) for row in found.to_pylist()) == expected
    skipped = 0
    for who in ("0", "1"):
        executors[who].close()
        record = Board(Folder(str(folder / f"run {who}" / "board"))).latest()
        skipped += record.inputs["in"].skipped
        written = deltalake.DeltaTable(str(tables[int(who)])).to_pyarrow_table().to_pylist()
        if case.chain != "sliding":
            # Of windows that are of no use, parts may have been written.
            assert not Counter(tuple(row.values()) for row in written) - expected
    event(f"{case.chain}: {'some' if skipped else 'none'} skipped")
