"""Where paths and URIs lead to."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.connectors.files.places import filesystem_of


def test_a_relative_path_follows_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        found.append(filesystem_of("readings")[1])
    assert found == [str(tmp_path / "one" / "readings"), str(tmp_path / "two" / "readings")]
