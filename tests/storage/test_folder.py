"""Files appear whole or not at all, on the local file system and on any other that Arrow reaches."""

import os
import pickle
import threading
import uuid

import pyarrow as pa
import pytest

from penstock.errors import WorldError
from penstock.storage.folder import Folder


@pytest.fixture(params=["local", "elsewhere"])
def folder(request, tmp_path):
    # Arrow's own in-memory file system takes the path of every scheme that is not local.
    return Folder(str(tmp_path / "run")) if request.param == "local" else Folder(f"mock:///{uuid.uuid4().hex}")


def test_what_is_written_is_read(folder):
    folder.write("a", b"one", pa.py_buffer(b" two"))
    assert folder.read("a").to_pybytes() == b"one two"
    assert folder.size("a") == 7
    assert folder.exists("a")
    assert not folder.exists("b")


def test_an_empty_file_is_a_file(folder):
    folder.write("empty")
    assert folder.size("empty") == 0
    assert folder.read("empty").size == 0


def test_a_large_file_is_read_whole(folder):
    content = os.urandom(200_000)
    folder.write("large", content)
    assert folder.read("large").to_pybytes() == content


def test_writing_again_replaces_and_leaves_nothing_else(folder):
    folder.write("a", b"old")
    folder.write("a", b"new")
    assert folder.read("a").to_pybytes() == b"new"
    assert folder.names() == ["a"]


def test_names_are_sorted_and_a_missing_folder_has_none(folder):
    assert folder.names() == []
    for name in ("c", "a", "b"):
        folder.write(name, b"")
    folder.child("d").make()
    assert folder.names() == ["a", "b", "c", "d"]


def test_all_files_below_are_told_with_their_sizes(folder):
    assert folder.files() == []
    folder.write("b", b"123")
    folder.child("deep", "er").write("a", b"12345")
    folder.child("empty").make()
    assert folder.files() == [("b", 3), ("deep/er/a", 5)]


def test_move_can_be_repeated(folder):
    folder.write("staged", b"x")
    for _ in range(2):
        folder.move("staged", folder.child("out"), "final")
    assert folder.names() == ["out"]
    assert folder.child("out").read("final").to_pybytes() == b"x"


def test_move_replaces_the_target(folder):
    folder.write("staged", b"new")
    folder.write("final", b"old")
    folder.move("staged", folder, "final")
    assert folder.names() == ["final"]
    assert folder.read("final").to_pybytes() == b"new"


def test_moving_what_never_was_is_an_error(folder):
    with pytest.raises(WorldError, match=r"cannot move the file .*/nothing"):
        folder.move("nothing", folder, "final")


def test_move_from_one_file_system_to_another(tmp_path):
    near, far = Folder(str(tmp_path)), Folder(f"mock:///{uuid.uuid4().hex}")
    near.write("a", b"x")
    near.move("a", far, "b")
    assert (near.names(), far.names()) == ([], ["b"])
    near.move("a", far, "b")
    assert far.read("b").to_pybytes() == b"x"


def test_delete_is_fine_with_what_is_gone(folder):
    folder.write("a", b"")
    folder.child("sub").write("b", b"")
    for _ in range(2):
        folder.delete("a")
        folder.delete("sub")
    assert folder.names() == []


def test_delete_all_takes_everything(folder):
    folder.child("deep", "deeper").write("a", b"")
    for _ in range(2):
        folder.delete_all()
    assert folder.names() == []
    assert not folder.child("deep").exists("deeper")


def test_reading_a_missing_file_names_it(folder):
    with pytest.raises(WorldError, match=r"cannot read the file .*/gone") as caught:
        folder.read("gone")
    assert caught.value.found
    with pytest.raises(WorldError, match="gone"):
        folder.size("gone")


def test_writing_below_a_regular_file_gives_the_reason(tmp_path):
    (tmp_path / "file").write_text("")
    below = Folder(str(tmp_path / "file" / "folder"))
    with pytest.raises(WorldError, match="Not a directory"):
        below.make()
    with pytest.raises(WorldError, match=r"cannot write the file .*/file/folder/a"):
        below.write("a", b"")


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    folder = Folder(str(tmp_path))
    folder.child("taken").make()
    with pytest.raises(WorldError, match="directory"):
        folder.write("taken", b"x")
    assert os.listdir(tmp_path) == ["taken"]


def test_unfinished_files_are_not_listed(tmp_path, monkeypatch):
    folder = Folder(str(tmp_path))
    seen = []
    replace = os.replace
    monkeypatch.setattr(
        os, "replace", lambda a, b: (seen.append((os.listdir(tmp_path), folder.names())), replace(a, b))
    )
    folder.write("a", b"x")
    [(on_disk, listed)] = seen
    assert len(on_disk) == 1
    assert on_disk[0].startswith(".a.")
    assert listed == []


def test_readers_never_see_half_a_file(tmp_path):
    folder = Folder(str(tmp_path))
    contents = {bytes([letter]) * 300_000 for letter in range(8)}
    folder.write("a", min(contents))
    writers = [threading.Thread(target=folder.write, args=("a", content)) for content in contents for _ in range(5)]
    for one in writers:
        one.start()
    while any(one.is_alive() for one in writers):
        assert folder.read("a").to_pybytes() in contents
    assert folder.names() == ["a"]


def test_a_mapped_file_outlives_its_replacement_and_deletion(tmp_path):
    folder = Folder(str(tmp_path))
    folder.write("a", b"1" * 100_000)
    mapped = folder.read("a")
    folder.write("a", b"2" * 100_000)
    folder.delete_all()
    assert mapped.to_pybytes() == b"1" * 100_000


def test_paths_and_uris_of_the_same_place_are_equal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    absolute = Folder(str(tmp_path / "with space"))
    assert Folder("with space") == absolute
    assert Folder(f"file://{tmp_path}/with%20space") == absolute
    assert absolute.local() == str(tmp_path / "with space")
    assert pickle.loads(pickle.dumps(absolute)) == absolute


def test_uris_keep_their_options():
    remote = Folder("s3://store/run/?region=eu-west-1")
    assert remote.local() is None
    assert remote.child("a", "b").path == "s3://store/run/a/b?region=eu-west-1"


def test_an_unknown_scheme_is_refused_by_name():
    with pytest.raises(WorldError, match="gopher://there/run"):
        Folder("gopher://there/run").make()
