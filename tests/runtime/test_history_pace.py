"""How much of a history a batch reads: by what batches take that read none."""

from __future__ import annotations

import pytest

from penstock.runtime.history_pace import FIRST_ROWS, LEAST_ROWS, HistoryPace


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
