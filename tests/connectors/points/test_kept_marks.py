"""Marks of the past: what the upkeep of a connection point keeps of them, what leaves, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pytest
from tests.connectors.conftest import EVERYTHING
from tests.properties.test_points import Runner

import penstock as pk
from penstock.connectors.connector import Limit
from penstock.connectors.delta.commit_marks import KEY, MARKS_FOLDER
from penstock.connectors.delta.input_position import DeltaSplit
from penstock.connectors.journal import MemoryJournal
from penstock.connectors.points import clustering, point_target
from penstock.connectors.points.kept_marks import newest_index
from penstock.connectors.points.retention import Horizon
from penstock.errors import WorldError
from penstock.storage.folder import Folder

BEHIND_THE_GRACE = 1 << 62
"""A clock reading in nanoseconds, far from now."""
ROWS = [(t + 50 * (t % 2), "ab"[t % 2]) for t in range(40)]


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "point")


def network(place: str, **options: Any) -> pk.Network:
    net = pk.Network("devices")
    rows = pk.memory(ROWS, schema={"ts": "int64", "device": "string"}, train=2)
    devices = net.source("devices", rows, progress=pk.delayed(2, by="device"))
    devices.connection_point("point", path=place, **options)
    devices.where("ts < 0").output("none")
    return net


def group_files(place: str) -> list[str]:
    return sorted(path.name for path in Path(place, MARKS_FOLDER).glob("*.parquet"))


def said_of(net: pk.Network) -> list[dict[str, Any]]:
    """What an input states of groups, behind all that it reads."""
    (source,) = net.network.sources
    feed = source.connector.open(source.tuples, MemoryJournal())
    splits = feed.splits(feed.start(), feed.advance(feed.start(), EVERYTHING).position)
    chunks = [chunk for split in splits for chunk in source.connector.read(split, source.tuples, source.tuples.names)]
    return [row for chunk in chunks if chunk.groups is not None for row in chunk.groups.to_pylist()]


def read_back(place: str) -> pk.Network:
    net = pk.Network("back")
    net.source("point", pk.connection_point(place)).aggregate({"n": "count(*)"}, size=4, by="device").output("windows")
    return net


def test_marks_of_merged_batches_are_one_file_and_what_nobody_needs_leaves_after_the_grace(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "FAN", 2)
    run = Runner(lambda: network(place, grace="1 hour"), tmp_path / "run", 1)
    for _ in range(10):
        run.step()
    staged = group_files(place)
    assert len(staged) == 10
    run.tend(Horizon())
    index = newest_index(Folder(place), 1 << 30)
    # All batches are in one data file, so marks are stated behind it and nowhere else.
    assert [(kept.batch, len(kept.files)) for kept in index.marks] == [(9, 1)]
    assert sorted(index.left) == staged, "readers that are behind may still ask for them"
    reader = read_back(place)
    assert said_of(reader) == [{"device": "a", "ts": 16}, {"device": "b", "ts": 67}]
    monkeypatch.setattr(point_target.time, "time_ns", lambda: BEHIND_THE_GRACE)
    run.tend(Horizon())
    assert len(group_files(place)) == 1
    assert said_of(reader) == [{"device": "a", "ts": 16}, {"device": "b", "ts": 67}]
    run.catch_up()
    run.close()


def test_who_comes_when_old_rows_have_left_still_hears_of_their_groups(place: str, tmp_path: Path) -> None:
    run = Runner(lambda: network(place), tmp_path / "run", 2)
    for _ in range(10):
        run.step()
    before = said_of(read_back(place))
    run.tend(Horizon(rows=1))
    run.tend(Horizon(rows=1))
    assert said_of(read_back(place)) == before
    assert len(newest_index(Folder(place), 1 << 30).marks) <= 2
    run.close()


def test_joint_marks_outlive_their_commits(place: str, tmp_path: Path) -> None:
    def pairs() -> pk.Network:
        net = pk.Network("pairs")
        sides = [
            net.source(name, pk.memory([(t, "x") for t in range(12)], schema={"ts": "int64", "k": "string"}, train=1))
            for name in ("a", "b")
        ]
        sides[0].join(sides[1], "l.k = r.k", on="ts", size=2).connection_point("point", path=place)
        return net

    run = Runner(pairs, tmp_path / "run", 1)
    for _ in range(6):
        run.step()
    run.tend(Horizon())
    with_commits = joint_marks(place)
    log = Path(place, "_delta_log")
    deltalake.DeltaTable(place).create_checkpoint()
    for commit in sorted(log.glob("0*.json"))[:-1]:
        commit.unlink()
    assert joint_marks(place) == with_commits
    assert with_commits[-1] == ({"l_ts": 4}, {"r_ts": 4})
    run.close()


def joint_marks(place: str) -> list[tuple[Any, Any]]:
    """What an input states jointly, row by row."""
    point = pk.connection_point(place)
    schema = point.schema()
    assert schema is not None
    feed, found = point.open(schema, MemoryJournal()), []
    at = feed.start()
    while (step := feed.advance(at, Limit(1))).position != at:
        found += [
            s.stated.joint for s in feed.splits(at, step.position) if isinstance(s, DeltaSplit) and s.path is None
        ]
        at = step.position
        if step.ended:
            break
    return [joint for joint in found if any(joint)][:-1]


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ({"falling": {"ts": "9"}}, "'9' is no tick"),
        ({"joint": [{"ts": 1}]}, "not enough values"),
        ({"groups": {"on": "ts", "by": [], "files": []}}, "groups of nothing"),
        ({"groups": {"on": "ts", "by": ["device"], "files": [["../../secret.parquet", 3]]}}, "is no file of marks"),
        ({"format": 9}, "format 9"),
    ],
)
def test_damaged_punctuation_in_a_commit_is_refused(place: str, damage: dict[str, Any], found: str) -> None:
    network(place).run("local")
    log = sorted(Path(place, "_delta_log").glob("*.json"))[-1]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"][KEY] = json.dumps({**json.loads(line["commitInfo"][KEY]), **damage})
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(WorldError, match=r"the punctuation in version .* is damaged") as error:
        read_back(place).run("local")
    assert found in str(error.value)


def test_damaged_or_missing_marks_of_groups_are_refused(place: str) -> None:
    network(place).run("local")
    name = group_files(place)[-1]
    Path(place, MARKS_FOLDER, name).write_bytes(b"nothing")
    with pytest.raises(WorldError, match=r"_marks/part-.* is damaged"):
        read_back(place).run("local")
    Path(place, MARKS_FOLDER, name).unlink()
    with pytest.raises(WorldError, match=r"_marks/part-.* is gone"):
        read_back(place).run("local")
