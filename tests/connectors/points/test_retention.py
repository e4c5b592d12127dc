"""Which files leave a connection point."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock as pk
from penstock.algebra.marks import UNKNOWN, Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.connectors.points.keeping import EVERYTHING, Keep, keep_of
from penstock.connectors.points.point_target import ConnectionPoint
from penstock.connectors.points.retention import Horizon, leaving
from penstock.connectors.points.stored_files import StoredFile
from penstock.connectors.targets.target import OutputProgress
from penstock.storage.folder import Folder


def file(batch: int, *, rows: int = 10, size: int = 100, most: int | None = None, arrived: int = 0) -> StoredFile:
    bounds = {} if most is None else {"ts": most}
    return StoredFile(f"part-{batch}", size, rows, batch, batch, arrived, arrived, most=bounds)


FILES = [file(batch, most=batch * 10 + 9, arrived=batch * 1000) for batch in range(5)]


@pytest.mark.parametrize(
    ("horizon", "gone"),
    [
        pytest.param(Horizon(), 0, id="everything is kept"),
        pytest.param(Horizon("ts", least=20), 2, id="all rows of a file must be older"),
        pytest.param(Horizon("ts", least=19), 1, id="a row on the horizon is kept"),
        pytest.param(Horizon("other", least=99), 0, id="a bound that nobody knows lets nothing go"),
        pytest.param(Horizon(arrived=3000), 3, id="by the clock"),
        pytest.param(Horizon(rows=25), 2, id="at least so many rows stay"),
        pytest.param(Horizon(rows=1), 4, id="the newest stays"),
        pytest.param(Horizon(bytes=250), 3, id="at most so many bytes stay"),
        pytest.param(Horizon(bytes=1), 4, id="the newest stays, whatever it takes up"),
        pytest.param(Horizon("ts", least=20, bytes=250), 3, id="what is beyond one of them leaves"),
    ],
)
def test_the_oldest_files_leave(horizon: Horizon, gone: int) -> None:
    assert leaving(FILES, horizon) == FILES[:gone]


def test_a_newer_batch_may_leave_before_an_older_one_whose_times_are_later() -> None:
    early, late = file(0, most=99), file(1, most=5)
    assert leaving([early, late], Horizon("ts", least=50)) == [late]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, EVERYTHING),
        ("2 hours", Keep(time="2 hours")),
        (500, Keep(rows=500)),
        ("10 GB", Keep(bytes=10**10)),
        ("1.5 kB", Keep(bytes=1500)),
        ("4 MiB", Keep(bytes=4 << 20)),
        (pk.keep(wall="1 day", bytes="1 TB"), Keep(wall="1 day", bytes=10**12)),
    ],
)
def test_what_is_kept_can_be_said_in_short(given: Keep | str | int | None, meant: Keep) -> None:
    assert keep_of(given) == meant


def test_sizes_and_lengths_that_are_none_are_refused() -> None:
    with pytest.raises(pk.QueryError, match="is no size"):
        pk.keep(bytes="ten")
    with pytest.raises(pk.QueryError, match="must be positive"):
        pk.keep(wall="0 seconds")


def point(keep: Keep) -> ConnectionPoint:
    return ConnectionPoint(Folder("nowhere"), keep=keep, on="ts")


def progress(mark: int, now: int = 0) -> OutputProgress:
    return OutputProgress(UNKNOWN, Marks({"ts": mark}), pa.schema([("ts", pa.timestamp("s"))]), now)


def test_time_is_counted_back_from_the_low_water_mark_in_the_type_of_the_table() -> None:
    assert point(Keep(time="1 minute"))._horizon(progress(100)) == Horizon("ts", least=40_000_000)
    for mark in (BEGINNING, END):
        assert point(Keep(time="1 minute"))._horizon(progress(mark)).least is None


def test_the_clock_is_that_of_the_batch() -> None:
    horizon = point(Keep(wall="2 seconds"))._horizon(progress(100, now=5_000_000))
    assert horizon == Horizon("ts", arrived=3_000_000)


def test_a_point_is_looked_after_every_so_many_batches() -> None:
    scratch = Folder("nowhere")
    due = [batch for batch in range(100) if point(EVERYTHING).upkeep(batch, scratch, progress(0)) is not None]
    assert due == [31, 63, 95]
