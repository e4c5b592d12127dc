"""What Spark executes in the place of Python on this machine: it has processes that plan queries forked, not started.

```
 Spark ──starts──> fork_client ──asks──> fork_server ──forks──> the process that plans
                        └──────── waits until it has ended ───────────┘
```

Everything else that Spark wants of Python, and this too if nobody answers, is done by Python itself. Whoever starts
this module waits for it, so it loads nothing but what it needs.
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


def main(python: str, place: str, *arguments: str) -> None:
    if arguments == ("-m", RUNNER) and _forked(place):
        return
    os.execv(python, [python, *arguments])


def _forked(place: str) -> bool:
    """Whether a process was forked for us; it has ended then."""
    surroundings = json.dumps({"folder": os.getcwd(), "variables": dict(os.environ)}).encode()
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(place)
            socket.send_fds(server, [len(surroundings).to_bytes(LENGTH_BYTES)], STANDARD_FILES)
            server.sendall(surroundings)
            forked = server.recv(1) == FORKED
        except OSError:
            return False
        while forked and server.recv(1):
            pass
        return forked


if __name__ == "__main__":
    main(*sys.argv[1:])
