"""How the processes that plan queries start warm: a server that forks them, and what Spark executes to ask it."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Final

from penstock.spark import fork_client
from penstock.storage.temporary import TemporaryFolder

_LONGEST_SOCKET: Final = 100
"""The path of a socket has 107 characters at most."""


class WarmStart:
    """A server that forks planning processes, as long as this object lives."""

    def __init__(self) -> None:
        self._folder = TemporaryFolder("penstock-warm-")
        self.executable = os.path.join(self._folder.path, "python")
        place = os.path.join(self._folder.path, "forks")
        # Paths that are too long for a socket make the executable ask in vain, and start Python itself.
        if len(place) <= _LONGEST_SOCKET:
            self._serve(place)
        words = [sys.executable, "-IS", fork_client.__file__, sys.executable, place]
        Path(self.executable).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        Path(self.executable).chmod(0o700)

    def _serve(self, place: str) -> None:
        # Clients may ask while the server is still loading: they wait in the queue of the socket.
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(place)
            listener.listen()
            number = listener.fileno()
            server = subprocess.Popen(
                [sys.executable, "-m", "penstock.spark.fork_server", str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[number],
                process_group=0,  # Ctrl-C at the terminal is for the driver
            )
        weakref.finalize(self, _end, server, os.getpid())


def _end(server: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() == owner and server.stdin is not None:
        server.stdin.close()
        server.wait()
