"""What a run takes up on disks, by what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.runtime.footprint import KINDS, Stored, footprint, told, total
from penstock.storage.folder import Folder


@pytest.mark.parametrize(
    ("file", "kind", "name"),
    [
        ("state/1/0/00000003.state", "state", ""),
        ("board/00000003-000001.json", "board", ""),
        ("intake/link/journal.jsonl", "journal", "link"),
        ("versions/00000001.json", "versions", ""),
        ("job/1.pickle", "versions", ""),
        ("spark/offsets/3", "Spark's logs", ""),
        ("outlet/counts/writer.json", "results", "counts"),
        ("outlet/counts@4/writer.json", "results", "counts"),
        ("outlet/link!late/part-00000000-0000.arrow", "late tuples", "link"),
        ("outlet/link!errors/writer.json", "refused records", "link"),
        ("points/raw/_delta_log/00000000000000000000.json", "connection point", "raw"),
        ("tables/cell/versions.json", "static table", "cell"),
        ("network.json", "other", ""),
        ("requests/1.json", "other", ""),
    ],
)
def test_every_file_has_its_purpose(tmp_path: Path, file: str, kind: str, name: str) -> None:
    place = tmp_path / file
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"12345")
    (stored,) = footprint(Folder(str(tmp_path)))
    assert (stored.kind, stored.name, stored.bytes, stored.files) == (kind, name, 5, 1)
    assert file.startswith(stored.place.removeprefix(str(tmp_path)).lstrip("/"))


def test_points_elsewhere_count_too(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a").write_bytes(bytes(70))
    stored = footprint(Folder(str(tmp_path / "run")), {"raw": str(tmp_path / "raw")})
    assert stored == [Stored("connection point", "raw", str(tmp_path / "raw"), 70, 1)]


def test_the_largest_are_told_first_and_the_rest_together() -> None:
    stored = [Stored(kind, "", "", 10**number) for number, kind in enumerate(KINDS)]
    assert told(stored, 2) == "10.0 GB of other, 1.0 GB of Spark's logs, 111.1 MB of others"
    assert total(stored) == 11_111_111_111
