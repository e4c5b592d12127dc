"""The process from which those that plan queries, or read ahead for them, are forked, with what they need loaded.

Spark starts a Python process for every query that plans its batches, and does not fork it as it does with workers. To
load pyspark, Arrow and Penstock takes it longer than a small query runs. So the driver has one process load them,
beside the start of the JVM, and `fork_client` has it fork the others. Nothing may be opened or started before a fork.

The server ends when the driver closes its standard input, also by dying. A fork ends with the query, as the process
that Spark would have started: when Spark closes its connection, or ends the client.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterable
from typing import Final

from penstock.spark.fork_client import FORKED, LENGTH_BYTES, PLACE, READ, RUNNER, STANDARD_FILES

_LOADED: Final = (
    RUNNER,
    "penstock.spark.source",
    "penstock.runtime.planner",
    "penstock.connectors.files.declaration",
    "penstock.connectors.generator.packets",
    "penstock.connectors.memory",
    "penstock.connectors.targets.part_files",
    "penstock.boxes.aggregate.box",
    "penstock.boxes.filter.box",
    "penstock.boxes.map.box",
    "penstock.boxes.join.box",
    "penstock.boxes.union.box",
    "pandas",  # Arrow loads it as soon as it is given a list
)

_LOADED_LATER: Final = (
    "penstock.runtime.reading_ahead",
    "penstock.connectors.points.point_history",
    "penstock.boxes.aggregate.dense_groups",
    "penstock.boxes.aggregate.entry",
    "deltalake",
    "duckdb",
)
"""What those need who read histories: nobody has one before a run has gone on for a while."""
_IDLE_SECONDS: Final = 5.0


def main(listening: int) -> None:
    """Fork a process for every client, until the driver is gone."""
    _load(_LOADED)
    patience: float | None = _IDLE_SECONDS
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(fileno=listening) as listener:
        place = listener.getsockname()
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [], patience)
            if sys.stdin in ready:
                return
            if not ready:
                _load(_LOADED_LATER)
                patience = None
                continue
            client, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _become(client, place)
            client.close()


def _load(modules: Iterable[str]) -> None:
    for module in modules:
        importlib.import_module(module)


def _become(client: socket.socket, place: str) -> None:
    """In a fork: become the process that was asked for, and end with it."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        task = _move(client)
        os.environ[PLACE] = place
        client.sendall(FORKED)
        threading.Thread(target=_end_with, args=(client,), daemon=True).start()
        code = _read() if task == READ else _plan()
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _move(client: socket.socket) -> str:
    """Take over the files, the folder, the environment and the path of the client; what it wants to be done."""
    head, files, _, _ = socket.recv_fds(client, LENGTH_BYTES, len(STANDARD_FILES))
    with client.makefile("rb") as reader:
        wanted = json.loads(reader.read(int.from_bytes(head)))
    for file, number in zip(files, STANDARD_FILES, strict=True):
        os.dup2(file, number)
        os.close(file)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["variables"])
    path = [wanted["folder"], *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    sys.path[:] = dict.fromkeys([*filter(None, path), *sys.path])
    importlib.invalidate_caches()
    return str(wanted["task"])


def _end_with(client: socket.socket) -> None:
    client.recv(1)
    os._exit(1)


def _read() -> int:
    from penstock.spark.reading_process import serve

    serve()
    return 0


def _plan() -> int:
    """What pyspark's module does when it is started."""
    from pyspark.sql.streaming.python_streaming_source_runner import main as plan
    from pyspark.worker_util import get_sock_file_to_executor

    try:
        with get_sock_file_to_executor(timeout=None) as connection:
            plan(connection, connection)
    except SystemExit as ended:
        return 0 if ended.code is None else 1
    return 0


if __name__ == "__main__":
    main(int(sys.argv[1]))
