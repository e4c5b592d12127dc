from __future__ import annotations

from pathlib import Path

import pytest

from penstock.connectors.journal import FileJournal, MemoryJournal
from penstock.errors import WorldError


def test_entries_come_back_in_order(tmp_path: Path) -> None:
    for journal in (MemoryJournal(), FileJournal(str(tmp_path / "deep" / "journal"))):
        assert journal.entries() == []
        journal.append([{"a": 1}, {"a": "zwei\n"}])
        journal.append([])
        journal.append([{"b": [1, None]}])
        assert journal.entries() == [{"a": 1}, {"a": "zwei\n"}, {"b": [1, None]}]


def test_another_reader_sees_what_was_appended(tmp_path: Path) -> None:
    FileJournal(str(tmp_path / "journal")).append([{"a": 1}])
    assert FileJournal(f"file://{tmp_path}/journal").entries() == [{"a": 1}]


def test_a_torn_last_line_is_ignored_and_overwritten(tmp_path: Path) -> None:
    journal = FileJournal(str(tmp_path / "journal"))
    journal.append([{"a": 1}])
    with open(tmp_path / "journal", "ab") as file:
        file.write(b'{"a": 2, "torn')
    assert journal.entries() == [{"a": 1}]
    journal.append([{"a": 3}])
    assert journal.entries() == [{"a": 1}, {"a": 3}]


def test_a_damaged_journal_is_told(tmp_path: Path) -> None:
    journal = FileJournal(str(tmp_path / "journal"))
    journal.append([{"a": 1}, {"a": 2}, {"a": 3}])
    content = bytearray((tmp_path / "journal").read_bytes())
    content[content.index(b"2")] ^= 1
    (tmp_path / "journal").write_bytes(content)
    with pytest.raises(WorldError, match=r"the journal .*/journal is damaged(.|\n)*line 2"):
        journal.entries()


def test_pages_that_a_power_cut_left_empty_are_a_torn_end(tmp_path: Path) -> None:
    journal = FileJournal(str(tmp_path / "journal"))
    journal.append([{"a": 1}])
    with open(tmp_path / "journal", "ab") as file:
        file.write(bytes(40) + b"\n" + bytes(3))
    assert journal.entries() == [{"a": 1}]
    journal.append([{"a": 3}])
    assert FileJournal(str(tmp_path / "journal")).entries() == [{"a": 1}, {"a": 3}]


def test_what_json_cannot_keep_is_refused_by_both(tmp_path: Path) -> None:
    for journal in (MemoryJournal(), FileJournal(str(tmp_path / "journal"))):
        with pytest.raises(TypeError):
            journal.append([{"a": object()}])
