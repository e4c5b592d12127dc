"""What Spark executes in the place of Python on this machine: it has processes that plan queries forked, not started.

```
 Spark ──starts──> fork_client ──asks──> fork_server ──forks──> the process that plans
                        └──────── waits until it has ended ───────────┘
```

Everything else that Spark wants of Python, and this too if nobody answers, is done by Python itself. Whoever starts
this module waits for it, so it loads nothing but what it needs. A process that plans has others forked that read
histories ahead (`reading_process.py`).
"""

from __future__ import annotations

import json
import os
import socket
import sys

RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"
LENGTH_BYTES = 4
STANDARD_FILES = (0, 1, 2)
FORKED = b"+"
PLAN, READ = "plan", "read"
"""What a fork does."""
PLACE = "PENSTOCK_FORKS"
"""The variable that tells a fork where others are forked."""


def main(python: str, place: str, *arguments: str) -> None:
    if arguments == ("-m", RUNNER) and _forked(place):
        return
    os.execv(python, [python, *arguments])


def _forked(place: str) -> bool:
    """Whether a process was forked for us; it has ended then."""
    server = fork(place, PLAN, STANDARD_FILES)
    if server is None:
        return False
    with server:
        while server.recv(1):
            pass
    return True


def fork(place: str, task: str, files: tuple[int, int, int]) -> socket.socket | None:
    """Have a process forked with these standard files. It ends when the socket is closed, and the socket when it
    ends; None if nobody answers."""
    wanted = json.dumps({"task": task, "folder": os.getcwd(), "variables": dict(os.environ)}).encode()
    server = socket.socket(socket.AF_UNIX)
    try:
        server.connect(place)
        socket.send_fds(server, [len(wanted).to_bytes(LENGTH_BYTES)], files)
        server.sendall(wanted)
        if server.recv(1) == FORKED:
            return server
    except OSError:
        pass
    server.close()
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
