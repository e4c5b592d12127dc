"""A power cut, by real means: copies of a disk image while a run writes to it, from which the run goes on.

The image is mounted through a loop device, so a copy has just what the file system has handed to the disk by then: what
was not synced is not in it. `PENSTOCK_POWER_CUTS` says how many copies are taken.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.lives import Life, check_outputs, write_input

CUTS = int(os.environ.get("PENSTOCK_POWER_CUTS", "1"))
FILES = 36 if CUTS > 1 else 12


@contextlib.contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    at.mkdir(exist_ok=True)
    found = subprocess.run(["mount", "-o", "loop", str(image), str(at)], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"an image cannot be mounted here: {found.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    if shutil.which("mkfs.ext4") is None or os.geteuid() != 0:
        pytest.skip("making and mounting an image takes mkfs.ext4 and root")
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(192 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    return image


def copy_at_once(image: Path, to: Path, life: Life) -> None:
    """A copy of the disk at one moment: everything of the run stands still meanwhile."""
    members = life.members()
    for signal_sent in (signal.SIGSTOP, signal.SIGCONT):
        if signal_sent == signal.SIGCONT:
            subprocess.run(["cp", "--sparse=always", str(image), str(to)], check=True)
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_sent)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_run_goes_on_from_what_was_on_the_disk(image: Path, tmp_path: Path) -> None:
    tuples, rng = write_input(tmp_path / "data", FILES), random.Random(5)
    copies: list[Path] = []
    with mounted(image, tmp_path / "disk") as disk:
        life = Life.begin((tmp_path / "data", disk / "checkpoint", disk / "out"), tmp_path / "life.log")
        board = disk / "checkpoint" / "board"
        aim = 2
        while life.process.poll() is None and len(copies) < CUTS:
            if board.is_dir() and any(name.startswith(f"{aim:08d}") for name in os.listdir(board)):
                time.sleep(rng.uniform(0, 0.3))
                copies.append(tmp_path / f"copy-{len(copies)}")
                copy_at_once(image, copies[-1], life)
                aim += max(1, 30 // CUTS)
            time.sleep(0.005)
        calm = life.finish()
        check_outputs(tuples, calm["late"], disk / "out")
    assert len(copies) == CUTS
    for number, copy in enumerate(copies):
        with mounted(copy, tmp_path / f"after-{number}") as disk:
            begun = len(os.listdir(disk / "checkpoint" / "board"))
            assert begun > 0, "nothing had been committed"
            again = Life.begin((tmp_path / "data", disk / "checkpoint", disk / "out"), tmp_path / f"again-{number}.log")
            assert again.finish() == calm
            check_outputs(tuples, calm["late"], disk / "out")
