"""What Ctrl-C does to a command."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMMAND = """
import os, signal, sys, time
from penstock.cli.stopping import stop_on_signal
with stop_on_signal() as stop:
    os.kill(os.getpid(), signal.SIGINT)
    print("asked", stop.wait(5), flush=True)
    os.kill(os.getpid(), signal.{second})
    time.sleep(5)
    print("went on")
"""


@pytest.mark.parametrize(("second", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_the_second_signal_ends_the_process_at_once_with_one_line(second: str, code: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", COMMAND.replace("{second}", second)], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (code, "asked True\n")
    assert ran.stderr.startswith("stopped at once")
    assert len(ran.stderr.splitlines()) == 1
