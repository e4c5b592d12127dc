"""Copies that join an LMerge while it runs on Spark, and leave it, with restarts in between: nothing is missing in the
output, and nothing is in it twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import penstock as pk
from penstock.cli.application import load

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_ready")]

SCHEMA = {"ts": "int64", "k": "string"}
PER_FILE = 10
APPLICATION = """
import penstock as pk

SCHEMA = {{"ts": "int64", "k": "string"}}

net = pk.Network("merging")
left = net.source("left", pk.files({left!r}, follow=True), schema=SCHEMA, progress=pk.ordered())
pk.lmerge(left, case="R3", name="merged").output("all")
"""
COPY = """
import penstock as pk


def third(net):
    files = pk.files({third!r}, follow=True)
    return net.source("third", files, schema={{"ts": "int64", "k": "string"}}, progress=pk.ordered())
"""


def rows(number: int) -> list[tuple[int, str]]:
    """The tuples of a file: two at every time."""
    first = number * PER_FILE
    return [(first + at, key) for at in range(PER_FILE) for key in ("x", f"k{(first + at) % 3}")]


def say(folder: Path, number: int, *, backwards: bool = False) -> None:
    """A file of a copy. Within one time, copies differ in order."""
    folder.mkdir(exist_ok=True)
    told = sorted(rows(number), key=lambda row: (row[0], row[1] if backwards else -ord(row[1][0])))
    (folder / f".{number}").write_text("".join(json.dumps(dict(zip(SCHEMA, row, strict=True))) + "\n" for row in told))
    (folder / f".{number}").rename(folder / f"{number}.jsonl")


def followed(net: Any, folder: Path, name: str) -> pk.Stream:
    files = pk.files(str(folder / name), follow=True)
    stream: pk.Stream = net.source(name, files, schema=SCHEMA, progress=pk.ordered())
    return stream


def merging(folder: Path, *names: str) -> pk.Network:
    net = pk.Network("merging")
    copies = [followed(net, folder, name) for name in names]
    pk.lmerge(*copies, case="R3", name="merged").output("all")
    return net


def come_to(run: pk.Run, files: int) -> None:
    """Wait until the output has all tuples of so many files."""
    run.wait_for(lambda record: record.outputs.get("all", 0) >= sum(len(rows(number)) for number in range(files)))


def check(result: pk.Result, files: int) -> None:
    found = Counter(tuple(row.values()) for row in result["all"].to_pylist())
    assert found == Counter(row for number in range(files) for row in rows(number))
    assert result.errors("merged").num_rows == 0


def test_a_copy_joins_outlives_a_restart_and_leaves(tmp_path: Path) -> None:
    checkpoint, left, right = str(tmp_path / "run"), tmp_path / "left", tmp_path / "right"
    for number in range(2):
        say(left, number)
    run = merging(tmp_path, "left").start(checkpoint=checkpoint, buckets=2)
    come_to(run, 2)
    # It lacks the first file, and is ahead of the other copy before it has joined.
    for number in range(1, 5):
        say(right, number, backwards=True)
    joined = run.attach(lambda net: followed(net, tmp_path, "right"), to="merged", from_time=PER_FILE, name="right")
    assert [query["name"] for query in joined.attached] == ["right"]
    come_to(run, 5)
    run.stop()

    again = merging(tmp_path, "left").start(checkpoint=checkpoint, buckets=2)
    assert [(query["name"], query["at"], query["since"]) for query in again.attached()] == [
        ("right", ["merged"], str(PER_FILE))
    ]
    say(right, 5)
    come_to(again, 6)
    # The copy that was there first comes after, with what has left already.
    for number in range(2, 6):
        say(left, number)
    again.detach("right")
    assert again.attached() == []
    say(right, 6)  # nobody reads it any more
    say(left, 6)
    come_to(again, 7)
    again.stop()

    last = merging(tmp_path, "left").start(checkpoint=checkpoint, buckets=2)
    assert last.attached() == []
    say(left, 7)
    come_to(last, 8)
    check(last.stop(), 8)


def test_a_network_goes_on_with_the_copy_alone_that_has_joined(tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "run")
    say(tmp_path / "left", 0)
    run = merging(tmp_path, "left").start(checkpoint=checkpoint, buckets=2)
    come_to(run, 1)
    say(tmp_path / "right", 2)
    run.attach(lambda net: followed(net, tmp_path, "right"), to="merged", from_time=2 * PER_FILE, name="right")
    with pytest.raises(pk.QueryError, match="has not joined 'merged' yet"):
        run.change(merging(tmp_path, "right"))
    say(tmp_path / "left", 1)
    say(tmp_path / "left", 2)
    run.wait_for(lambda record: record.marks["merged"].of("ts") >= 2 * PER_FILE)
    version = run.change(merging(tmp_path, "right"))
    assert "input left" in version.removed
    assert run.attached() == []
    say(tmp_path / "right", 3)
    come_to(run, 4)
    run.stop()

    again = merging(tmp_path, "right").start(checkpoint=checkpoint, buckets=2)
    say(tmp_path / "right", 4)
    come_to(again, 5)
    check(again.stop(), 5)


def test_a_copy_joins_and_leaves_from_another_process(tmp_path: Path) -> None:
    checkpoint, left, third = str(tmp_path / "run"), tmp_path / "left", tmp_path / "third"
    app, copy = tmp_path / "app.py", tmp_path / "copy.py"
    app.write_text(APPLICATION.format(left=str(left)))
    copy.write_text(COPY.format(third=str(third)))

    def penstock(*arguments: str) -> str:
        code = "from penstock.cli.main import app; app()"
        command = [sys.executable, "-c", code, *arguments, "--checkpoint", checkpoint]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return " ".join(done.stdout.split())

    say(left, 0)
    say(left, 1)
    run = load(app, None).start(checkpoint=checkpoint, buckets=2)
    come_to(run, 2)
    say(third, 1)
    say(third, 2)
    told = penstock("attach", str(app), str(copy), "--to", "merged", "--from-time", str(PER_FILE))
    assert "'third' is attached since batch" in told
    assert "it has joined 'merged'" in told
    come_to(run, 3)
    assert "third" in penstock("attached", str(app))
    assert "'third' is detached since batch" in penstock("detach", str(app), "third")
    say(left, 2)
    say(left, 3)
    come_to(run, 4)
    check(run.stop(), 4)
