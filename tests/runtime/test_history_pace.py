"""How much of a history a batch reads: by what batches take that read none."""

from __future__ import annotations

import pytest

from penstock.runtime.history_pace import FIRST_ROWS, LEAST_ROWS, HistoryPace


class Machine:
    """A machine on which a batch takes a time of its own, and a row of history another."""

    def __init__(self, share: float, seconds: float, per_row: float) -> None:
        self.now = 0.0
        self.pace = HistoryPace(share, lambda: self.now)
        self.seconds, self.per_row = seconds, per_row
        self.batches: list[tuple[int, float]] = []
        """Rows of history, and seconds, of every batch."""

    def run(self, batches: int, *, others: bool = True) -> None:
        for _ in range(batches):
            rows = self.pace.next_rows(others=others)
            assert rows is not None
            self.pace.planned(rows)
            took = self.seconds + rows * self.per_row
            self.now += took
            self.pace.done()
            self.batches.append((rows, took))


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("per_row", [1e-7, 1e-6])
def test_batches_get_longer_by_the_share_and_no_more(share: float, per_row: float) -> None:
    machine = Machine(share, 0.2, per_row)
    machine.run(60)
    wanted = 0.2 / (1 - share)
    lengths = [took for rows, took in machine.batches[40:] if rows]
    assert all(abs(took - wanted) < 0.1 * wanted for took in lengths)


def test_one_batch_in_eight_reads_no_history_and_so_does_the_first() -> None:
    machine = Machine(0.3, 0.1, 1e-6)
    machine.run(24)
    assert [at for at, (rows, _) in enumerate(machine.batches) if not rows] == [0, 8, 16]


def test_where_nobody_else_is_read_every_batch_reads_history() -> None:
    machine = Machine(0.3, 0.1, 1e-6)
    machine.run(10, others=False)
    assert machine.batches[0][0] == FIRST_ROWS
    assert all(rows for rows, _ in machine.batches)


def test_a_slow_machine_still_reads_some() -> None:
    machine = Machine(0.3, 0.1, 1.0)
    machine.run(20)
    assert machine.batches[-1][0] == LEAST_ROWS


def test_one_slow_batch_does_not_change_the_pace() -> None:
    machine = Machine(0.5, 0.2, 1e-6)
    machine.run(20)
    before = max(rows for rows, _ in machine.batches[-2:])
    machine.seconds = 5.0
    machine.run(1)
    machine.seconds = 0.2
    machine.run(1)
    assert machine.batches[-1][0] == pytest.approx(before, rel=0.2)
    machine.run(20)
    assert max(rows for rows, _ in machine.batches[-2:]) == pytest.approx(before, rel=0.2)


def test_a_share_of_all_has_no_limit() -> None:
    pace = HistoryPace(1.0)
    for _ in range(3):
        assert pace.next_rows(others=True) is None
        pace.planned(1_000_000)
        pace.done()
