"""The catalog's database: names, several processes, damage."""

from __future__ import annotations

import logging
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.catalog.database import FILE, Catalog
from penstock.catalog.entry import POINT, PartEntry, RunEntry, check_name
from penstock.errors import QueryError, WorldError

GONE: set[str] = set()


def is_gone(place: str) -> bool:
    return place in GONE


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    GONE.clear()
    return Catalog(tmp_path / "home")


def entry(place: str, name: str = "calls", run: str = "") -> RunEntry:
    part = PartEntry(POINT, "raw", f"{place}/points/raw", (("ts", "int64"), ("k", "string")), "everything")
    return RunEntry(name, place, run or f"run of {place}", "calls", 17, "", (part,))


def test_what_was_entered_is_found_by_name_and_by_place(catalog: Catalog) -> None:
    assert catalog.runs() == []
    assert catalog.enter(entry("/a"), None, is_gone) == "calls"
    assert catalog.named("calls") == catalog.at("/a") == entry("/a")
    assert catalog.runs() == [entry("/a")]
    assert catalog.named("others") is None


def test_a_run_keeps_its_name_when_it_starts_again(catalog: Catalog) -> None:
    catalog.enter(entry("/a"), "monday", is_gone)
    assert catalog.enter(entry("/a"), None, is_gone) == "monday"
    assert [run.name for run in catalog.runs()] == ["monday"]


def test_a_run_may_be_given_another_name(catalog: Catalog) -> None:
    catalog.enter(entry("/a"), None, is_gone)
    assert catalog.enter(entry("/a"), "tuesday", is_gone) == "tuesday"
    assert [run.name for run in catalog.runs()] == ["tuesday"]


def test_runs_of_one_network_are_told_apart_by_a_number(catalog: Catalog) -> None:
    assert [catalog.enter(entry(place), None, is_gone) for place in ("/a", "/b", "/c")] == [
        "calls",
        "calls-2",
        "calls-3",
    ]


def test_a_name_whose_run_is_gone_is_free(catalog: Catalog) -> None:
    catalog.enter(entry("/a"), None, is_gone)
    GONE.add("/a")
    assert catalog.enter(entry("/b"), None, is_gone) == "calls"
    assert [run.place for run in catalog.runs()] == ["/b"]


def test_a_name_that_was_asked_for_and_is_taken_is_refused(catalog: Catalog) -> None:
    catalog.enter(entry("/a"), "monday", is_gone)
    with pytest.raises(QueryError, match="another run has the name 'monday'") as refused:
        catalog.enter(entry("/b"), "monday", is_gone)
    assert "/a" in str(refused.value)
    assert [run.place for run in catalog.runs()] == ["/a"]


def test_a_checkpoint_that_was_moved_keeps_its_name(catalog: Catalog) -> None:
    catalog.enter(entry("/a", run="one"), "monday", is_gone)
    GONE.add("/a")
    assert catalog.enter(entry("/b", run="one"), None, is_gone) == "monday"
    assert [run.place for run in catalog.runs()] == ["/b"]


def test_a_copy_of_a_checkpoint_is_a_run_of_its_own(catalog: Catalog) -> None:
    catalog.enter(entry("/a", run="one"), "monday", is_gone)
    assert catalog.enter(entry("/b", run="one"), None, is_gone) == "calls"
    assert len(catalog.runs()) == 2


def test_what_is_forgotten_is_gone_with_its_parts(catalog: Catalog, tmp_path: Path) -> None:
    catalog.enter(entry("/a"), None, is_gone)
    catalog.forget("calls")
    catalog.forget("calls")
    assert catalog.runs() == []
    with sqlite3.connect(tmp_path / "home" / FILE) as db:
        assert db.execute("SELECT count(*) FROM parts").fetchone() == (0,)


def test_it_is_for_its_owner_alone(catalog: Catalog, tmp_path: Path) -> None:
    catalog.enter(entry("/a"), None, is_gone)
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "home" / FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\x00" + bytes(5000)])
def test_a_damaged_one_is_put_aside_and_begun_anew(
    catalog: Catalog, tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    catalog.enter(entry("/a"), None, is_gone)
    file = tmp_path / "home" / FILE
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert catalog.enter(entry("/b"), None, is_gone) == "calls"
    assert "is damaged" in caplog.text
    assert file.with_name(f"{FILE}.damaged").read_bytes() == content
    assert [run.place for run in catalog.runs()] == ["/b"]


@pytest.mark.parametrize("change", ["DROP TABLE parts", "UPDATE parts SET columns = 'no json'"])
def test_a_content_that_nobody_wrote_is_damage_too(catalog: Catalog, tmp_path: Path, change: str) -> None:
    catalog.enter(entry("/a"), None, is_gone)
    with sqlite3.connect(tmp_path / "home" / FILE) as db:
        db.execute(change)
    assert catalog.runs() == []
    assert catalog.enter(entry("/a"), None, is_gone) == "calls"


def test_that_of_another_version_is_left_alone(catalog: Catalog, tmp_path: Path) -> None:
    catalog.enter(entry("/a"), None, is_gone)
    file = tmp_path / "home" / FILE
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA user_version = 7")
    before = file.read_bytes()
    with pytest.raises(WorldError, match="another version of Penstock"):
        catalog.enter(entry("/b"), None, is_gone)
    assert file.read_bytes() == before


def test_a_folder_that_cannot_be_made_is_an_error_of_the_world(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(WorldError, match="cannot be used"):
        Catalog(tmp_path / "home").enter(entry("/a"), None, is_gone)


PROCESS = """
import sys
from pathlib import Path
from penstock.catalog.database import Catalog
from penstock.catalog.entry import RunEntry
for number in range(20):
    place = f"/{sys.argv[2]}/{number}"
    print(Catalog(Path(sys.argv[1])).enter(RunEntry("calls", place, place, "calls", 1), None, lambda place: False))
"""


def test_several_processes_enter_at_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    processes = [
        subprocess.Popen([sys.executable, "-c", PROCESS, str(home), name], stdout=subprocess.PIPE, text=True)
        for name in ("a", "b", "c")
    ]
    names = [line for process in processes for line in process.communicate(timeout=120)[0].split()]
    assert len(names) == len(set(names)) == 60
    assert sorted(run.name for run in Catalog(home).runs()) == sorted(names)


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "-x", "a b", "~"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(QueryError, match="is no name of a run"):
        check_name(name)
