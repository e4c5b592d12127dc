"""The Spark session that Penstock runs in: embedded and tuned by default, or the one that is there."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Final

from pyspark.sql import SparkSession

DEFAULT_MASTER: Final = "local[*]"

# What a micro-batch costs before any data is processed was measured with `penstock bench floor`.
_SETTINGS: Final = {
    "spark.app.name": "penstock",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    # Unix sockets to the Python workers save a third of a small batch compared with TCP on loopback.
    "spark.python.unix.domain.socket.enabled": "true",
    # Spark's log writes fork `chmod` on a local disk; vfork makes that cheap.
    "spark.driver.extraJavaOptions": "-Djdk.lang.Process.launchMechanism=VFORK",
    "spark.shuffle.compress": "false",
}
# On one machine nobody else needs to reach the driver; on a cluster the workers do.
_LOCAL_SETTINGS: Final = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
_QUERY_SETTINGS: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.pollingDelay": "5ms",
    "spark.sql.streaming.numRecentProgressUpdates": "100",
}


def get_session(master: str | None = None) -> SparkSession:
    """The active session, or a new embedded one on `master`."""
    active = SparkSession.getActiveSession() or _default_session()
    if active is None:
        # Workers must run the interpreter and the packages of the driver.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        chosen = master or os.environ.get("PENSTOCK_MASTER") or DEFAULT_MASTER
        builder = SparkSession.builder.master(chosen)
        local = _LOCAL_SETTINGS if chosen.startswith("local") else {}
        for key, value in {**_SETTINGS, **local, **_QUERY_SETTINGS}.items():
            builder = builder.config(key, value)
        with _jvm_messages_to_file():
            active = builder.getOrCreate()
        active.sparkContext.setLogLevel("OFF")
    for key, value in _QUERY_SETTINGS.items():
        active.conf.set(key, value)
    return active


def parallelism(master: str | None = None) -> int:
    """How many tasks the session runs at a time."""
    return max(1, int(get_session(master).sparkContext.defaultParallelism))


@contextlib.contextmanager
def _jvm_messages_to_file() -> Iterator[None]:
    """The JVM inherits our standard error: what Spark says there goes to a file, which is shown if the start fails."""
    sys.stderr.flush()
    terminal = os.dup(2)
    log = tempfile.NamedTemporaryFile(prefix="penstock-spark-", suffix=".log", delete=False)  # noqa: SIM115
    os.dup2(log.fileno(), 2)
    try:
        yield
    except BaseException:
        os.dup2(terminal, 2)
        with open(log.name, errors="replace") as messages:
            sys.stderr.write(messages.read())
        raise
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
        log.close()


def _default_session() -> SparkSession | None:
    session: SparkSession | None = SparkSession._instantiatedSession
    if session is None or session.sparkContext._jsc is None:
        return None
    return session
