"""Targets that show the current state: a Delta table and the console, batch by batch and when batches come again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.properties.events import Database, Script, database, scripts
from tests.thoroughness import tries

import penstock as pk
from penstock.algebra.marks import UNKNOWN, Marks
from penstock.algebra.temporal.elements import element_schema
from penstock.connectors.targets.target import OutputProgress, Receipt, Target
from penstock.connectors.temporal import current_table
from penstock.storage.folder import Folder
from penstock.storage.temporary import TemporaryFolder

ELEMENTS = element_schema([pa.field("k", pa.string()), pa.field("v", pa.int64())], pa.int64())


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "sync": 0} for row in rows], schema=ELEMENTS)


def held(path: str) -> Database:
    rows = deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()
    return Counter(((row["k"], row["v"]), row["vs"], row["ve"]) for row in rows)


def begun(target: Target, folder: Path) -> Folder:
    scratch = Folder(str(folder / "scratch"))
    scratch.make()
    target.check("out", ELEMENTS, scratch)
    return scratch


def staged(target: Target, batch: int, rows: list[dict[str, Any]], scratch: Folder) -> list[Receipt]:
    half = len(rows) // 2
    parts = [target.stage(batch, part, table(some), scratch) for part, some in enumerate((rows[:half], rows[half:]))]
    return [receipt for receipt in parts if receipt is not None]


def marks(stable: int) -> OutputProgress:
    return OutputProgress(UNKNOWN, Marks({"sync": stable}), ELEMENTS)


@settings(max_examples=tries(15), deadline=None)
@given(script=scripts(most=12))
def test_a_table_holds_the_events_as_they_are_after_each_batch(script: Script) -> None:
    place = TemporaryFolder("current-")
    path = Path(place.path)
    target = pk.current(pk.delta(str(path / "table"), compact=3))
    scratch = begun(target, path)
    rows = script.legal()
    for batch, first in enumerate(range(0, len(rows), 3)):
        receipts = staged(target, batch, rows[first : first + 3], scratch)
        target.commit(batch, receipts, scratch, marks(first))
        assert held(str(path / "table")) == database(rows[: first + 3])
        # It comes again, as after a crash: staged anew, and committed once more.
        target.commit(batch, staged(target, batch, rows[first : first + 3], scratch), scratch, marks(first))
        assert held(str(path / "table")) == database(rows[: first + 3])
        assert target.last_committed(scratch) == batch
    assert not [name for name in scratch.names() if name.startswith("part-")]


ROWS = [{"kind": "insert", "vs": at, "ve": None, "vold": None, "k": "a", "v": at} for at in range(10)]
END_OF_7 = {"kind": "adjust", "vs": 7, "ve": 20, "vold": None, "k": "a", "v": 7}


def test_an_adjust_rewrites_the_files_of_its_time_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_table, "FILE_EVENTS", 4)
    path = str(tmp_path / "table")
    target = pk.current(pk.delta(path))
    scratch = begun(target, tmp_path)
    target.commit(0, staged(target, 0, ROWS, scratch), scratch)
    before = set(deltalake.DeltaTable(path).file_uris())
    assert len(before) == 3
    target.commit(1, staged(target, 1, [END_OF_7], scratch), scratch)
    after = set(deltalake.DeltaTable(path).file_uris())
    assert len(before & after) == 2
    assert held(path)[("a", 7), 7, 20] == 1


def test_a_commit_that_others_defeat_looks_at_the_table_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "table")
    target = pk.current(pk.delta(path))
    scratch = begun(target, tmp_path)
    target.commit(0, staged(target, 0, ROWS, scratch), scratch)
    real = current_table.CurrentTable._actions
    met = []

    def meanwhile(self: Any, *given: Any) -> Any:
        actions = real(self, *given)
        if not met:
            met.append(True)
            deltalake.DeltaTable(path).optimize.compact()
            deltalake.DeltaTable(path).delete("v = 0")
        return actions

    monkeypatch.setattr(current_table.CurrentTable, "_actions", meanwhile)
    target.commit(1, staged(target, 1, [END_OF_7], scratch), scratch)
    assert held(path) == database([*ROWS[1:], END_OF_7])


def test_an_event_that_is_not_there_stops_the_run(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    target = pk.current(pk.delta(path))
    scratch = begun(target, tmp_path)
    target.commit(0, staged(target, 0, ROWS, scratch), scratch)
    deltalake.DeltaTable(path).delete("v = 7")
    with pytest.raises(pk.WorldError, match="lacks 1 events that a batch adjusts or removes"):
        target.commit(1, staged(target, 1, [END_OF_7], scratch), scratch)


def test_a_console_that_is_no_terminal_prints_elements(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = pk.current(pk.console())
    scratch = begun(target, tmp_path)
    target.commit(0, staged(target, 0, ROWS[:2], scratch), scratch)
    shown = capsys.readouterr().out
    assert "out, batch 0" in shown
    assert "insert" in shown


def test_a_terminal_shows_the_newest_events_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    target = pk.current(pk.console(limit=2))
    scratch = begun(target, tmp_path)
    target.commit(0, staged(target, 0, ROWS, scratch), scratch, marks(0))
    capsys.readouterr()
    end_of_9 = {**END_OF_7, "vs": 9, "v": 9}
    receipts = staged(target, 1, [end_of_9, END_OF_7], scratch)
    target.commit(1, receipts, scratch, marks(9))
    shown = capsys.readouterr().out
    assert "after batch 1" in shown
    assert "20" in shown
    assert "insert" not in shown
    # The same batch again is known; another process goes on with what is kept in the checkpoint.
    target.commit(1, receipts, scratch, marks(9))
    assert not capsys.readouterr().out
    target.commit(2, staged(target, 2, [{**end_of_9, "vold": 20, "ve": 9}], scratch), scratch, marks(9))
    assert " 7 " in capsys.readouterr().out


def test_what_cannot_revise_is_refused() -> None:
    for target in (pk.parquet("out"), pk.callback(print), pk.delta("t", partition_by="k"), pk.delta("t", follow=True)):
        with pytest.raises(pk.QueryError, match=r"cannot revise|means nothing"):
            pk.current(target)
    net = pk.Network("net")
    facts = net.source("in", pk.memory([], schema={"ts": "int64"}))
    with pytest.raises(pk.QueryError, match="takes a temporal stream"):
        facts.output("out", to=pk.current(pk.console()))
