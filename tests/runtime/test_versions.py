"""Versions of a network: what a change keeps, what it refuses, and what a restart makes of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import penstock as pk
from penstock.errors import PenstockError, QueryError, WorldError
from penstock.plan.compile import compile_network
from penstock.plan.plan import Plan
from penstock.runtime.asking import ask
from penstock.runtime.job import Job
from penstock.runtime.local import LocalExecutor
from penstock.runtime.opening import look_at, open_job, versions_of
from penstock.runtime.result import Result
from penstock.runtime.settings import Settings
from penstock.runtime.shelf import Shelf
from penstock.runtime.versions import first_version, next_version
from penstock.storage.folder import Folder
from penstock.storage.sealed import FORMAT

ROWS = [(i // 3, f"k{i % 5}", i) for i in range(300)]
SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}
Change = Callable[[pk.Stream], object]


def plan(*more: Change, size: int = 10, rows: list[tuple[int, str, int]] = ROWS, keep: bool = True) -> Plan:
    """A count per key, and whatever else reads the input."""
    net = pk.Network("changing")
    source = net.source("in", pk.memory(rows, schema=SCHEMA), progress=pk.ordered())
    if keep:
        source.aggregate({"n": "count(*)"}, on="ts", size=size, by=["k"], name="counts").output("counts")
    for each in more:
        each(source)
    return compile_network(net.network)


def highest(source: pk.Stream) -> None:
    source.aggregate({"m": "max(v)"}, on="ts", size=5, name="highest").output("highest")


def totals(source: pk.Stream) -> None:
    """Two stages."""
    by_key = source.aggregate({"n": "count(*)"}, on="ts", size=10, by=["k"], name="by_key")
    by_key.aggregate({"t": "sum(n)"}, size=20, name="totals").output("totals")


def opened(folder: Path, of: Plan, **options: object) -> Job:
    settings = Settings(train_rows=10, buckets=2, tasks=2, durability="process")
    return open_job(of, settings, Folder(str(folder / "run")), 2, dumps=pickle.dumps, **options)  # type: ignore[arg-type]


def run(job: Job, changes: dict[int, Plan], *, most: int = 100) -> Job:
    """Run to the end, or so many batches, with changes before the batches of these numbers."""
    executor, shelf = LocalExecutor(job), Shelf.of(job)
    try:
        for batch in range(most):
            if batch in changes:
                shelf.change(changes[batch])
            if executor.step() is None:
                break
    finally:
        executor.close()
    return shelf.newest


def rows(job: Job, output: str) -> list[dict[str, object]]:
    return Result(job)[output].to_pylist()


def windows(size: int, first: int = 0) -> list[tuple[int, int]]:
    """The windows of all tuples from number `first` on, and their largest value."""
    found: dict[int, int] = {}
    for ts, _, v in ROWS[first:]:
        found[ts // size * size] = max(v, found.get(ts // size * size, v))
    return sorted(found.items())


@pytest.fixture
def undisturbed(tmp_path: Path) -> list[dict[str, object]]:
    return rows(run(opened(tmp_path / "undisturbed", plan()), {}), "counts")


def test_a_box_that_is_added_starts_empty_and_the_others_do_not_notice(
    tmp_path: Path, undisturbed: list[dict[str, object]]
) -> None:
    job = run(opened(tmp_path, plan()), {5: plan(highest)})
    assert rows(job, "counts") == undisturbed
    assert [(r["ts"], r["m"]) for r in rows(job, "highest")] == windows(5, first=50)
    told = [(v.number, v.batch, v.added, v.removed) for v in Shelf.of(job).versions.all()]
    assert told == [(1, 0, [], []), (2, 5, ["box highest", "output highest"], [])]


def test_a_box_that_is_gone_and_comes_back_starts_empty(tmp_path: Path, undisturbed: list[dict[str, object]]) -> None:
    job = run(opened(tmp_path, plan(highest)), {5: plan(), 12: plan(highest)})
    assert rows(job, "counts") == undisturbed
    assert [(r["ts"], r["m"]) for r in rows(job, "highest")] == windows(5, first=120)
    assert job.version == 3


def test_a_second_stage_comes_and_goes(tmp_path: Path, undisturbed: list[dict[str, object]]) -> None:
    job = run(opened(tmp_path, plan()), {4: plan(totals), 11: plan(highest), 20: plan(totals)})
    assert rows(job, "counts") == undisturbed
    # 200 tuples are read before the third change; the windows of 10 and of 20 in which it falls are not whole.
    assert [(r["ts"], r["t"]) for r in rows(job, "totals")] == [(60, 40), (80, 60)]


def test_the_state_of_a_box_moves_with_it_to_another_stage(tmp_path: Path) -> None:
    def direct(source: pk.Stream) -> None:
        source.aggregate({"s": "sum(v)"}, on="ts", size=25, name="sums").output("sums")

    def behind(source: pk.Stream) -> None:
        # Tuples pass, one by one, through a stage that groups by another key.
        by_value = source.aggregate({"k": "min(k)"}, on="ts", size=1, by=["v"], name="by_value")
        by_value.map(ts="ts", k="k", v="v").aggregate({"s": "sum(v)"}, on="ts", size=25, name="sums").output("sums")

    first, second = plan(direct), plan(behind)
    assert (first.stage_of["sums"], second.stage_of["sums"]) == (1, 2)
    version = next_version(first_version(first), second)
    assert version.parts["box sums"].birth == 1
    job = run(opened(tmp_path, first), {9: second})
    expected: dict[int, int] = {}
    for ts, _, v in ROWS:
        expected[ts // 25 * 25] = expected.get(ts // 25 * 25, 0) + v
    assert {r["ts"]: r["s"] for r in rows(job, "sums")} == expected


def test_a_filter_may_change_and_what_is_behind_it_keeps_its_state(tmp_path: Path) -> None:
    def below(limit: int) -> Change:
        def build(source: pk.Stream) -> None:
            few = source.where(f"v % 100 < {limit}", name="few")
            few.aggregate({"n": "count(*)"}, on="ts", size=50, name="kept").output("kept")

        return build

    job = run(opened(tmp_path, plan(below(100))), {9: plan(below(10))})
    assert list(Shelf.of(job).versions.at(2).changed) == ["box few"]
    # 90 of the first window's 150 tuples came before the change; of the others, 100 to 109 pass.
    assert [(r["ts"], r["n"]) for r in rows(job, "kept")] == [(0, 100), (50, 10)]


def test_what_would_lose_state_is_refused_with_a_list_and_goes_with_discard(
    tmp_path: Path, undisturbed: list[dict[str, object]]
) -> None:
    job = opened(tmp_path, plan())
    executor, shelf = LocalExecutor(job), Shelf.of(job)
    for _ in range(5):
        executor.step()
    with pytest.raises(QueryError) as refused:
        shelf.change(plan(size=20))
    assert "the change would lose what parts of the network hold" in str(refused.value)
    assert "box counts" in str(refused.value)
    assert "would lose its state" in str(refused.value)
    assert "discard=['counts']" in str(refused.value)
    assert shelf.newest.version == 1
    with pytest.raises(QueryError, match="discard= names 'count', which there is not"):
        shelf.change(plan(size=20), ["count"])
    with pytest.raises(QueryError, match="discard= names 'in', which loses nothing by this change"):
        shelf.change(plan(size=20), ["counts", "in"])
    assert list(shelf.change(plan(size=20), ["counts"]).births.items())[1] == ("box counts", 2)
    while executor.step() is not None:
        pass
    executor.close()
    assert list(shelf.versions.at(2).discarded) == ["box counts"]
    before = [row for row in undisturbed if row["ts"] == 0]
    after = rows(shelf.newest, "counts")
    assert after[: len(before)] == before, "what has left before the change stays"
    assert sum(int(str(row["n"])) for row in after if row["ts"] != 0) >= 240


def test_an_output_keeps_its_schema(tmp_path: Path) -> None:
    def narrow(source: pk.Stream) -> None:
        source.map(ts="ts", v="v").output("copy")

    def wide(source: pk.Stream) -> None:
        source.map(ts="ts", v="v", k="k").output("copy")

    job = run(opened(tmp_path, plan(narrow)), {}, most=5)
    with pytest.raises(QueryError, match="output copy"):
        Shelf.of(job).change(plan(wide))
    with pytest.raises(QueryError) as refused:
        opened(tmp_path, plan(wide))
    assert "would lose kept results" in str(refused.value)
    job = run(opened(tmp_path, plan(wide), discard=["copy"]), {})
    assert [row["v"] for row in rows(job, "copy")] == list(range(50, 300))


def test_an_output_does_not_go_elsewhere_under_way(tmp_path: Path) -> None:
    def to(folder: str) -> Change:
        return lambda source: source.map(ts="ts", v="v").output("copy", to=pk.jsonl(str(tmp_path / folder)))

    job = opened(tmp_path, plan(to("a")))
    with pytest.raises(QueryError, match="the output 'copy' would go elsewhere"):
        Shelf.of(job).change(plan(to("b")))


def test_an_input_that_is_added_begins_at_its_start_and_one_that_stays_goes_on(
    tmp_path: Path, undisturbed: list[dict[str, object]]
) -> None:
    def changed() -> Plan:
        net = pk.Network("changing")
        source = net.source("in", pk.memory(ROWS, schema=SCHEMA), progress=pk.ordered())
        source.aggregate({"n": "count(*)"}, on="ts", size=10, by=["k"], name="counts").output("counts")
        other = net.source("other", pk.memory(ROWS[:40], schema=SCHEMA), progress=pk.ordered())
        other.map(ts="ts", v="v").output("others")
        return compile_network(net.network)

    job = run(opened(tmp_path, plan()), {7: changed()})
    assert rows(job, "counts") == undisturbed
    assert [row["v"] for row in rows(job, "others")] == list(range(40))
    assert Result(job).record().inputs["other"].read == 40


def test_an_input_that_has_changed_loses_its_position_if_told_so(tmp_path: Path) -> None:
    job = run(opened(tmp_path, plan()), {}, most=5)
    other = plan(rows=ROWS[:100])
    with pytest.raises(QueryError, match="would lose its position"):
        opened(tmp_path, other)
    job = run(opened(tmp_path, other, discard=["in"]), {})
    assert Result(job).record().inputs["in"].read == 100


def test_a_restart_with_a_changed_network_is_the_next_version(
    tmp_path: Path, undisturbed: list[dict[str, object]]
) -> None:
    run(opened(tmp_path, plan()), {}, most=7)
    job = run(opened(tmp_path, plan(highest)), {}, most=7)
    assert job.version == 2
    job = run(opened(tmp_path, plan()), {})
    assert job.version == 3
    assert rows(job, "counts") == undisturbed


def test_the_same_network_is_the_same_version(tmp_path: Path) -> None:
    job = run(opened(tmp_path, plan()), {3: plan(), 4: plan()}, most=7)
    assert job.version == 1
    assert opened(tmp_path, plan()).version == 1


def test_a_version_that_no_batch_has_heard_of_is_withdrawn(
    tmp_path: Path, undisturbed: list[dict[str, object]]
) -> None:
    job = run(opened(tmp_path, plan()), {}, most=7)
    Shelf.of(job).change(plan(highest, keep=False))
    job = run(opened(tmp_path, plan()), {})
    assert job.version == 1
    assert rows(job, "counts") == undisturbed


def test_a_batch_that_was_planned_with_an_earlier_version_is_done_with_that(tmp_path: Path) -> None:
    job = run(opened(tmp_path, plan(highest)), {}, most=7)
    executor = LocalExecutor(job)
    executor._board.post_offset(7, _next_offset(job))  # planned, and the process ends
    after = run(opened(tmp_path, plan()), {})
    assert [(v.number, v.batch) for v in Shelf.of(after).versions.all()] == [(1, 0), (2, 8)]
    assert sum(int(str(row["n"])) for row in rows(after, "counts")) == 300


def test_its_plan_is_taken_only_with_the_signature_of_the_user(tmp_path: Path) -> None:
    job = run(opened(tmp_path, plan(highest)), {}, most=7)
    LocalExecutor(job)._board.post_offset(7, _next_offset(job))
    versions = Shelf.of(job).versions
    version = versions.at(1)
    marker = tmp_path / "marker"
    versions.folder.write(version.plan, pickle.dumps(_Evil(str(marker))))
    with pytest.raises(WorldError, match="signed by somebody else"):
        run(opened(tmp_path, plan()), {})
    assert not marker.exists()
    versions.folder.delete(version.plan)
    with pytest.raises(WorldError, match="is missing"):
        run(opened(tmp_path, plan()), {})
    assert sum(int(str(row["n"])) for row in rows(run(opened(tmp_path, plan(highest)), {}), "counts")) == 300


class _Evil:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path(self.path),))


def _next_offset(job: Job) -> str:
    from penstock.runtime.board import Board
    from penstock.runtime.offsets import intake_offset, offset_text
    from penstock.runtime.planner import Planner

    board = Board(job.board)
    before = board.offset(board.newest())
    assert before is not None
    return offset_text(Planner(job).latest(intake_offset(before)))


def test_versions_that_are_gone_are_missed(tmp_path: Path) -> None:
    job = run(opened(tmp_path, plan()), {}, most=7)
    Shelf.of(job).versions.folder.delete_all()
    with pytest.raises(WorldError, match="the versions of the network are missing"):
        opened(tmp_path, plan())


def test_what_only_earlier_versions_needed_is_forgotten(tmp_path: Path) -> None:
    job = run(opened(tmp_path, plan(totals)), {3: plan()})
    assert not (tmp_path / "run" / "state" / "2").exists()
    assert [name for name in Shelf.of(job).versions.folder.names() if name.startswith("00000001-")] == []
    assert Shelf.of(job).versions.at(1).stages == 2


def test_looking_at_a_run_asks_for_the_network_as_it_is(tmp_path: Path) -> None:
    run(opened(tmp_path, plan()), {}, most=3)
    folder = Folder(str(tmp_path / "run"))
    assert look_at(plan(), folder).version == 1
    with pytest.raises(QueryError) as refused:
        look_at(plan(size=20), folder)
    assert "is of a different version of this network" in str(refused.value)
    assert "box counts" in str(refused.value)


def test_nobody_can_be_asked_where_nothing_runs(tmp_path: Path) -> None:
    run(opened(tmp_path, plan()), {}, most=3)
    folder = Folder(str(tmp_path / "run"))
    with pytest.raises(QueryError, match="no run uses the checkpoint"):
        ask(folder, plan(highest), versions_of(plan(highest), folder, pickle.dumps))


def test_who_does_not_answer_is_told_of(tmp_path: Path) -> None:
    job = opened(tmp_path, plan())
    folder = Folder(str(tmp_path / "run"))
    with pytest.raises(WorldError, match=r"has not answered within 0\.2 s"):
        ask(folder, plan(highest), versions_of(plan(highest), folder, pickle.dumps), seconds=0.2)
    assert (folder.child("changes")).names() == []
    job.release()


def test_a_version_of_a_newer_penstock_is_refused(tmp_path: Path) -> None:
    run(opened(tmp_path, plan()), {}, most=3)
    file = tmp_path / "run" / "versions" / "00000001.json"
    text, seal = file.read_text().splitlines()
    file.write_text(f"{text}\n{seal.replace(f'penstock {FORMAT} ', 'penstock 9 ')}\n")
    with pytest.raises(PenstockError, match="newer version of Penstock"):
        opened(tmp_path, plan())


def test_births_are_kept_through_any_number_of_versions() -> None:
    one = first_version(plan(highest))
    two = next_version(one, plan())
    three = next_version(two, plan(highest))
    assert (three.parts["box counts"].birth, three.parts["box highest"].birth) == (1, 3)
    assert two.inherited_by(three).boxes == {"counts": 1}
    assert replace(three, number=3) == three


def test_a_run_needs_no_key_until_a_plan_must_be_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_KEY")
    (tmp_path / "config").write_text("no folder")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    job = run(opened(tmp_path, plan()), {5: plan(highest)})
    assert job.version == 2
    assert [version.plan for version in Shelf.of(job).versions.all()] == ["", ""]
    with pytest.raises(WorldError, match="is missing"):
        Shelf.of(job).versions.plan(1)
