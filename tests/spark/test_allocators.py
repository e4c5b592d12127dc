"""Memory that was freed is kept for the next train, unless somebody says otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from penstock.spark.allocators import ENVIRONMENT

FAULTS = """
import resource, sys, threading
import numpy as np
from penstock.spark.allocators import keep_freed_memory

if sys.argv[1] == "kept":
    keep_freed_memory()

def work():
    for number in range(40):
        arrays = [np.ones(1 << 18), np.ones(1 << 20 if number % 2 else 1 << 17), np.ones(1 << 19)]

before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
"""Arrays of 1 to 8 MB, made and let go of in a thread, as a batch does: how many pages it got from the system."""


def _faults(kept: str, **said: str) -> int:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | said
    command = [sys.executable, "-c", FAULTS, kept]
    return int(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have other allocators")
def test_a_process_that_keeps_freed_memory_gets_few_pages_from_the_system() -> None:
    # All arrays together have 40 * (2 + 1 or 8 + 4) MB, the largest at one time 14 MB: 3,600 pages of 4 kB.
    kept, given_back = _faults("kept"), _faults("given back")
    assert kept < 10_000
    assert given_back > 1.3 * kept


def test_what_the_environment_says_is_obeyed() -> None:
    assert _faults("kept", MALLOC_TRIM_THRESHOLD_="0", MALLOC_MMAP_THRESHOLD_="65536") > 20_000


def test_workers_are_told_the_same() -> None:
    assert {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"} <= ENVIRONMENT.keys()
