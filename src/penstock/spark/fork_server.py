"""The process from which those that plan queries are forked, with everything loaded that they need.

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
from typing import Final

from penstock.spark.fork_client import FORKED, LENGTH_BYTES, RUNNER, STANDARD_FILES

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


def main(listening: int) -> None:
    """Fork a process for every client, until the driver is gone."""
    for module in _LOADED:
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(fileno=listening) as listener:
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            client, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _plan(client)
            client.close()


def _plan(client: socket.socket) -> None:
    """In a fork: become the process that Spark has asked for, and end with it."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _move(client)
        client.sendall(FORKED)
        threading.Thread(target=_end_with, args=(client,), daemon=True).start()
        code = _run()
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _move(client: socket.socket) -> None:
    """Take over the files, the folder, the environment and the path of the client."""
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


def _end_with(client: socket.socket) -> None:
    client.recv(1)
    os._exit(1)


def _run() -> int:
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
