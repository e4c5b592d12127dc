"""Files that grow are read on, line by line; and logs that rotate, however it is done: nothing lost or doubled."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.connector import Limit
from penstock.connectors.files.declaration import files
from penstock.connectors.files.known_files import extends
from penstock.connectors.journal import FileJournal, MemoryJournal
from penstock.errors import WorldError

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])


class Follower:
    """An input that is followed, with a restart whenever somebody asks."""

    def __init__(self, path: str, journal: Any = None, **options: Any) -> None:
        self.connector = files(path, schema=SCHEMA, follow=True, grow=True, **options)
        self.journal = MemoryJournal() if journal is None else journal
        self.feed = self.connector.open(SCHEMA, self.journal)
        self.position: Any = self.feed.start()
        self.trains: list[tuple[Any, Any]] = []
        self.rejects: list[Any] = []

    def pull(self, limit: Limit | None = None) -> list[int]:
        """The times that have come since."""
        step = self.feed.advance(self.position, limit or Limit())
        end = json.loads(json.dumps(step.position))
        self.trains.append((self.position, end))
        self.position = end
        return self.again(*self.trains[-1])

    def again(self, start: Any, end: Any) -> list[int]:
        chunks = [c for s in self.feed.splits(start, end) for c in self.connector.read(s, SCHEMA, SCHEMA.names)]
        self.rejects += [row for c in chunks if c.rejects is not None for row in c.rejects.to_pylist()]
        return [row["ts"] for chunk in chunks for row in chunk.tuples.to_pylist()]

    def restart(self) -> None:
        self.feed = self.connector.open(SCHEMA, self.journal)


def line(name: str, at: int) -> str:
    return f"{at},k{at}\n" if "csv" in name else json.dumps({"ts": at, "k": f"k{at}"}) + "\n"


def append(path: Path, rows: range, end: str = "") -> None:
    fresh = not path.exists() or not path.stat().st_size
    with path.open("a") as file:
        file.write("ts,k\n" if fresh and "csv" in path.name else "")
        file.write("".join(line(path.name, at) for at in rows) + end)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_lines_that_are_added_are_read_in_order_and_again_after_a_restart(
    data: Path, tmp_path: Path, name: str
) -> None:
    journal = FileJournal(str(tmp_path / "journal"))
    log = Follower(str(data), journal)
    assert log.pull() == []
    append(data / name, range(3))
    assert log.pull() == [0, 1, 2]
    append(data / name, range(3, 5))
    assert log.pull() == [3, 4]
    assert log.pull() == []
    log.restart()
    append(data / name, range(5, 6))
    assert log.pull() == [5]
    log.restart()
    assert [log.again(*train) for train in log.trains] == [[], [0, 1, 2], [3, 4], [], [5]]
    assert log.rejects == []


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_an_unfinished_line_waits_for_its_end(data: Path, name: str) -> None:
    log, path = Follower(str(data)), data / name
    half = line(name, 7)
    append(path, range(2), half[:3])
    assert log.pull() == [0, 1]
    assert log.pull() == []
    with path.open("a") as file:
        file.write(half[3:-1])
    assert log.pull() == []
    with path.open("a") as file:
        file.write("\n")
    assert log.pull() == [7]
    assert log.rejects == []


def test_a_header_that_is_not_complete_waits_too(data: Path) -> None:
    log, path = Follower(str(data)), data / "a.csv"
    for written, expected in (("", []), ("ts", []), (",k\n", []), ("1,a\n2", [1]), (",b\n", [2])):
        with path.open("a") as file:
            file.write(written)
        assert log.pull() == expected
    assert log.rejects == []


def test_a_train_ends_inside_what_was_added(data: Path) -> None:
    log, path = Follower(str(data), split_bytes=100), data / "a.csv"
    append(path, range(100))
    pulled = log.pull(Limit(30))
    assert 15 <= len(pulled) <= 30
    append(path, range(100, 150))
    while got := log.pull(Limit(30)):
        assert len(got) <= 30
        pulled += got
    assert pulled == list(range(150))


def test_lanes_keep_their_files(data: Path) -> None:
    for lane in ("m1", "m2"):
        (data / lane).mkdir()
        append(data / lane / "a.csv", range(2))
    log = Follower(str(data), lanes="folder")
    log.pull()
    for lane in ("m2", "m1"):
        append(data / lane / "a.csv", range(2, 4))
    log.pull()
    assert {s.shard for s in log.feed.splits(*log.trains[-1])} == {"m1", "m2"}
    seqs = [s.seq for s in log.feed.splits(log.feed.start(), log.position) if s.shard == "m1"]
    assert seqs == sorted(set(seqs))


@pytest.mark.parametrize("path", ["{}", "{}/app.log*", "{}/app.log"])
def test_a_log_that_is_renamed_is_read_to_its_end_and_the_new_one_from_its_start(data: Path, path: str) -> None:
    log = Follower(path.format(data), format="jsonl")
    append(data / "app.log", range(3))
    assert log.pull() == [0, 1, 2]
    append(data / "app.log", range(3, 5))
    (data / "app.log").rename(data / "app.log.1")
    with (data / "app.log.1").open("a") as file:  # the writer has not noticed yet
        file.write(line("app.log", 5))
    assert log.pull() == [3, 4, 5]
    append(data / "app.log", range(6, 8))
    assert log.pull() == [6, 7]
    # Once more, with two rotations between two looks.
    append(data / "app.log", range(8, 9))
    (data / "app.log.1").rename(data / "app.log.2")
    (data / "app.log").rename(data / "app.log.1")
    append(data / "app.log", range(9, 11))
    assert log.pull() == [8, 9, 10]
    log.restart()
    assert log.pull() == []
    assert [log.again(*train) for train in log.trains][:4] == [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9, 10]]
    assert log.rejects == []


def test_what_was_planned_before_a_rotation_is_read_after_it(data: Path) -> None:
    log = Follower(f"{data}/app.log", format="csv", header=False)
    with (data / "app.log").open("w") as file:
        file.write("1,a\n2,b\n")
    step = log.feed.advance(log.position, Limit())
    (data / "app.log").rename(data / "app.log.1")
    (data / "app.log").write_text("3,c\n")
    assert log.again(log.position, step.position) == [1, 2]


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_a_log_that_is_copied_and_cut_off_is_read_to_its_end_and_on(data: Path, looks: int) -> None:
    log, got = Follower(f"{data}/app.log*", format="csv"), []
    path = data / "app.log"
    path.write_text("ts,k\n" + "".join(f"{at},a\n" for at in range(3)))
    got += log.pull()
    with path.open("a") as file:
        file.write("3,a\n4,a\n")
    content = path.read_bytes()
    (data / "app.log.1").write_bytes(content[:9])  # the copy is under way
    if looks:
        got += log.pull()
    (data / "app.log.1").write_bytes(content)
    if looks > 1:
        got += log.pull()
    with path.open("r+") as file:
        file.truncate(0)
    path.write_text("ts,k\n" + "".join(f"{at},b\n" for at in range(5, 12)))
    got += log.pull()
    got += log.pull()
    assert got == list(range(12))
    assert log.rejects == []


def test_logs_that_are_there_at_the_start_come_in_order_of_time(data: Path) -> None:
    for age, (name, rows) in enumerate((("app.log", range(6, 9)), ("app.log.1", range(3, 6)), ("app.log.2", range(3)))):
        append(data / name, rows)
        os.utime(data / name, ns=(10**18, (1_700_000_000 - age) * 10**9))
    assert Follower(f"{data}/app.log*", format="jsonl").pull() == list(range(9))


def test_a_log_that_vanished_with_lines_unread_is_told(data: Path) -> None:
    log = Follower(f"{data}/app.log", format="jsonl")
    append(data / "app.log", range(3), '{"ts"')
    assert log.pull() == [0, 1, 2]
    (data / "app.log").unlink()
    append(data / "app.log", range(3, 5))
    assert log.pull() == [3, 4]
    assert "what it held beyond them, if anything, is lost" in log.rejects[0]["reason"]
    (data / "app.log").unlink()  # all of it has been read
    log.rejects.clear()
    assert log.pull() == []
    assert log.rejects == []


def test_the_last_line_of_a_log_that_was_rotated_long_ago_is_taken_as_it_stands(data: Path) -> None:
    log = Follower(f"{data}/app.log", format="jsonl")
    append(data / "app.log", range(2), line("app.log", 2).strip())
    assert log.pull() == [0, 1]
    (data / "app.log").rename(data / "app.log.1")
    append(data / "app.log", range(3, 4))
    assert log.pull() == [3]
    os.utime(data / "app.log.1", ns=(10**18, 1_700_000_000 * 10**9))
    assert log.pull() == [2]
    assert log.pull() == []


def test_a_log_that_is_compressed_after_it_was_rotated_is_not_read_again(data: Path) -> None:
    log = Follower(f"{data}/*", format="jsonl")
    append(data / "app.log", range(5))
    (data / "other.log.gz").write_bytes(gzip.compress(line("", 50).encode()))
    assert sorted(log.pull()) == [0, 1, 2, 3, 4, 50]
    (data / "app.log").rename(data / "app.log.1")
    append(data / "app.log", range(5, 7))
    assert log.pull() == [5, 6]
    (data / "app.log.1.gz").write_bytes(gzip.compress((data / "app.log.1").read_bytes()))
    assert log.pull() == []
    (data / "app.log.1").unlink()
    (data / "app.log.1.gz").rename(data / "app.log.2.gz")
    log.restart()
    assert log.pull() == []
    assert log.rejects == []


@pytest.mark.parametrize("seed", range(12))
def test_any_rotation_at_any_moment_loses_and_doubles_nothing(data: Path, seed: int) -> None:
    chance, log, got, at = random.Random(seed), Follower(f"{data}/app.log*", format="csv"), list[int](), 0
    path, kept = data / "app.log", 0
    for _ in range(40):
        what = chance.choice(["write", "write", "write", "look", "look", "half", "rename", "copy", "restart"])
        if what == "write":
            rows = chance.randint(1, 5)
            fresh = not path.exists() or not path.stat().st_size
            with path.open("a") as file:
                file.write("ts,k\n" * fresh + "".join(f"{n},x\n" for n in range(at, at + rows)))
            at += rows
        elif what == "half" and path.exists() and path.stat().st_size:
            with path.open("a") as file:
                file.write(f"{at}")
                file.flush()
                got += log.pull()
                file.write(",x\n")
            at += 1
        elif what in ("rename", "copy") and path.exists() and path.stat().st_size:
            for number in range(kept, 0, -1):
                (data / f"app.log.{number}").rename(data / f"app.log.{number + 1}")
            kept += 1
            if what == "rename":
                path.rename(data / "app.log.1")
            else:
                if chance.random() < 0.5:
                    (data / "app.log.1").write_bytes(path.read_bytes()[: chance.randint(0, 20)])
                    got += log.pull()
                shutil.copyfile(path, data / "app.log.1")
                if chance.random() < 0.5:
                    got += log.pull()
                with path.open("r+") as file:
                    file.truncate(0)
        elif what == "restart":
            log.restart()
        else:
            got += log.pull(Limit(chance.choice([3, 2**60])))
    for _ in range(at):
        got += log.pull()
    assert sorted(got) == list(range(at))
    assert log.rejects == []
    assert [log.again(*train) for train in log.trains if train[0] != train[1]]


def test_a_folder_that_is_gone_is_an_error(data: Path) -> None:
    log = Follower(f"{data}/app.log", format="csv")
    shutil.rmtree(data)
    with pytest.raises(WorldError, match="does not exist"):
        log.pull()


def test_names_that_rotation_gives() -> None:
    assert extends("app.log.1", "app.log")
    assert not extends("app.log", "app.log.1")
    assert not extends("part-10.csv", "part-1.csv")
