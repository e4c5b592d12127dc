"""Who may write to a checkpoint."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import penstock as pk
from penstock.storage.folder import Folder
from penstock.storage.private import make_private


def _rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_a_new_folder_is_for_its_owner_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        make_private(Folder(str(tmp_path / "runs" / "mine")))
    finally:
        os.umask(before)
    assert _rights(tmp_path / "runs" / "mine") == 0o700


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_run_makes_its_checkpoint_for_its_owner_and_refuses_one_that_others_can_write_to(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if engine == "spark":
        request.getfixturevalue("spark_ready")
    net = pk.Network("private")
    net.source("events", pk.memory([(1,)], schema={"ts": "int64"})).output("kept")
    path = tmp_path / "checkpoint"
    net.run(engine, checkpoint=str(path))
    assert _rights(path) == 0o700
    path.chmod(0o777)
    with pytest.raises(pk.WorldError, match=f"everybody can write to the checkpoint {path}") as failure:
        net.run(engine, checkpoint=str(path))
    assert "found: rights drwxrwxrwx" in str(failure.value)
    assert f"to do: run chmod go-w {path}" in str(failure.value)
    path.chmod(0o755)
    net.run(engine, checkpoint=str(path))
    assert _rights(path) == 0o755


def test_a_group_that_can_write_is_named_unless_it_is_the_owners_own(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "shared"))
    make_private(folder)
    os.chmod(folder.path, 0o770)
    if os.getuid() != 0:
        pytest.skip("only root can give a folder to another group")
    make_private(folder)  # root's own group
    os.chown(folder.path, 0, 100)
    with pytest.raises(pk.WorldError, match=r"the group \w+ can write to the checkpoint") as failure:
        make_private(folder)
    assert "PENSTOCK_CHECKPOINT_WRITERS=group allows these" in str(failure.value)


def test_other_writers_can_be_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CHECKPOINT_WRITERS", "group")
    make_private(Folder(str(tmp_path / "shared")))
    assert _rights(tmp_path / "shared") == 0o770
    make_private(Folder(str(tmp_path / "shared")))
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(pk.WorldError, match="everybody can write"):
        make_private(Folder(str(tmp_path / "shared")))
    monkeypatch.setenv("PENSTOCK_CHECKPOINT_WRITERS", "all")
    make_private(Folder(str(tmp_path / "shared")))
    monkeypatch.setenv("PENSTOCK_CHECKPOINT_WRITERS", "me")
    with pytest.raises(pk.QueryError, match="PENSTOCK_CHECKPOINT_WRITERS says 'me'"):
        make_private(Folder(str(tmp_path / "shared")))


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(pk.WorldError, match=f"cannot create the folder {tmp_path}/file"):
        make_private(Folder(str(tmp_path / "file")))
