"""The process of one run, or of several in turn: `python -m penstock_bench.worker '<jobs as JSON>'`.

It tells the parent what it is doing in lines of JSON on its standard output, which nothing else in the process may
write to: engines that print are sent to standard error. When the parent goes away, so does the worker.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from penstock_bench.catalog import find
from penstock_bench.contract import Job, Size


def encode(jobs: Sequence[Job]) -> str:
    """Jobs as the worker's one argument."""
    return json.dumps([asdict(job) for job in jobs], default=str)


def decode(text: str) -> list[Job]:
    return [
        Job(spec["bench"], spec["peer"], Size(**spec["size"]), Path(spec["data"]), Path(spec["scratch"]))
        for spec in json.loads(text)
    ]


class Announcer:
    """The clock of a run, told to the parent. Time is taken here, where the query runs."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._started = 0.0

    def stage(self, name: str) -> None:
        self.say(stage=name)

    def start(self) -> None:
        self.say(stage="timed", timed=True)
        self._started = time.perf_counter()

    def stop(self) -> None:
        self.say(stage="closing", seconds=time.perf_counter() - self._started)

    def say(self, **event: Any) -> None:
        self._out.write(json.dumps(event) + "\n")
        self._out.flush()


def main(argument: str) -> None:
    announcer = Announcer(os.fdopen(os.dup(sys.stdout.fileno()), "w"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    for job in decode(argument):
        # The detail is the last that is heard of a run: what follows is about the next.
        announcer.say(detail=find(job.bench).work(job, announcer))


def _leave_with_parent() -> None:
    # The parent holds the other end and never writes: end of file means that it is gone, however it went.
    # Unbuffered, because a buffered reader may not be left waiting when the interpreter shuts down.
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
