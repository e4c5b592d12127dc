"""Exactly once under SIGKILL: whatever dies in the middle of a batch, every output has every row, and no row twice."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.spark.lives import BROKEN, OUTPUTS, Life, account_of, check_outputs, write_input

KILLS = 10
ROUNDS = int(os.environ.get("PENSTOCK_KILL_ROUNDS", "1"))
"""Rounds of ten kills each, at other moments."""


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


# Where the ten kills fall, and for how long at most the batch may go on after that, in seconds.
MOMENTS = [
    ("planned", 0.3),
    ("stage 1 saved", 0.0),
    ("staged", 0.0),
    ("delta commit", 0.0),
    ("board", 0.0),
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


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(20, 20 + ROUNDS))
def test_ten_kills_leave_the_rows_of_an_undisturbed_run(seed: int, tmp_path: Path) -> None:
    tuples = write_input(tmp_path / "data")
    calm = Life.begin((tmp_path / "data", tmp_path / "calm", tmp_path / "calm-out"), tmp_path / "calm.log").finish()
    assert calm["batch"] >= 30
    assert calm["refused"] == [BROKEN]
    assert len(calm["late"]) >= 9

    rng = random.Random(seed)
    watched = Watched(tmp_path / "killed", tmp_path / "killed-out")
    inside = 0
    moments = MOMENTS if seed == 20 else rng.sample(MOMENTS, len(MOMENTS))
    for number, (moment, longest) in enumerate(moments):
        life = Life.begin((tmp_path / "data", watched.checkpoint, watched.out), tmp_path / f"life-{number}.log")
        _kill_at(life, watched, moment, rng.randint(1, 3), rng.uniform(0, longest))
        inside += watched.is_inside_a_batch()
    assert inside >= KILLS // 2, "the kills missed the batches, so nothing was tried"
    last = Life.begin((tmp_path / "data", watched.checkpoint, watched.out), tmp_path / "last.log").finish()

    assert len(MOMENTS) == KILLS
    assert last == calm
    check_outputs(tuples, calm["late"], tmp_path / "calm-out")
    check_outputs(tuples, calm["late"], watched.out)
    for name in OUTPUTS:
        assert account_of(watched.out / name) == account_of(tmp_path / "calm-out" / name)
