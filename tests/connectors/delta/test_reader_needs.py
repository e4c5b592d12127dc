"""What readers of a Delta table need no more: told beside the table, heard by whoever writes it, and by nobody else."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from tests.connectors.delta.tables import SCHEMA, add

from penstock.algebra.ticks import END
from penstock.connectors.delta.reader_needs import FOLDER, heard, tell
from penstock.storage.folder import Folder
from penstock.storage.sealed import seal, unseal
from penstock.storage.signing import VARIABLE


@pytest.fixture
def table(tmp_path: Path) -> Folder:
    add(str(tmp_path / "table"), 1, 2)
    return Folder(str(tmp_path / "table"))


def reader(tmp_path: Path, name: str = "one") -> Folder:
    return Folder(str(tmp_path / name))


def the_file(table: Folder) -> Path:
    (found,) = (Path(table.path) / FOLDER).iterdir()
    return found


def test_what_a_reader_tells_is_heard(table: Folder, tmp_path: Path) -> None:
    assert heard(table, SCHEMA) == {}
    assert tell(table, {"ts": 5}, SCHEMA, reader(tmp_path))
    assert heard(table, SCHEMA) == {"ts": 5}
    assert tell(table, {"ts": END}, SCHEMA, reader(tmp_path))
    assert heard(table, SCHEMA) == {"ts": END}
    assert the_file(table)  # one for a reader, whatever it tells


def test_of_several_readers_the_one_that_needs_most_counts(table: Folder, tmp_path: Path) -> None:
    tell(table, {"ts": 5}, SCHEMA, reader(tmp_path))
    gone = the_file(table)
    tell(table, {"ts": 9}, SCHEMA, reader(tmp_path, "two"))
    assert heard(table, SCHEMA) == {"ts": 5}
    tell(table, {}, SCHEMA, reader(tmp_path, "three"))
    assert heard(table, SCHEMA) == {}
    tell(table, {"ts": 8}, SCHEMA, reader(tmp_path, "three"))
    gone.unlink()
    assert heard(table, SCHEMA) == {"ts": 8}


def test_there_is_nobody_to_be_told_before_there_is_a_table(tmp_path: Path) -> None:
    nothing = Folder(str(tmp_path / "table"))
    assert not tell(nothing, {"ts": 5}, SCHEMA, reader(tmp_path))
    assert heard(nothing, SCHEMA) == {}


@pytest.mark.parametrize(
    ("kind", "tick", "expected"),
    [
        (pa.timestamp("s"), 3, 3),
        (pa.timestamp("ms", "UTC"), 1_500, 1_500),
        (pa.timestamp("ns"), 1_999, 1_000),  # the table knows no nanoseconds: what it cannot tell apart is kept
        (pa.date32(), 3, 3),
        (pa.date64(), 86_400_000, 86_400_000),
        (pa.uint32(), 7, 7),
    ],
)
def test_ticks_are_those_of_the_table(
    kind: pa.DataType, tick: int, expected: int, table: Folder, tmp_path: Path
) -> None:
    schema = pa.schema([("ts", kind)])
    tell(table, {"ts": tick}, schema, reader(tmp_path))
    assert heard(table, schema) == {"ts": expected}


def test_seconds_that_have_begun_are_kept_for_a_reader_of_microseconds(table: Folder, tmp_path: Path) -> None:
    tell(table, {"ts": 2_500_000}, pa.schema([("ts", pa.timestamp("us"))]), reader(tmp_path))
    assert heard(table, pa.schema([("ts", pa.timestamp("s"))])) == {"ts": 2}


def forged(path: Path, **changes: object) -> None:
    document = unseal(path.read_bytes(), "here")
    said = json.loads(document["said"])
    path.write_bytes(seal({**document, "said": json.dumps({**said, **changes})}))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        pytest.param(lambda p: forged(p, floors={"ts": 99}), "this user has not signed it", id="changed"),
        pytest.param(lambda p: p.write_bytes(b""), "is damaged", id="emptied"),
        pytest.param(lambda p: p.write_bytes(p.read_bytes()[:-30]), "is damaged", id="cut short"),
        pytest.param(lambda p: p.write_bytes(seal({"said": 3})), "signature", id="no signature"),
        pytest.param(lambda p: p.write_bytes(seal({"said": "{}", "signature": "ä"})), "not signed", id="no hex"),
        pytest.param(lambda p: p.rename(p.with_name("other.json")), "about another table", id="renamed"),
    ],
)
def test_what_this_user_has_not_signed_leaves_nothing_out(
    damage: object, reason: str, table: Folder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tell(table, {"ts": 5}, SCHEMA, reader(tmp_path))
    tell(table, {"ts": 9}, SCHEMA, reader(tmp_path, "two"))
    with caplog.at_level(logging.WARNING, "penstock.delta"):
        damage(sorted((Path(table.path) / FOLDER).iterdir())[0])  # type: ignore[operator]
        assert [heard(table, SCHEMA) for _ in range(3)] == [{}, {}, {}]
    (warning,) = caplog.messages
    assert "is not heeded, and nothing is left out for its reader" in warning
    assert reason in warning


def test_a_reader_of_another_user_is_not_heeded(table: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "one of theirs")
    tell(table, {"ts": 5}, SCHEMA, reader(tmp_path))
    assert heard(table, SCHEMA) == {"ts": 5}
    monkeypatch.setenv(VARIABLE, "ours")
    assert heard(table, SCHEMA) == {}


def test_what_was_said_of_another_table_is_not_heeded(table: Folder, tmp_path: Path) -> None:
    add(str(tmp_path / "other"), 1)
    other = Folder(str(tmp_path / "other"))
    tell(table, {"ts": 5}, SCHEMA, reader(tmp_path))
    other.child(FOLDER).make()
    the_file(table).rename(Path(other.path) / FOLDER / the_file(table).name)
    assert heard(other, SCHEMA) == {}


def test_delta_leaves_the_files_alone(table: Folder, tmp_path: Path) -> None:
    tell(table, {"ts": 5}, SCHEMA, reader(tmp_path))
    opened = deltalake.DeltaTable(table.path)
    opened.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert heard(table, SCHEMA) == {"ts": 5}
    assert pa.table(opened.to_pyarrow_table()).num_rows == 2
