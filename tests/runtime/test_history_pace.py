"""How much of a history a batch reads: by what batches take that read none."""

from __future__ import annotations

import pytest

from penstock.runtime.history_pace import FIRST_ROWS, LEAST_ROWS, HistoryPace
from penstock.runtime.live_rhythm import LiveRhythm


class Machine:
    """A machine on which a batch takes a time of its own, and a row of history another."""

    def __init__(self, share: float, seconds: float, per_row: float, *, pauses: bool = False) -> None:
        self.now = 0.0
        self.pace = HistoryPace(share, lambda: self.now, pauses=pauses)
        self.seconds, self.per_row = seconds, per_row
        self.batches: list[tuple[int, float]] = []
        """Rows of history, and seconds, of every batch."""

    def run(self, batches: int, live: int | None = None) -> None:
        """Live tuples come with every batch, with every other one if `live` is not given, or there are no inputs for
        them if it is -1."""
        for at in range(batches):
            coming = at % 2 if live is None else live
            rows = self.pace.next_rows(live=None if live == -1 else coming)
            self.pace.planned(rows)
            took = self.seconds + rows * self.per_row
            self.now += took
            self.pace.done()
            self.batches.append((rows, took))


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("per_row", [1e-7, 1e-6])
def test_a_batch_of_history_takes_twice_as_long_as_another(share: float, per_row: float) -> None:
    machine = Machine(share, 0.2, per_row)
    machine.run(60)
    lengths = [took for rows, took in machine.batches[40:] if rows]
    assert len(lengths) == 10
    assert all(abs(took - 0.4) < 0.04 for took in lengths)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("live", [None, 5])
def test_no_more_than_the_share_of_all_time_goes_to_history(share: float, live: int | None) -> None:
    machine = Machine(share, 0.2, 1e-6, pauses=True)
    machine.run(400, live)
    spent = sum(took for rows, took in machine.batches if rows)
    assert 0.1 * share < spent / machine.now < 1.05 * share


def test_where_nobody_else_is_read_there_is_no_pause() -> None:
    machine = Machine(0.3, 0.1, 1e-6, pauses=True)
    machine.run(10, live=-1)
    assert all(rows for rows, _ in machine.batches)


class Timetable:
    """A run to which live tuples come when they come, one lot after the other, and which looks all the time."""

    LIVE, HISTORY, LOOK = 0.06, 0.1, 0.004

    def __init__(self, share: float, arrivals: list[float]) -> None:
        self.now = 0.0
        self.rhythm = LiveRhythm(lambda: self.now)
        self.pace = HistoryPace(share, lambda: self.now, rhythm=self.rhythm, pauses=True)
        self.arrivals = arrivals
        self.history = list[tuple[float, float]]()
        """When batches of history began and ended."""
        self.waited = list[float]()
        """How long live tuples waited for their batch."""

    def run(self, until: float) -> None:
        left = [at for at in self.arrivals if at >= self.now]
        while self.now < until:
            self.pace.done()
            came = [at for at in left if at <= self.now]
            left = left[len(came) :]
            rows = self.pace.next_rows(live=len(came))
            self.rhythm.look(came=bool(came))
            if not came and not rows:
                self.now += self.LOOK
                continue
            self.pace.planned(rows)
            self.waited += [self.now - at for at in came]
            began = self.now
            self.now += self.LIVE * bool(came) + self.HISTORY * bool(rows)
            if rows:
                self.history.append((began, self.now))


def every(gap: float, until: float) -> list[float]:
    return [gap * at for at in range(1, int(until / gap))]


def test_live_tuples_that_come_by_a_rhythm_do_not_wait_for_history() -> None:
    run = Timetable(0.3, every(0.25, 30))
    run.run(30)
    assert len(run.history) > 60
    assert max(run.waited[10:]) < 2 * Timetable.LOOK


def test_history_that_waits_for_live_tuples_makes_up_for_it() -> None:
    run = Timetable(0.3, every(0.25, 60))
    run.run(60)
    spent = sum(end - began for began, end in run.history)
    assert 0.9 * 0.3 < spent / run.now < 1.02 * 0.3


@pytest.mark.parametrize("gap", [0.05, 0.12, 0.155])
def test_history_is_read_where_it_does_not_fit_between_live_tuples(gap: float) -> None:
    run = Timetable(0.3, every(gap, 30))
    run.run(30)
    spent = sum(end - began for began, end in run.history)
    assert 0.1 * 0.3 < spent / run.now < 1.02 * 0.3


def test_history_goes_on_when_live_tuples_fall_silent() -> None:
    run = Timetable(0.3, every(0.25, 5))
    run.run(20)
    alone = [(began, end) for began, end in run.history if began > 6]
    assert sum(end - began for began, end in alone) / 14 == pytest.approx(0.3, abs=0.02)


def test_live_tuples_that_keep_no_rhythm_let_history_have_its_share() -> None:
    odd = [0.2 * at + 0.17 * (at * at % 7) / 7 for at in range(1, 150)]
    run = Timetable(0.3, odd)
    run.run(29)
    spent = sum(end - began for began, end in run.history)
    assert 0.6 * 0.3 < spent / run.now < 1.02 * 0.3


def test_what_fits_is_known_once_a_batch_has_read_history_beside_others() -> None:
    machine = Machine(0.3, 0.1, 1e-6)
    assert machine.pace.fitting is None
    machine.run(4)
    assert machine.pace.fitting == machine.pace.next_rows(live=0)


def test_history_is_read_while_nothing_else_is() -> None:
    machine = Machine(0.3, 0.1, 1e-6)
    machine.run(12)
    assert [bool(rows) for rows, _ in machine.batches] == [True, False] * 6


def test_where_something_else_is_always_read_one_batch_in_four_reads_history() -> None:
    machine = Machine(0.3, 0.1, 1e-6)
    machine.run(16, live=5)
    assert [bool(rows) for rows, _ in machine.batches] == [False, False, False, True] * 4


def test_where_nobody_else_is_read_every_batch_reads_history_and_more_of_it() -> None:
    machine = Machine(0.3, 0.1, 1e-6)
    machine.run(10, live=-1)
    assert [rows for rows, _ in machine.batches] == [FIRST_ROWS << at for at in range(10)]


def test_a_slow_machine_still_reads_some() -> None:
    machine = Machine(0.3, 0.1, 1.0)
    machine.run(20)
    assert machine.batches[-2][0] == LEAST_ROWS


def test_one_slow_batch_does_not_change_the_pace() -> None:
    machine = Machine(0.5, 0.2, 1e-6)
    machine.run(20)
    before = max(rows for rows, _ in machine.batches[-2:])
    machine.seconds = 5.0
    machine.run(1)
    machine.seconds = 0.2
    machine.run(2)
    assert machine.batches[-2][0] == pytest.approx(before, rel=0.2)


def test_a_share_of_all_has_no_limit() -> None:
    assert HistoryPace(1.0).unlimited
    assert not HistoryPace(0.9).unlimited
