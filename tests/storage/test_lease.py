"""One writer to a checkpoint: who has it, who is refused, and who finds out that it was lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import WorldError
from penstock.simulation.disk import SimulatedDisk
from penstock.storage.disk import mount
from penstock.storage.folder import Folder
from penstock.storage.lease import PERIOD, Lease, holder_of, refuse_if_held, take

HOLDER = """
import sys, time
from penstock.storage.folder import Folder
from penstock.storage.lease import take
lease = take(Folder(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def held(tmp_path: Path):
    """Another process that holds the checkpoint."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_checkpoint_in_use_is_refused_at_once_and_says_by_whom(held: subprocess.Popen[str], tmp_path: Path) -> None:
    with pytest.raises(WorldError, match=rf"is in use by process {held.pid} on host \S+, since 20\d\d-\d\d-\d\d \d\d:"):
        take(Folder(str(tmp_path)))


def test_a_process_that_is_stopped_still_holds_it(held: subprocess.Popen[str], tmp_path: Path) -> None:
    os.kill(held.pid, signal.SIGSTOP)
    with pytest.raises(WorldError, match="is in use by process"):
        take(Folder(str(tmp_path)))


def test_a_process_that_was_killed_holds_nothing(held: subprocess.Popen[str], tmp_path: Path) -> None:
    held.kill()
    held.wait()
    lease = take(Folder(str(tmp_path)))
    assert lease.claim.epoch == 2
    lease.claim.check()
    lease.release()


def test_it_is_refused_before_spark_is_started(held: subprocess.Popen[str], tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(
        "import penstock as pk\nnet = pk.Network('n')\n"
        "net.source('a', pk.memory([(1,)], schema={'ts': 'int64'})).output('o')\n"
    )
    code = f"from penstock.cli.main import app; app(['run', {str(app)!r}, '--checkpoint', {str(tmp_path)!r}])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert f"is in use by process {held.pid}" in told.stderr
    with pytest.raises(WorldError, match=f"is in use by process {held.pid}"):
        refuse_if_held(Folder(str(tmp_path)))


def test_looking_whether_it_is_free_takes_nothing(tmp_path: Path) -> None:
    refuse_if_held(Folder(str(tmp_path / "new")))
    take(Folder(str(tmp_path))).release()
    refuse_if_held(Folder(str(tmp_path)))
    assert take(Folder(str(tmp_path))).claim.epoch == 2


def test_the_same_process_is_refused_too(tmp_path: Path) -> None:
    lease = take(Folder(str(tmp_path)))
    with pytest.raises(WorldError, match=f"is in use by process {os.getpid()}"):
        take(Folder(str(tmp_path)))
    lease.release()
    lease.release()
    assert take(Folder(str(tmp_path)), least=7).claim.epoch == 8


def test_a_lease_that_nobody_holds_on_to_is_free(tmp_path: Path) -> None:
    take(Folder(str(tmp_path)))
    assert take(Folder(str(tmp_path))).claim.epoch == 2


def test_a_damaged_lease_is_taken_above_the_last_epoch_on_the_board(tmp_path: Path) -> None:
    take(Folder(str(tmp_path))).release()
    (tmp_path / "lease.json").write_bytes(b"")
    assert take(Folder(str(tmp_path)), least=41).claim.epoch == 42


class Computer:
    """A machine with a clock and processes of its own."""

    clock = 0.0
    dead: frozenset[int] = frozenset()

    def __init__(self, host: str, process: int) -> None:
        self.host, self.process = host, process

    def now(self) -> float:
        return Computer.clock

    def sleep(self, seconds: float) -> None:
        Computer.clock += seconds

    def myself(self) -> tuple[str, int, float]:
        return self.host, self.process, 0.0

    def is_dead(self, host: str, process: int, began: float) -> bool:
        return host == self.host and process in Computer.dead


@pytest.fixture
def shared() -> Folder:
    """A folder on a file system without locks, which several machines share."""
    import random

    mount("leased", SimulatedDisk(random.Random(0)))
    Computer.clock, Computer.dead = 1_000.0, frozenset()
    return Folder("leased://shared/run")


def taken(shared: Folder, host: str, process: int) -> Lease:
    return take(shared, surroundings=Computer(host, process))


def test_without_locks_a_lease_is_refused_while_it_is_renewed(shared: Folder) -> None:
    lease = taken(shared, "a", 1)
    for _ in range(5):
        Computer.clock += PERIOD / 2
        with pytest.raises(WorldError, match=r"in use by process 1 on host a(.|\n)*wait 30 s until its lease"):
            taken(shared, "b", 2)
        lease.renew()


def test_without_locks_a_lease_that_nobody_renews_runs_out_and_its_holder_finds_out(shared: Folder) -> None:
    lost = taken(shared, "a", 1)
    Computer.clock += PERIOD
    other = taken(shared, "b", 2)
    assert other.claim.epoch == 2
    other.claim.check()
    with pytest.raises(WorldError, match=r"has lost the checkpoint(.|\n)*held by process 2 on host b"):
        lost.claim.check()
    lost.renew()
    lost.release()
    holder = holder_of(shared)
    assert holder is not None
    assert (holder.process, holder.released) == (2, False), "who has lost it changes nothing"


def test_without_locks_a_process_of_this_host_that_has_died_is_not_waited_for(shared: Folder) -> None:
    taken(shared, "a", 1)
    Computer.dead = frozenset({1})
    with pytest.raises(WorldError, match="in use by process 1"):
        taken(shared, "b", 2)
    assert taken(shared, "a", 3).claim.epoch == 2


def test_without_locks_a_released_lease_is_free(shared: Folder) -> None:
    taken(shared, "a", 1).release()
    assert taken(shared, "b", 2).claim.epoch == 2


def test_of_two_that_take_a_free_lease_together_one_is_refused(shared: Folder) -> None:
    class Slow(Computer):
        def sleep(self, seconds: float) -> None:
            if self.process == 1:
                # While the first one waits, the second has written its own: it saw no lease either.
                shared.write("lease.json", SECOND)

    taken(shared, "b", 2)
    second = shared.read("lease.json").to_pybytes()
    SECOND = second  # noqa: N806 - what the other process writes
    shared.delete("lease.json")
    with pytest.raises(WorldError, match="in use by process 2 on host b"):
        take(shared, surroundings=Slow("a", 1))
