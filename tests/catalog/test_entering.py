"""Runs enter the catalog when they start, and are found by name."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import penstock as pk
from penstock.catalog.database import FILE, Catalog
from penstock.catalog.dropping import drop
from penstock.catalog.facts import GONE, RUNNING, STOPPED, UNREADABLE, facts_of
from penstock.catalog.finding import checkpoint_of, checkpoint_to_run, name_of
from penstock.storage.folder import Folder
from penstock.storage.lease import take


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def network(points: str | None = None) -> pk.Network:
    net = pk.Network("calls")
    source = net.source("s", pk.memory([(1, "a"), (2, "b")], schema={"ts": "int64", "k": "string"}))
    source.connection_point("raw", keep=1000, path=points)
    source.aggregate({"n": "count(*)"}, size=10).output("counts")
    return net


def test_a_run_with_a_checkpoint_is_found_by_the_name_of_its_network(tmp_path: Path) -> None:
    network().run(engine="local", checkpoint="run")
    entry = Catalog().named("calls")
    assert entry is not None
    assert entry.place == str(tmp_path / "run")
    assert [(part.kind, part.name) for part in entry.parts] == [
        ("input", "s"),
        ("point", "raw"),
        ("output", "counts"),
        ("output", "s!late"),
        ("output", "s!errors"),
    ]
    point = entry.of_kind("point")[0]
    assert point.columns == (("ts", "int64"), ("k", "string"))
    assert (point.place, point.keeps) == (f"{tmp_path}/run/points/raw", "1,000 rows")
    assert network().look("calls")["counts"].to_pylist() == [{"ts": 0, "n": 2}]


def test_a_run_without_a_checkpoint_is_in_no_catalog(home: Path) -> None:
    network().run(engine="local")
    assert not home.exists()


def test_with_a_name_alone_a_run_is_kept_and_goes_on(home: Path) -> None:
    network().run(engine="local", name="monday")
    assert (home / "runs" / "monday" / "network.json").exists()
    again = network().run(engine="local", name="monday")
    assert again.record().batch == 0
    assert checkpoint_of("monday") == str(home / "runs" / "monday")


def test_a_name_stands_for_the_checkpoint_that_the_run_has(tmp_path: Path) -> None:
    network().run(engine="local", checkpoint="run", name="monday")
    assert network().run(engine="local", name="monday").record().batch == 0
    assert not (tmp_path / "home" / "runs").exists()


def test_a_name_that_another_checkpoint_has_is_refused_with_both(tmp_path: Path) -> None:
    network().run(engine="local", checkpoint="run", name="monday")
    with pytest.raises(pk.QueryError, match="another run has the name 'monday'") as refused:
        network().run(engine="local", checkpoint="other", name="monday")
    assert f"{tmp_path}/run" in str(refused.value)
    assert f"{tmp_path}/other" in str(refused.value)
    assert not (tmp_path / "other").exists()


def test_a_name_whose_checkpoint_is_gone_is_not_begun_anew_elsewhere() -> None:
    network().run(engine="local", checkpoint="run", name="monday")
    shutil.rmtree("run")
    with pytest.raises(pk.WorldError, match="the checkpoint of the run 'monday' is gone"):
        network().run(engine="local", name="monday")
    network().run(engine="local", checkpoint="run2", name="monday")


def test_a_catalog_that_cannot_be_used_ends_no_run(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    home.write_text("a file in its place")
    with caplog.at_level(logging.WARNING):
        result = network().run(engine="local", checkpoint="run")
    assert result["counts"].num_rows == 1
    assert "this run is not in the catalog" in caplog.text


def test_a_catalog_that_was_lost_is_made_again_by_starts(home: Path) -> None:
    network().run(engine="local", checkpoint="run")
    (home / FILE).unlink()
    network().run(engine="local", checkpoint="run")
    assert [entry.name for entry in Catalog().runs()] == ["calls"]


def test_a_folder_of_that_name_wins_over_a_run(tmp_path: Path) -> None:
    network().run(engine="local", checkpoint="elsewhere/run", name="monday")
    network().run(engine="local", checkpoint="monday")
    assert checkpoint_of("monday") == "monday"
    assert checkpoint_to_run("new") == "new"
    assert name_of("elsewhere/run") == "monday"
    assert name_of("new") is None
    with pytest.raises(pk.QueryError, match="there is no run named 'new'"):
        checkpoint_of("new")


HOLDER = """
import sys
from penstock.storage.folder import Folder
from penstock.storage.lease import take
lease = take(Folder(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_who_starts_a_run_by_name_is_told_who_holds_it() -> None:
    network().run(engine="local", checkpoint="run", name="monday")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(pk.WorldError, match=f"is in use by process {holder.pid} on host"):
            network().run(engine="local", name="monday")
        entry = Catalog().named("monday")
        assert entry is not None
        facts = facts_of(entry)
        assert facts.state == RUNNING
        assert f"held by process {holder.pid}" in facts.told
        for data in (False, True):
            with pytest.raises(pk.WorldError, match="is in use by process"):
                drop(entry, data=data)
        assert Catalog().named("monday") is not None
    finally:
        holder.communicate()
    assert facts_of(entry).state == STOPPED


def test_facts_come_from_the_checkpoint(tmp_path: Path) -> None:
    network().run(engine="local", checkpoint="run")
    (entry,) = Catalog().runs()
    facts = facts_of(entry)
    assert (facts.state, facts.batch, facts.rows) == (STOPPED, 0, 2)
    assert facts.bytes == sum(file.stat().st_size for file in (tmp_path / "run").rglob("*") if file.is_file())
    (board,) = (tmp_path / "run" / "board").glob("*.json")
    board.write_bytes(b"")
    assert facts_of(entry).state == UNREADABLE
    shutil.rmtree("run")
    assert facts_of(entry).state == GONE


def test_drop_forgets_and_leaves_the_data(tmp_path: Path) -> None:
    network().run(engine="local", checkpoint="run")
    (entry,) = Catalog().runs()
    assert drop(entry) == []
    assert Catalog().runs() == []
    assert (tmp_path / "run" / "network.json").exists()


def test_drop_with_data_deletes_the_checkpoint_and_points_of_this_run_alone(tmp_path: Path) -> None:
    network(points="mine").run(engine="local", checkpoint="run")
    network(points="others").run(engine="local", checkpoint="other")
    (mine, _) = Catalog().runs()
    point = mine.of_kind("point")[0]
    lie = replace(point, place=str(tmp_path / "others"))
    wrong = replace(mine, parts=(point, lie))
    assert drop(wrong, data=True) == [str(tmp_path / "mine"), str(tmp_path / "run")]
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "mine").exists()
    assert (tmp_path / "others").exists()


def test_a_lease_that_was_released_is_held_by_nobody(tmp_path: Path) -> None:
    network().run(engine="local", checkpoint="run")
    (entry,) = Catalog().runs()
    lease = take(Folder("run"))
    assert facts_of(entry).state == RUNNING
    lease.release()
    assert facts_of(entry).state == STOPPED
