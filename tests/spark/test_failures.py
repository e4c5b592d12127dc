"""What people read when the world around Spark breaks: a full disk, a folder without rights, processes that died."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.spark.failures import explanation

PLAN = (
    "\n=== Streaming Query ===\nIdentifier: [id = 1, runId = 2]\nCurrent Committed Offsets: {}\n\nLogical Plan:\n"
    "~WriteToMicroBatchDataSourceV1 ForeachBatchSink\n+- ~MapInArrow StageTask(bucket#0)\n"
)
PROXY = (
    "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
    '  File "clientserver.py", line 644, in _call_proxy\n    return_value = getattr(self.pool[obj_id])\n'
    "py4j.protocol.Py4JJavaError: An error occurred while calling o696.getResult.\n"
    ": org.apache.spark.SparkException: Exception thrown in awaitResult: \n"
    "\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)\n"
    "Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 2.0 failed 1 times,"
    " most recent failure: Lost task 0.0 in stage 2.0 (TID 3) (192.0.2.2 executor driver): {cause}\n"
    "\t... 36 more\nCaused by: {cause}\n\tat java.base/java.io.BufferedInputStream.getBufIfOpen()\n"
)
TEXTS = {
    "/runs/a/spark/commits/.0.tmp (Read-only file system)": (
        "Spark cannot write to /runs/a/spark/commits/.0.tmp",
        "make the folder writable for the user who runs Spark, then start the run again",
    ),
    "java.nio.file.AccessDeniedException: /runs/a/spark/offsets/3": (
        "Spark cannot write to /runs/a/spark/offsets/3",
        "make the folder writable",
    ),
    "java.io.IOException: No space left on device": (
        "no space is left on a disk that the run writes to",
        "make room there, then start the run again: it goes on from its checkpoint",
    ),
    "Checksum error: file:/runs/a/spark/commits/0 at 0 exp: -215302179 got: -119465969": (
        "Spark's own log in the checkpoint cannot be read: /runs/a/spark/commits/0",
        "bring the whole checkpoint back from a copy, or start with a new one",
    ),
    "java.lang.IllegalStateException: Incomplete log file in /runs/a/spark/offsets/7": (
        "Spark's own log in the checkpoint cannot be read: /runs/a/spark/offsets/7",
        "bring the whole checkpoint back",
    ),
    "Broken pipe": ("a Python process of Spark has died", "dmesg says so"),
    "java.io.IOException: Stream closed": ("a Python process of Spark has died", "take smaller trains (train_bytes=)"),
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)": (
        "a Python process of Spark has died",
        "start the run again",
    ),
    "java.lang.OutOfMemoryError: Java heap space": ("Spark's JVM has no memory left", "--driver-memory 4g"),
}


def _meaning(text: str) -> pk.PenstockError:
    return explanation(RuntimeError(text), "n", "/runs/a", None)


@pytest.mark.parametrize("inside", [False, True], ids=["in the JVM", "in a task"])
@pytest.mark.parametrize("said", TEXTS)
def test_what_spark_says_of_the_world_is_told_in_plain_words(said: str, inside: bool) -> None:
    meant = _meaning((PROXY.replace("{cause}", said) if inside else said) + PLAN)
    what, hint = TEXTS[said]
    assert isinstance(meant, pk.WorldError)
    assert meant.network == "n"
    assert meant.what == what
    assert hint in str(meant.hint)
    for noise in ("Logical Plan", "Streaming Query", "\tat ", "Traceback", "py4j"):
        assert noise not in str(meant)


def test_what_spark_says_of_itself_is_a_bug_without_its_plan() -> None:
    meant = _meaning(PROXY.replace("{cause}", "java.lang.NullPointerException: x is null") + PLAN)
    assert isinstance(meant, pk.InternalError)
    assert meant.what == "Spark ended the run: x is null"
    assert "NullPointerException" in str(meant.found)
    assert "Logical Plan" not in str(meant)


# For real


def _network(data: Path, *, follow: bool = True) -> pk.Network:
    net = pk.Network("following")
    events = net.source("events", pk.files(str(data), follow=follow), schema={"ts": "int64", "k": "string"})
    events.aggregate({"n": "count(*)"}, on="ts", size=10, by=["k"]).output("counts")
    return net


def _write(data: Path, name: str, rows: list[tuple[int, str]]) -> None:
    pq.write_table(pa.table({"ts": [ts for ts, _ in rows], "k": [k for _, k in rows]}), data / f".{name}")
    (data / f".{name}").rename(data / f"{name}.parquet")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB of its own."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.decode()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
@pytest.mark.parametrize("broken", ["full", "read-only"])
def test_a_disk_that_fails_under_a_run_is_named_and_the_run_goes_on_when_it_is_mended(
    broken: str, small_disk: Path, data: Path
) -> None:
    checkpoint = str(small_disk / "checkpoint")
    _write(data, "a", [(1, "x"), (12, "y")])
    run = _network(data).start(checkpoint=checkpoint)
    run.wait_for(lambda record: record.batch == 0)
    _until(lambda: (small_disk / "checkpoint/spark/commits/0").exists())
    ballast = small_disk / "ballast"
    if broken == "full":
        with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
    else:
        subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    _write(data, "b", [(30, "x")])
    with pytest.raises(pk.WorldError) as failure:
        run.wait(60)
    text = str(failure.value)
    assert str(small_disk) in text
    assert {"full": "No space left on device", "read-only": "Read-only file system"}[broken] in text
    assert "to do: " in text
    assert "Logical Plan" not in text
    if broken == "full":
        ballast.unlink()
    else:
        subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    again = _network(data).start(checkpoint=checkpoint)
    again.wait_for(lambda record: record.inputs["events"].taken == 3)
    assert sorted(row["ts"] for row in again.stop()["counts"].to_pylist()) == [0, 10]


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
def test_logs_of_spark_that_are_broken_are_made_anew(data: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    _write(data, "a", [(1, "x"), (12, "y")])
    first = _network(data, follow=False).run(checkpoint=str(checkpoint))
    for name in ("metadata", "commits/0", "offsets/0"):
        (checkpoint / "spark" / name).write_text("broken")
    again = _network(data, follow=False).run(checkpoint=str(checkpoint))
    assert again["counts"].equals(first["counts"])
    assert again.record().batch == first.record().batch


def _workers() -> list[psutil.Process]:
    """The Python processes that this process's Spark has forked to run tasks."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            parent = process.parent()
            if parent is not None and "-m penstock.spark.daemon" in " ".join(parent.cmdline()):
                found.append(process)
    return found


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
def test_workers_that_are_killed_end_the_run_with_a_plain_word(tmp_path: Path) -> None:
    net = pk.Network("long")
    rows = [(at, f"k{at}") for at in range(300)]
    events = net.source("events", pk.memory(rows, schema={"ts": "int64", "k": "string"}, train=1))
    events.aggregate({"n": "count(*)"}, on="ts", size=10, by=["k"]).output("counts")
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.02):
            for worker in _workers():
                with contextlib.suppress(psutil.Error):
                    worker.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with pytest.raises(pk.WorldError, match="a Python process of Spark has died") as failure:
            net.run(checkpoint=str(tmp_path / "checkpoint"), way="exchange")  # small batches need no workers
    finally:
        over.set()
        killer.join()
    assert "start the run again: it goes on from its checkpoint" in str(failure.value)
    assert "Logical Plan" not in str(failure.value)


JVM = """
import contextlib, sys, psutil
import penstock as pk

def network():
    net = pk.Network("orphan")
    rows = [(at, "k") for at in range(40)]
    events = net.source("events", pk.memory(rows, schema={{"ts": "int64", "k": "string"}}, train=20))
    events.aggregate({{"n": "count(*)"}}, on="ts", size=10).output("counts")
    return net

def kill(record):
    if record.batch == 0:
        for process in psutil.Process().children(recursive=True):
            # Not waited for: how it ended is for the run to find out.
            with contextlib.suppress(psutil.Error):
                if process.name() == "java":
                    process.kill()

try:
    network().run(checkpoint={checkpoint!r}, on_batch=kill)
except pk.WorldError as error:
    print("ERROR", error, flush=True)
print("RESULT", network().run(checkpoint={checkpoint!r})["counts"].to_pylist(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_jvm_that_is_killed_is_named_and_the_next_run_starts_another(tmp_path: Path) -> None:
    script = tmp_path / "app.py"
    script.write_text(JVM.format(checkpoint=str(tmp_path / "checkpoint")))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200, check=False)
    assert "ERROR network 'orphan': Spark's JVM has died\n  found: it was killed by signal 9\n" in done.stdout, (
        done.stderr
    )
    assert "start the run again: it goes on from its checkpoint" in done.stdout
    assert [f"'ts': {ts}, 'n': 10" in done.stdout for ts in (0, 10, 20, 30)] == [True] * 4


def _until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
