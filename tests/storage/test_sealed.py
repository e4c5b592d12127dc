"""Documents with a seal: whole, damaged, or of another version."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import WorldError
from penstock.storage.folder import Folder
from penstock.storage.lease import take
from penstock.storage.sealed import FORMAT, OtherFormatError, seal, unseal


def numbered(number: int) -> bytes:
    return seal({"batch": 3}).replace(f"penstock {FORMAT} ".encode(), f"penstock {number} ".encode())


@pytest.mark.parametrize(("number", "word"), [(FORMAT - 1, "an older"), (FORMAT + 1, "a newer")])
def test_another_format_is_refused(number: int, word: str) -> None:
    with pytest.raises(OtherFormatError, match=rf"(?s)record was written by {word} version.*format {FORMAT}\n.*to do"):
        unseal(numbered(number), "record")


def test_what_is_damaged_is_not_taken_for_another_format() -> None:
    with pytest.raises(WorldError, match="record is damaged") as refused:
        unseal(numbered(FORMAT - 1).replace(b"3", b"4", 1), "record")
    assert not isinstance(refused.value, OtherFormatError)


def test_a_checkpoint_of_another_version_is_left_as_it_is(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    take(folder).release()
    (lease,) = [path for path in tmp_path.iterdir() if b"penstock" in path.read_bytes()]
    older = lease.read_bytes().replace(f"penstock {FORMAT} ".encode(), b"penstock 1 ")
    lease.write_bytes(older)
    with pytest.raises(OtherFormatError, match="an older version of Penstock"):
        take(folder)
    assert lease.read_bytes() == older
