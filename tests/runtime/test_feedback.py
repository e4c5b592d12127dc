"""Feedback in a run: what a merge needs no more is left out where it enters and purged where it is held, and told to
those who write it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from rich.console import Console
from tests.runtime.jobs import job_of

import penstock as pk
from penstock.algebra.ticks import END
from penstock.cli.accounts import accounts, balanced
from penstock.cli.summary import show_counts
from penstock.connectors.delta.reader_needs import FOLDER, heard, tell
from penstock.errors import WorldError
from penstock.plan.compile import compile_network
from penstock.runtime.board import Board
from penstock.runtime.local import LocalExecutor
from penstock.runtime.offsets import InputAt, Offset, intake_offset, offset_text
from penstock.runtime.result import Result
from penstock.runtime.work import BoxWork, InputCount
from penstock.storage.folder import Folder

SCHEMA = {"ts": "int64", "k": "string"}
ROWS = [(ts, "ab"[ts % 2]) for ts in range(12)]


def two_copies(*, feedback: bool = True) -> pk.Network:
    net = pk.Network("net")
    quick = net.source("quick", pk.memory(ROWS, schema=SCHEMA, train=4), progress=pk.ordered())
    slow = net.source("slow", pk.memory(ROWS, schema=SCHEMA, train=1), progress=pk.ordered())
    pk.lmerge(quick, slow.where("ts >= 0", name="seen"), name="merged", feedback=feedback).output("all")
    return net


def finished(net: pk.Network, folder: Path) -> Result:
    job = job_of(net, folder)
    executor = LocalExecutor(job)
    while executor.step() is not None:
        pass
    executor.close()
    job.release()
    return Result(job)


def test_a_copy_that_lags_is_skipped_before_any_box_sees_it(tmp_path: Path) -> None:
    net = two_copies()
    result = finished(net, tmp_path / "run")
    assert [tuple(row.values()) for row in result["all"].to_pylist()] == ROWS
    record = result.record()
    # By the second batch the output is stable up to 3, by the third up to 7, and then it has ended.
    assert record.inputs == {"quick": InputCount(read=12, taken=12), "slow": InputCount(read=12, taken=1, skipped=11)}
    assert record.boxes["seen"].tuples_in == 1
    books = accounts(compile_network(net.network).network, record)
    assert balanced(books)
    assert ("skipped", 11) in next(a for a in books if a.of == "input slow").parts


def test_without_feedback_all_are_taken_and_the_same_leaves(tmp_path: Path) -> None:
    plain, skipping = (finished(two_copies(feedback=f), tmp_path / str(f)) for f in (False, True))
    assert plain.record().inputs["slow"] == InputCount(read=12, taken=12)
    assert plain.elements("all") == skipping.elements("all")


def counting_copies(*, feedback: bool = True) -> pk.Network:
    """Of two copies that come at the same pace one never says how far it is."""
    net = pk.Network("net")
    sources = [
        net.source("told", pk.memory(ROWS, schema=SCHEMA, train=4), progress=pk.ordered()),
        net.source("silent", pk.memory(ROWS, schema=SCHEMA, train=4), progress=pk.delayed(100)),
    ]
    counts = [s.aggregate({"n": "count(*)"}, size=2, by="k", name=f"{s._port.name} counts") for s in sources]
    pk.lmerge(*counts, name="merged", feedback=feedback).output("all")
    return net


def held(net: pk.Network, folder: Path) -> list[int]:
    """The partial aggregates that wait for the copy that is silent, after each batch."""
    executor = LocalExecutor(job_of(net, folder))
    found = []
    while (record := executor.step()) is not None:
        found.append(record.boxes["silent counts"].held_rows)
    executor.close()
    return found


def test_windows_that_are_of_no_use_are_purged(tmp_path: Path) -> None:
    # Windows 0 and 2 come with the first batch. The output is stable up to 2, then up to 6.
    assert held(counting_copies(feedback=False), tmp_path / "plain") == [4, 8, 0]
    assert held(counting_copies(), tmp_path / "purging") == [4, 6, 0]
    plain, purging = (Result(job_of(counting_copies(), tmp_path / name)) for name in ("plain", "purging"))
    assert purging.elements("all") == plain.elements("all")
    assert plain.record().boxes["silent counts"].purged == 0
    assert purging.record().boxes["silent counts"].purged == 2 + 4
    books = accounts(compile_network(counting_copies().network).network, purging.record())
    assert balanced(books)
    assert [a.parts[-1] for a in books if a.of == "box silent counts" and a.parts[-1][0] == "purged"] == [("purged", 6)]


def test_the_summary_of_a_run_says_what_was_purged(tmp_path: Path) -> None:
    console = Console(record=True, width=120)
    show_counts(console, finished(counting_copies(), tmp_path))
    assert "silent counts: 6 purged, because they were of no use any more" in console.export_text()


def test_a_batch_is_done_again_with_the_same_floors_of_boxes(tmp_path: Path) -> None:
    job = job_of(counting_copies(), tmp_path)
    executor = LocalExecutor(job)
    offsets = [intake_offset(record.offset) for _ in range(3) if (record := executor.step()) is not None]
    executor.close()
    assert [offset.box_floors.get("silent counts") for offset in offsets] == [None, ({"ts": 2},), ({"ts": 6},)]
    assert [intake_offset(offset_text(offset)) for offset in offsets] == offsets


def test_a_box_skips_what_an_output_beside_it_needs(tmp_path: Path) -> None:
    net = pk.Network("net")
    quick = net.source("quick", pk.memory(ROWS, schema=SCHEMA, train=4), progress=pk.ordered())
    slow = net.source("slow", pk.memory(ROWS, schema=SCHEMA, train=1), progress=pk.ordered())
    pk.lmerge(quick, slow.where("ts >= 0", name="costly"), name="merged", feedback=True).output("all")
    slow.output("raw")
    result = finished(net, tmp_path)
    assert [tuple(row.values()) for row in result["raw"].to_pylist()] == ROWS
    record = result.record()
    assert record.inputs["slow"] == InputCount(read=12, taken=12)
    assert (record.boxes["costly"].tuples_in, record.boxes["costly"].skipped) == (1, 11)
    books = accounts(compile_network(net.network).network, record)
    assert balanced(books)
    assert ("in or skipped", 12) in [account.total for account in books if account.of == "box costly"]


def test_a_run_goes_on_from_its_checkpoint_when_feedback_is_turned_on(tmp_path: Path) -> None:
    first = job_of(two_copies(feedback=False), tmp_path)
    executor = LocalExecutor(first)
    executor.step()
    executor.close()
    result = finished(two_copies(), tmp_path)
    assert [tuple(row.values()) for row in result["all"].to_pylist()] == ROWS
    assert result.record().version == 1
    assert result.record().inputs["slow"] == InputCount(read=12, taken=1, skipped=11)


def test_the_first_batch_of_a_new_version_skips_nothing(tmp_path: Path) -> None:
    executor = LocalExecutor(job_of(two_copies(), tmp_path))
    executor.step()
    executor.step()
    executor.close()
    changed = two_copies()
    changed.source("more", pk.memory(ROWS, schema=SCHEMA), progress=pk.ordered()).output("more")
    job = job_of(changed, tmp_path)
    executor = LocalExecutor(job)
    records = [executor.step() for _ in range(2)]
    executor.close()
    floors = [intake_offset(record.offset).floors for record in records if record is not None]
    assert [record.version for record in records if record is not None] == [2, 2]
    assert [sorted(each) for each in floors] == [[], ["quick", "slow"]]


def test_the_floors_of_a_batch_are_in_its_offset(tmp_path: Path) -> None:
    job = job_of(two_copies(), tmp_path)
    executor = LocalExecutor(job)
    offsets = []
    for batch in range(4):
        executor.step()
        offsets.append(intake_offset(Board(job.board).at(batch).offset).floors)
    executor.close()
    assert offsets == [{}, *({"quick": {"ts": tick}, "slow": {"ts": tick}} for tick in (3, 7, END))]


def test_an_offset_without_floors_is_as_it_was_and_one_with_them_is_refused_by_who_does_not_know_them() -> None:
    plain = Offset({"in": InputAt({"at": 3})}, {"in": ("0",)}, 2)
    assert plain.to_json()["format"] == 2
    floors = Offset({"in": InputAt({"at": 3})}, {"in": ("0",)}, 2, floors={"in": {"ts": 7}})
    assert floors.to_json()["format"] == 3
    assert intake_offset(offset_text(floors)) == floors
    assert intake_offset(offset_text(plain)) == plain
    with pytest.raises(WorldError, match="an offset was written by an older version of Penstock"):
        Offset.from_json({**floors.to_json(), "format": 2})


def test_late_and_broken_tuples_are_told_of_as_ever(tmp_path: Path) -> None:
    net = pk.Network("net")
    quick = net.source("quick", pk.memory(ROWS, schema=SCHEMA, train=12), progress=pk.ordered())
    broken = [(5, "a"), (6, "b"), (2, "late"), (None, "none"), (7, "a")]
    slow = net.source("slow", pk.memory(broken, schema=SCHEMA, train=2), progress=pk.ordered())
    pk.lmerge(quick, slow, feedback=True).output("all")
    result = finished(net, tmp_path)
    assert result.record().inputs["slow"] == InputCount(read=5, taken=2, late=1, refused=1, skipped=1)
    assert result.late("slow").to_pylist() == [{"ts": 2, "k": "late"}]


def writer(table: Path, rows: list[tuple[int, str]], train: int, **options: Any) -> pk.Network:
    net = pk.Network("writer")
    copy = net.source("in", pk.memory(rows, schema=SCHEMA, train=train), progress=pk.ordered())
    copy.where("ts >= 0", name="work").output("out", to=pk.delta(str(table), **options))
    return net


def reader(tables: list[Path]) -> pk.Network:
    net = pk.Network("reader")
    copies = [
        net.source(table.name, pk.delta(str(table), follow=True, feedback=True), schema=SCHEMA) for table in tables
    ]
    pk.lmerge(*copies, on="ts", name="merged", feedback=True).output("all")
    return net


def test_a_network_that_lags_hears_what_a_reader_of_its_table_needs_no_more(tmp_path: Path) -> None:
    tables = [tmp_path / "quick", tmp_path / "slow"]
    jobs = [
        job_of(writer(table, ROWS, train, feedback=True), tmp_path / f"{table.name} run")
        for table, train in zip(tables, (6, 2), strict=True)
    ]
    quick, slow = map(LocalExecutor, jobs)
    quick.step()
    slow.step()
    merging_job = job_of(reader(tables), tmp_path / "reader run")
    merging = LocalExecutor(merging_job)
    while (step := merging.step()) is not None and not all_read(merging_job, 8):
        assert step.record.batch < 10
    slow.step()  # 2 and 3, and the output is stable up to 5
    slow.step()  # 4 and 5: of use from 5 on
    record = Board(jobs[1].board).latest()
    assert record.inputs["in"] == InputCount(read=6, taken=3, skipped=3)
    assert record.boxes["work"].tuples_in == 3
    quick.step()
    for _ in range(3):
        slow.step()
    while not all_read(merging_job, 15) and merging.step() is not None:
        pass
    for each in (quick, slow, merging):
        each.close()
    found = Result(merging_job)["all"].to_pylist()
    assert [tuple(row.values()) for row in found] == ROWS
    assert deltalake.DeltaTable(str(tables[0])).to_pyarrow_table().num_rows == 12


def all_read(job: Any, rows: int) -> bool:
    return sum(count.read for count in Board(job.board).latest().inputs.values()) >= rows


def test_a_writer_that_was_not_told_to_heed_leaves_nothing_out(tmp_path: Path) -> None:
    table = tmp_path / "slow"
    job = job_of(writer(table, ROWS, 2), tmp_path / "run")
    executor = LocalExecutor(job)
    executor.step()
    merging_job = job_of(reader([table]), tmp_path / "reader run")
    merging = LocalExecutor(merging_job)
    merging.step()
    assert len(list((table / FOLDER).iterdir())) == 1
    executor.step()
    assert Board(job.board).latest().inputs["in"] == InputCount(read=4, taken=4)
    merging.close()
    executor.close()


def test_a_relay_passes_on_what_its_reader_needs_no_more(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    deltalake.write_deltalake(str(first), pk.memory(ROWS, schema=SCHEMA).schema().empty_table())
    net = pk.Network("relay")
    relayed = net.source("in", pk.delta(str(first), follow=True, feedback=True), schema=SCHEMA, progress=pk.ordered())
    relayed.output("out", to=pk.delta(str(second), feedback=True))
    job = job_of(net, tmp_path / "run")
    relay = LocalExecutor(job)
    schema = relayed.schema
    tell(Folder(str(second)), {"ts": 4}, schema, Folder(str(tmp_path / "its reader")))
    rows = pa.table({"ts": [3, 4, 5], "k": ["a", "b", "c"]})
    deltalake.write_deltalake(str(first), rows, mode="append")
    relay.step()
    relay.close()
    assert heard(Folder(str(first)), schema) == {"ts": 4}
    assert deltalake.DeltaTable(str(second)).to_pyarrow_table().num_rows == 2


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda s: s.output("all"), id="no merge"),
        pytest.param(lambda s: pk.lmerge(s, on="ts").output("all"), id="a merge without feedback"),
        pytest.param(lambda s: (pk.lmerge(s, on="ts", feedback=True).output("all"), s.output("raw")), id="both"),
    ],
)
def test_an_input_that_can_never_give_feedback_is_refused(use: Callable[[pk.Stream], Any]) -> None:
    net = pk.Network("net")
    source = pk.delta("nowhere", follow=True, feedback=True)
    use(net.source("in", source, schema=SCHEMA, on="ts", progress=pk.ordered()))
    with pytest.raises(pk.QueryError, match="feedback=True, but any tuple of the input may be of use"):
        compile_network(net.network)


def test_elements_have_no_feedback(tmp_path: Path) -> None:
    with pytest.raises(pk.QueryError, match="elements may be revised, so none of them is of no use"):
        pk.temporal(pk.delta(str(tmp_path), feedback=True))
    with pytest.raises(pk.QueryError, match="feedback=True means nothing for a table of the current state"):
        pk.current(pk.delta(str(tmp_path), feedback=True))


def test_explain_says_who_gives_feedback() -> None:
    text = two_copies().explain()
    assert "feedback: what is before the output's stable point is left out upstream" in text
    assert "feedback" not in two_copies(feedback=False).explain()


def test_counts_without_feedback_are_written_as_before() -> None:
    assert "skipped" not in InputCount(3, 3).to_json()
    assert not {"skipped", "purged"} & {*BoxWork(3, 3).to_json()}
    work = BoxWork(3, 1, skipped=2, purged=4)
    assert BoxWork.from_json(json.loads(json.dumps(work.to_json()))) == work
    count = InputCount(3, 1, skipped=2)
    assert InputCount.from_json(json.loads(json.dumps(count.to_json()))) == count
