"""The processes that read long histories ahead, beside a run, and how its planner orders pieces from them.

```
 planner ──order: ticket, splits, path──> reading process, lowest priority ──> rows in a file
         <──────────done: rows, bytes─────┘
```

They are on the driver's machine, as the planner is, and get what the machine has left over: nobody waits for them but
the query that has a history to read. They end when the planner closes their standard input, also by dying. What the
planner tells them is pickled, and comes by a pipe that only it holds; what they answer is JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Final

from pyspark import cloudpickle

from penstock.runtime.history_pieces import Done
from penstock.spark.fork_client import PLACE, READ, STANDARD_FILES, fork

if TYPE_CHECKING:
    from penstock.connectors.connector import Split
    from penstock.spark.carrier import JobTicket

_LENGTH_BYTES: Final = 8
_LOWEST_PRIORITY: Final = 19
_STDIN, _STDOUT, _STDERR = STANDARD_FILES


class ReadingProcesses:
    """Reads pieces in as many processes as the share has cores. They start with the first order, and end when there is
    nothing to read."""

    def __init__(self, folder: str, tickets: Callable[[int], JobTicket]) -> None:
        self._folder = os.path.join(folder, "ahead")
        self._tickets = tickets
        self._processes: list[_Process] = []
        self._readers: dict[int, _Process] = {}
        """Who reads a piece."""

    def order(self, number: int, version: int, splits: Sequence[tuple[str, Split]], share: float) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        while len(self._processes) < max(1, int(share * (os.cpu_count() or 1))):
            self._processes.append(_Process())
        reader = self._readers[number] = self._processes[number % len(self._processes)]
        reader.order(number, cloudpickle.dumps((number, self._tickets(version), list(splits), self.path(number))))

    def done(self, number: int) -> Done | None:
        return self._readers[number].done(number)

    def path(self, number: int) -> str:
        return os.path.join(self._folder, str(number))

    def forget(self, number: int) -> None:
        self._readers.pop(number).forget(number, self.path(number))

    def rest(self) -> None:
        for process in self._processes:
            process.close()
        self._processes.clear()


class _Process:
    """One of them. The planner must not wait for it, so threads write to it and listen to it."""

    def __init__(self) -> None:
        self._orders = queue.SimpleQueue[bytes | None]()
        self._done: dict[int, Done] = {}
        self._forgotten: dict[int, str] = {}
        """Pieces that nobody needs any more, but that may still be read; and their paths."""
        self._child = _Forked.try_to_start() or _Started()
        self._ended = threading.Event()
        for work in (self._write, self._listen):
            threading.Thread(target=work, daemon=True).start()

    def order(self, number: int, content: bytes) -> None:
        self._orders.put(content)

    def done(self, number: int) -> Done | None:
        """What it has not done when it has ended, the run reads itself."""
        ended = self._ended.is_set()
        return self._done.get(number, Done(failed=True) if ended else None)

    def forget(self, number: int, path: str) -> None:
        self._forgotten[number] = path
        if number in self._done or self._ended.is_set():
            _delete(path)

    def close(self) -> None:
        self._orders.put(None)

    def _write(self) -> None:
        with contextlib.suppress(OSError), self._child.orders as pipe:
            while (content := self._orders.get()) is not None:
                pipe.write(len(content).to_bytes(_LENGTH_BYTES) + content)
                pipe.flush()

    def _listen(self) -> None:
        for line in self._child.answers:
            number, rows, size, failed = json.loads(line)
            self._done[number] = Done(rows, size, failed)
            if number in self._forgotten:
                _delete(self._forgotten[number])
        self._child.wait()
        self._ended.set()


class _Started:
    """A Python of its own, which loads what it needs."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "penstock.spark.reading_process"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.orders: IO[bytes] = self._process.stdin
        self.answers: IO[bytes] = self._process.stdout

    def wait(self) -> None:
        """Wait for its end."""
        self._process.wait()


class _Forked:
    """A fork of a process that has loaded most of it: it reads its first piece a second earlier."""

    def __init__(self, orders: IO[bytes], answers: IO[bytes], server: socket.socket) -> None:
        self.orders = orders
        self.answers = answers
        self._server = server

    @staticmethod
    def try_to_start() -> _Forked | None:
        """None where nobody forks."""
        place = os.environ.get(PLACE)
        if place is None:
            return None
        (theirs_in, ours_in), (ours_out, theirs_out) = os.pipe(), os.pipe()
        server = fork(place, READ, (theirs_in, theirs_out, sys.stderr.fileno()))
        os.close(theirs_in)
        os.close(theirs_out)
        orders, answers = os.fdopen(ours_in, "wb"), os.fdopen(ours_out, "rb")
        if server is not None:
            return _Forked(orders, answers, server)
        orders.close()
        answers.close()
        return None

    def wait(self) -> None:
        with self._server:
            self._server.recv(1)


def _delete(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _give_way() -> None:
    """Take only the time that nobody else wants."""
    os.nice(_LOWEST_PRIORITY)
    if sys.platform == "linux":
        # The kernel then takes our core for idle: who wakes up goes there at once, and does not queue at another one.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main(orders: IO[bytes], answers: IO[str]) -> None:
    """Read pieces as they are ordered, until nobody orders any more."""
    from penstock.runtime.reading_ahead import read_ahead

    _give_way()  # to load all this is what the first piece waits for
    while len(head := orders.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
        number, ticket, splits, path = pickle.loads(orders.read(int.from_bytes(head)))
        try:
            done = read_ahead(ticket.job(), splits, path)
        except Exception as error:
            # The run reads the piece itself, and tells what is wrong with it.
            print(f"a piece of a history is not read ahead: {error}", file=sys.stderr)
            done = Done(failed=True)
        answers.write(json.dumps([number, done.rows, done.bytes, done.failed]) + "\n")
        answers.flush()


def serve() -> None:
    """Read what is ordered on standard input, and answer on standard output."""
    with os.fdopen(os.dup(_STDIN), "rb") as orders, os.fdopen(os.dup(_STDOUT), "w") as answers:
        os.dup2(_STDERR, _STDOUT)  # functions of users may print
        main(orders, answers)


if __name__ == "__main__":
    serve()
