"""Nothing lost, nothing doubled: simulated faults against runs in peace. `penstock check --cases N` tries more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.runtime.board import Board
from penstock.simulation import case, spark_model
from penstock.simulation.case import FAULTS, fault_of, run_case
from penstock.simulation.disk import SimulatedDisk
from penstock.storage.state import State, stored_versions

CASES = 2016
SHARES = 6


@pytest.mark.parametrize("share", range(SHARES))
def test_every_case_comes_out_right(share: int) -> None:
    size = CASES // SHARES
    outcomes = [run_case(seed) for seed in range(share * size, (share + 1) * size)]
    wrong = [outcome for outcome in outcomes if outcome.wrong is not None]
    assert not wrong, wrong[0]
    assert {outcome.fault for outcome in outcomes} == set(FAULTS)
    # A run may be refused after damage, but mostly it can be repaired; what was disturbed was really disturbed.
    assert sum(outcome.lives > 1 for outcome in outcomes) > size / 2
    assert Counter(outcome.refused is None for outcome in outcomes)[True] > size * 0.8


def first_wrong(faults: set[str], most: int = 300) -> str:
    """What the first case that goes wrong says; the simulation must be able to see what it is there to see."""
    for seed in range(most):
        if fault_of(seed) in faults and (outcome := run_case(seed)).wrong is not None:
            return str(outcome.wrong)
    raise AssertionError("no case went wrong")


def test_it_notices_a_board_that_is_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    write = SimulatedDisk.write

    def careless(self: SimulatedDisk, path: str, parts: Sequence[bytes], *, lasting: bool) -> None:
        write(self, path, parts, lasting=lasting and "/board/" not in path)

    monkeypatch.setattr(SimulatedDisk, "write", careless)
    assert first_wrong({"power"})


def test_it_notices_that_a_late_attempt_deletes_what_is_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_all_but_mine(self: State) -> None:
        keep = {self._batch, *self._referred(), *(needed for needs in self._earlier.values() for needed in needs)}
        for version in stored_versions(self._folder):
            if version not in keep:
                self._folder.delete(f"{version:08d}.state")

    monkeypatch.setattr(State, "_forget", forget_all_but_mine)
    monkeypatch.setattr(spark_model, "_LATE", 0.6)  # one that does harm is rare
    assert first_wrong({"kill", "full", "intruder"})


def test_it_notices_a_batch_that_shows_before_its_plan_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Board, "post_offset", lambda self, batch, offset: None)
    assert first_wrong({"power", "kill"}, 600)


def test_it_notices_that_nobody_looks_at_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.runtime.job.Job.check_claim", lambda self: None)
    assert first_wrong({"takeover"}, 600)


def test_the_command_says_how_many_cases_came_out_right() -> None:
    told = CliRunner().invoke(app, ["check", "--cases", "12", "--jobs", "1"])
    assert told.exit_code == 0, told.output
    assert "12 cases: nothing lost, doubled or silently different" in told.output


def test_the_command_names_a_case_that_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case, "_compare", lambda expected, found: "broken on purpose")
    told = CliRunner().invoke(app, ["check", "--cases", "3", "--seed", "40", "--jobs", "1"])
    assert told.exit_code == 1
    assert "broken on purpose" in told.output
    assert "penstock check --cases 1 --seed NUMBER" in told.output


def test_a_case_is_the_same_whenever_it_is_run() -> None:
    assert run_case(77) == run_case(77)
