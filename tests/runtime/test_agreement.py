"""The pieces of a checkpoint and its outputs agree, or are made to by doing batches again, or the run refuses."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.errors import WorldError
from penstock.plan.compile import compile_network
from penstock.runtime.board import Board
from penstock.runtime.local import LocalExecutor
from penstock.runtime.offsets import intake_offset
from penstock.runtime.opening import open_job
from penstock.runtime.settings import Settings
from penstock.runtime.spark_log import SparkLog, hadoop_checksum
from penstock.storage.folder import Folder

ROWS = [(at, at % 3) for at in range(60)]


def network(out: Path, target: str = "parquet", train: int = 6) -> pk.Network:
    net = pk.Network("pieces")
    source = net.source("in", pk.memory(ROWS, schema={"ts": "int64", "k": "int64"}, train=train), progress=pk.ordered())
    counts = source.aggregate({"n": "count(*)"}, on="ts", size=4, by=["k"])
    counts.output("kept")
    targets: dict[str, Callable[[str], Any]] = {"parquet": pk.parquet, "delta": pk.delta, "jsonl": pk.jsonl}
    counts.output("out", to=targets[target](str(out)))
    return net


def run_batches(net: pk.Network, checkpoint: Path, batches: int) -> None:
    job = open_job(compile_network(net.network), Settings(buckets=2), Folder(str(checkpoint)), cores=2)
    executor = LocalExecutor(job)
    try:
        for _ in range(batches):
            assert executor.step() is not None
    finally:
        executor.close()


def finish(net: pk.Network, checkpoint: Path) -> pk.Result:
    return net.run(engine="local", checkpoint=str(checkpoint), buckets=2)


def counted(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((row["ts"], row["k"], row["n"]) for row in rows)


@pytest.fixture
def expected(tmp_path: Path) -> list[tuple[Any, ...]]:
    return counted(network(tmp_path / "calm").run(engine="local")["kept"].to_pylist())


def parts(out: Path) -> list[dict[str, Any]]:
    return [row for file in sorted(out.glob("part-*.parquet")) for row in pq.read_table(file).to_pylist()]


def flip(file: Path, at: int | None = None) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2 if at is None else at] ^= 1
    file.write_bytes(content)


def newest(folder: Path, pattern: str) -> Path:
    return sorted(folder.glob(pattern))[-1]


DAMAGE: dict[str, Callable[[Path], None]] = {
    "a flipped bit in the newest state": lambda c: flip(newest(c / "state/1/0", "*.state")),
    "a newest state that is empty": lambda c: newest(c / "state/1/1", "*.state").write_bytes(b""),
    "a newest state that is gone": lambda c: newest(c / "state/1/0", "*.state").unlink(),
    "a flipped bit in the newest record": lambda c: flip(newest(c / "board", "*.json")),
    "a newest record that is gone": lambda c: newest(c / "board", "*.json").unlink(),
    "an empty unit of results": lambda c: newest(c / "outlet/kept", "kept-*.json").write_bytes(b""),
    "a flipped bit in a part": lambda c: flip(newest(c / "outlet/kept", "part-*.arrow")),
    "two states that are gone": lambda c: [f.unlink() for f in sorted((c / "state/1/0").glob("*.state"))[-2:]] and None,
    "a lease that is empty": lambda c: (c / "lease.json").write_bytes(b"") and None,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_replay_can_repair_is_repaired(
    damage: str, tmp_path: Path, expected: list[tuple[Any, ...]], caplog: pytest.LogCaptureFixture
) -> None:
    net, checkpoint = network(tmp_path / "out"), tmp_path / "checkpoint"
    run_batches(net, checkpoint, 5)
    DAMAGE[damage](checkpoint)
    result = finish(net, checkpoint)
    assert counted(result["kept"].to_pylist()) == expected
    assert counted(parts(tmp_path / "out")) == expected
    assert result.record().inputs["in"].taken == len(ROWS)
    silent = damage in ("a newest record that is gone", "a lease that is empty")
    assert ("goes back to" in caplog.text) is not silent


def test_batches_done_again_are_done_as_they_were_planned(tmp_path: Path, expected: list[tuple[Any, ...]]) -> None:
    """Going back three batches with other trains: what shows outside was cut in the old way."""
    checkpoint = tmp_path / "checkpoint"
    run_batches(network(tmp_path / "out"), checkpoint, 5)
    for file in sorted((checkpoint / "state/1/0").glob("*.state"))[-2:]:
        file.write_bytes(b"")
    finish(network(tmp_path / "out", train=9), checkpoint)
    assert counted(parts(tmp_path / "out")) == expected


@pytest.mark.parametrize("target", ["parquet", "delta"])
def test_an_output_that_was_deleted_is_not_begun_anew(target: str, tmp_path: Path) -> None:
    net, out = network(tmp_path / "out", target), tmp_path / "out"
    run_batches(net, tmp_path / "checkpoint", 5)
    shutil.rmtree(out)
    with pytest.raises(WorldError, match=r"'out'.*: its output was deleted, or is older"):
        finish(net, tmp_path / "checkpoint")
    assert not list(out.glob("part-*"))


def test_an_older_checkpoint_over_a_newer_delta_table_is_refused(tmp_path: Path) -> None:
    checkpoint, copy = tmp_path / "checkpoint", tmp_path / "copy"
    run_batches(network(tmp_path / "out", "delta"), checkpoint, 3)
    shutil.copytree(checkpoint, copy)
    run_batches(network(tmp_path / "out", "delta"), checkpoint, 4)
    rows = deltalake.DeltaTable(str(tmp_path / "out")).to_pyarrow_table().num_rows
    with pytest.raises(WorldError, match=r"its output is ahead of it(.|\n)*batch 6 is the last of this run there"):
        finish(network(tmp_path / "out", "delta", train=10), copy)
    assert deltalake.DeltaTable(str(tmp_path / "out")).to_pyarrow_table().num_rows == rows


def test_files_that_were_taken_away_from_an_output_are_no_harm(tmp_path: Path, expected: list[tuple[Any, ...]]) -> None:
    net, out = network(tmp_path / "out"), tmp_path / "out"
    run_batches(net, tmp_path / "checkpoint", 5)
    taken = parts(out)
    for file in out.glob("part-*.parquet"):
        file.unlink()
    finish(net, tmp_path / "checkpoint")
    assert counted(taken + parts(out)) == expected


def test_an_output_may_be_sent_elsewhere(tmp_path: Path, expected: list[tuple[Any, ...]]) -> None:
    run_batches(network(tmp_path / "out"), tmp_path / "checkpoint", 5)
    run_batches(network(tmp_path / "other"), tmp_path / "checkpoint", 2)
    finish(network(tmp_path / "other"), tmp_path / "checkpoint")
    assert counted(parts(tmp_path / "out") + parts(tmp_path / "other")) == expected


def test_a_checkpoint_of_which_nothing_is_whole_is_refused(tmp_path: Path) -> None:
    net, checkpoint = network(tmp_path / "out", train=2), tmp_path / "checkpoint"
    run_batches(net, checkpoint, 25)
    for file in (checkpoint / "state/1/0").glob("*.state"):
        file.write_bytes(b"")
    with pytest.raises(WorldError, match=r"none of its last batches is whole(.|\n)*\.state is damaged"):
        finish(net, checkpoint)


@pytest.mark.parametrize("name", ["network.json", "outlet/out/writer.json", "outlet/kept/writer.json"])
@pytest.mark.parametrize("damage", ["empty", "half", "flipped"])
def test_a_damaged_file_is_named_with_what_to_do(name: str, damage: str, tmp_path: Path) -> None:
    net, checkpoint = network(tmp_path / "out"), tmp_path / "checkpoint"
    run_batches(net, checkpoint, 2)
    file = checkpoint / name
    content = file.read_bytes()
    flipped = bytes([content[0] ^ 1]) + content[1:]
    file.write_bytes({"empty": b"", "half": content[: len(content) // 2], "flipped": flipped}[damage])
    with pytest.raises(WorldError, match=rf"{file.name} is damaged(.|\n)*to do: ") as error:
        finish(net, checkpoint)
    assert str(file) in str(error.value)


def test_a_checkpoint_of_the_other_engine_is_refused(tmp_path: Path) -> None:
    board = Board(Folder(str(tmp_path / "board")), 1)
    board.keep_plan(0, '{"inputs": {}}')
    with pytest.raises(pk.QueryError, match="was made by the local engine"):
        SparkLog(Folder(str(tmp_path / "spark"))).follow(board)


# Spark's own logs


def offset(batch: int) -> str:
    return f'v1\n{{"batchWatermarkMs":0}}\n{{"inputs": {{}}, "now": {batch}}}'


@pytest.fixture
def logs(tmp_path: Path) -> tuple[Path, SparkLog, Board]:
    """Three batches that are done, and one that Spark has begun."""
    from penstock.runtime.board import Record

    spark, board = tmp_path / "spark", Board(Folder(str(tmp_path / "board")), 1)
    for batch in range(4):
        for name, text in (("offsets", offset(batch)), ("commits", 'v1\n{"nextBatchWatermarkMs":0}')):
            if batch < 3 or name == "offsets":
                (spark / name).mkdir(parents=True, exist_ok=True)
                (spark / name / str(batch)).write_text(text)
                (spark / name / f".{batch}.crc").write_bytes(hadoop_checksum(text.encode()))
        if batch < 3:
            board.post(Record(batch, offset=offset(batch)))
    return spark, SparkLog(Folder(str(spark))), board


def test_logs_that_are_right_stay(logs: tuple[Path, SparkLog, Board]) -> None:
    spark, log, board = logs
    log.follow(board)
    assert [log.offset(batch) for batch in (2, 3)] == [offset(2), offset(3)]
    assert (log.planned(), log.committed()) == (3, 2)
    assert (spark / "offsets" / ".3.crc").exists(), "it still tells if the offset is damaged"


@pytest.mark.parametrize("left", [b"", b"v1\n", b'v1\n{}\n{"inp', b"\0\0\0\0", None])
def test_an_offset_that_is_lost_is_taken_from_the_board(left: bytes | None, logs: tuple[Path, SparkLog, Board]) -> None:
    spark, log, board = logs
    (spark / "offsets" / "2").unlink()
    if left is not None:
        (spark / "offsets" / "2").write_bytes(left)
    log.follow(board)
    assert log.offset(2) == offset(2)


def test_an_offset_of_a_batch_that_never_showed_is_planned_anew_if_it_is_damaged(
    logs: tuple[Path, SparkLog, Board],
) -> None:
    spark, log, board = logs
    flip(spark / "offsets" / "3")
    log.follow(board)
    assert (log.planned(), log.offset(3)) == (2, None)


def test_an_offset_without_a_checksum_names_no_version(logs: tuple[Path, SparkLog, Board]) -> None:
    spark, log, _ = logs
    text = offset(3).replace('"now"', '"format": 2, "version": 7, "shards": {}, "tasks": 1, "now"')
    (spark / "offsets" / "3").write_text(text)
    (spark / "offsets" / ".3.crc").write_bytes(hadoop_checksum(text.encode()))
    assert log.versions() == {7}
    (spark / "offsets" / ".3.crc").unlink()
    assert log.versions() == set()


@pytest.mark.parametrize(
    "text",
    [
        '{"format": 2, "inputs": {"in": {"position": {}, "Ended": false}}, "shards": {}, "tasks": 1}',
        '{"format": 2, "inputs": [], "shards": {}, "tasks": 1}',
        '{"format": 2, "inputs": {}, "tasks": 1}',
        '{"format": 2, "inputs": {}, "shards": {}, "tasks": 1, "said": [["open"]]}',
    ],
)
def test_an_offset_of_another_form_is_damaged(text: str) -> None:
    with pytest.raises(WorldError, match="an offset is damaged"):
        intake_offset(text)


def test_an_offset_of_a_batch_that_may_have_shown_is_what_the_board_says(logs: tuple[Path, SparkLog, Board]) -> None:
    _, log, board = logs
    board.post_offset(3, offset(33))
    log.follow(board)
    assert log.offset(3) == offset(33)


@pytest.mark.parametrize("left", [b"", b"v1", None])
def test_a_commit_that_is_lost_is_made_anew(left: bytes | None, logs: tuple[Path, SparkLog, Board]) -> None:
    spark, log, board = logs
    (spark / "commits" / "2").unlink()
    if left is not None:
        (spark / "commits" / "2").write_bytes(left)
    log.follow(board)
    assert log.committed() == 2
    assert (spark / "commits" / "2").read_text() == 'v1\n{"nextBatchWatermarkMs":0}'


def test_what_spark_has_committed_but_the_board_has_not_is_done_again(logs: tuple[Path, SparkLog, Board]) -> None:
    _, log, board = logs
    board.forget_after(1)
    log.follow(board)
    assert (log.planned(), log.committed()) == (2, 1)


def test_a_name_of_the_query_that_is_damaged_is_drawn_again(logs: tuple[Path, SparkLog, Board]) -> None:
    spark, log, board = logs
    for prepare in ((spark / "metadata").unlink, lambda: (spark / "metadata").write_bytes(b"")):
        (spark / "metadata").touch()
        prepare()
        log.follow(board)
        assert uuid.UUID(json.loads((spark / "metadata").read_text())["id"])
