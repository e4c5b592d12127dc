"""Exactly once under SIGKILL: whatever dies in the middle of a batch, every output has every row, and no row twice."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.spark import crash_network
from tests.spark.lives import BROKEN, OUTPUTS, Calm, Life, account_of, check_outputs

KILLS = int(os.environ.get("PENSTOCK_KILLS", "2"))
"""How many; a run is killed ten times at most."""
FILES = 36 if KILLS > 5 else 12
"""Of each input: as many as there are batches, or a few less."""


@dataclass(frozen=True)
class Watched:
    """What a run leaves on disk, from which its killer sees how far it is."""

    checkpoint: Path
    out: Path

    def newest(self, moment: str) -> int:
        """The newest batch that has come to a moment of the protocol; for Delta tables the number of commits."""
        match moment:
            case "planned":
                return _newest(self.checkpoint / "spark" / "offsets")
            case "staged":
                return _newest(self.out / "events", "part-")
            case "stage 1 saved":
                return _newest(self.checkpoint / "state" / "1" / "0")
            case "stage 2 saved":
                return _newest(self.checkpoint / "state" / "2" / "0")
            case "delta commit":
                return _newest(self.out / "events" / "_delta_log")
            case "last delta commit":
                return _newest(self.out / "totals" / "_delta_log")
            case "board":
                return _newest(self.checkpoint / "board")
            case "spark commit":
                return _newest(self.checkpoint / "spark" / "commits")
        raise AssertionError(moment)

    def is_inside_a_batch(self) -> bool:
        """Whether a batch is planned that Spark has not committed, so that it must be done again."""
        return self.newest("planned") > self.newest("spark commit")


def _newest(folder: Path, prefix: str = "") -> int:
    try:
        names = [name.removeprefix(prefix) for name in os.listdir(folder) if name.startswith(prefix)]
    except FileNotFoundError:
        return -1
    numbers = [name.split(".")[0].split("-")[0] for name in names]
    return max((int(number) for number in numbers if number.isdigit()), default=-1)


# Where the kills fall, and for how long at most the batch may go on after that, in seconds.
MOMENTS = [
    ("delta commit", 0.0),
    ("stage 1 saved", 0.0),
    ("board", 0.0),
    ("planned", 0.3),
    ("staged", 0.0),
    ("stage 2 saved", 0.01),
    ("last delta commit", 0.0),
    ("spark commit", 0.0),
    ("spark commit", 0.6),
    ("delta commit", 0.02),
]


def _kill_at(life: Life, watched: Watched, moment: str, batches: int, delay: float) -> None:
    """Kill when the moment has come `batches` more times than when this life began."""
    aim = watched.newest(moment) + batches
    groups, looked = life.groups(), time.monotonic()
    try:
        while watched.newest(moment) < aim:
            assert life.process.poll() is None, life.log.read_text(errors="replace")
            if time.monotonic() - looked > 0.5:
                groups, looked = life.groups(), time.monotonic()
            time.sleep(0.003)  # moments of a batch are further apart than this
        time.sleep(delay)
    finally:
        life.kill(groups)


@pytest.fixture(scope="module")
def calm(spark_ready: Any, tmp_path_factory: pytest.TempPathFactory) -> Calm:
    found = Calm.of(tmp_path_factory.mktemp("calm"), FILES, crash_network.main, "exchange")
    assert found.told["batch"] >= FILES - 6
    assert found.told["refused"] == [BROKEN]
    assert len(found.told["late"]) >= FILES // 4
    check_outputs(found.tuples, found.told["late"], found.out)
    return found


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(0, KILLS, len(MOMENTS)))
def test_kills_leave_the_rows_of_an_undisturbed_run(first: int, calm: Calm, tmp_path: Path) -> None:
    rng = random.Random(20 + first)
    watched = Watched(tmp_path / "killed", tmp_path / "out")
    inside = 0
    moments = (rng.sample(MOMENTS, len(MOMENTS)) if first else MOMENTS)[: KILLS - first]
    for number, (moment, longest) in enumerate(moments):
        arguments, log = (calm.data, watched.checkpoint, watched.out), tmp_path / f"life-{number}.log"
        life = Life.begin(arguments, log, rng.choice(("express", "exchange")))
        _kill_at(life, watched, moment, rng.randint(1, 3), rng.uniform(0, longest))
        inside += watched.is_inside_a_batch()
    assert inside >= len(moments) // 2, "the kills missed the batches, so nothing was tried"
    last = Life.begin((calm.data, watched.checkpoint, watched.out), tmp_path / "last.log").finish()

    assert last == calm.told
    check_outputs(calm.tuples, calm.told["late"], watched.out)
    for name in OUTPUTS:
        assert account_of(watched.out / name) == account_of(calm.out / name)
