"""The demo: its books, its view, and one real run."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from rich.console import Console, RenderableType

from penstock.algebra.marks import Marks
from penstock.algebra.ticks import END
from penstock.boxes.aggregate.box import Aggregate
from penstock.cli.accounts import Account, accounts, balanced, of_windows, statement
from penstock.cli.demo import packets_per_window
from penstock.cli.stopping import interruptible, stop_on_signal
from penstock.cli.view import SHOWN_WINDOWS, View, holding, plain_line
from penstock.cli.watch import Closed, Sight, Watch
from penstock.errors import InternalError
from penstock.progress.extremes import Extremes
from penstock.runtime.board import Record
from penstock.runtime.work import BoxWork, InputCount

SECOND = 1_000_000
NETWORK = packets_per_window(Watch(None), rate=1_000, window="5 seconds", seconds=None).network
COUNT = next(box for box in NETWORK.boxes if isinstance(box, Aggregate))


def record() -> Record:
    """Ten seconds in: the first window is closed, and `control` has been silent since second 7.

    ```
             0         5         10
    control  ----------------)          mark 7
    main1    ---------------------)     mark 9.5
    main2    ----------------...)       mark 8
    ```
    """
    marks = {"control": 7 * SECOND, "main1": 9_500_000, "main2": 8 * SECOND, "union": 7 * SECOND, "count": 5 * SECOND}
    largest = {"control": 7 * SECOND, "main1": 10 * SECOND, "main2": 8_500_000}
    return Record(
        batch=11,
        shards={name: {"0": Extremes(largest=tick)} for name, tick in largest.items()},
        marks={name: Marks({"ts": tick}) for name, tick in marks.items()},
        inputs={
            "control": InputCount(read=14, taken=14),
            "main1": InputCount(read=10_000, taken=9_990, late=7, refused=3),
            "main2": InputCount(read=6_800, taken=6_800),
        },
        boxes={
            "union": BoxWork(tuples_in=16_804, tuples_out=16_804),
            "count": BoxWork(tuples_in=16_804, tuples_out=1, released=8_400, held_rows=4, open_windows=2),
        },
        outputs={"packets": 1, "screen": 1},
    )


def ended() -> Record:
    """The same run at its end."""
    before = record()
    return replace(
        before,
        shards={name: {"0": Extremes(ended=True)} for name in before.shards},
        marks={name: Marks({"ts": END}) for name in before.marks},
        boxes={**before.boxes, "count": BoxWork(tuples_in=16_804, tuples_out=3, released=16_804)},
    )


def results(*counts: int) -> pa.Table:
    starts = pa.array([at * 5 * SECOND for at in range(len(counts))], pa.int64()).cast(pa.timestamp("us"))
    return pa.table({"ts": starts, "n": pa.array(counts, pa.int64())})


def drawn(shown: RenderableType, width: int) -> str:
    console = Console(width=width, height=40, record=True, file=io.StringIO(), force_terminal=True)
    console.print(shown)
    return console.export_text()


def sight(of: Record | None = None) -> Sight:
    closed = tuple(Closed(row, 8.25) for row in results(8_400).to_pylist())
    rates = {"control": 1.4, "main1": 1_000.0, "main2": 800.0, "union": 1_801.4, "count": 1_801.4}
    return Sight(NETWORK, of or record(), closed, rates, 0.62, 10.0, 60.0)


class TestBooks:
    def test_a_running_network_balances_with_the_tuples_of_open_windows(self) -> None:
        books = [*accounts(NETWORK, record()), *of_windows(COUNT, record(), results(8_400), "n")]
        assert balanced(books)
        shares = next(a for a in books if ("in closed windows", 8_400) in a.parts)
        assert shares == Account(
            "box count", ("in", 16_804), (("in closed windows", 8_400), ("in 2 open windows", 8_404))
        )

    def test_an_ended_network_balances_with_nothing_open(self) -> None:
        assert balanced([*accounts(NETWORK, ended()), *of_windows(COUNT, ended(), results(8_400, 8_400, 4), "n")])

    def test_a_network_that_did_nothing_balances(self) -> None:
        assert balanced([*accounts(NETWORK, Record()), *of_windows(COUNT, Record(), results(), "n")])

    def lost(self) -> Record:
        end = ended()
        return replace(end, inputs={**end.inputs, "main1": end.inputs["main1"] + InputCount(taken=-5)})

    def broken(self) -> Iterator[tuple[str, Record]]:
        end, now = ended(), record()
        yield "an input that lost tuples", self.lost()
        for what, of, box, more in (
            ("a union that lost tuples", end, "union", BoxWork(tuples_out=-5)),
            ("tuples in no window", end, "count", BoxWork(released=-5)),
            ("more partials held than tuples left", now, "count", BoxWork(released=8_402)),
        ):
            yield what, replace(of, boxes={**of.boxes, box: of.boxes[box] + more})

    def test_every_leak_is_found(self) -> None:
        for what, leaking in self.broken():
            assert not balanced(accounts(NETWORK, leaking)), what

    def test_results_that_count_other_tuples_are_found(self) -> None:
        books = of_windows(COUNT, ended(), results(8_400, 8_400, 3), "n")
        assert [a.missing for a in books] == [0, 1]

    def test_the_verdict_says_what_is_missing(self) -> None:
        text = "".join(drawn(part, 120) for part in statement(accounts(NETWORK, self.lost())))
        assert "every tuple accounted for: NO" in text
        assert "input main1: of 10,000 read, 5 not accounted for" in text
        assert "box union: of 16,804 in, 5 not accounted for" in text


class TestView:
    @pytest.mark.parametrize("width", [80, 120])
    def test_everything_is_shown_uncut_at_any_width(self, width: int) -> None:
        text = drawn(View(sight()), width)
        assert "…" not in text
        assert max(len(line.rstrip()) for line in text.splitlines()) <= width
        for shown in (
            "10,000",
            "16,804",
            "8,400",
            "00:00:00 to 00:00:05",
            "12 batches",
            "one every 0.6 s",
            "50 s left",
        ):
            assert shown in text

    def test_an_input_shows_its_counts_its_mark_and_how_far_it_is_behind(self) -> None:
        lines = drawn(View(sight()), 80).splitlines()
        main1 = next(line for line in lines if line.strip().startswith("main1"))
        assert main1.split() == ["main1", "10,000", "1,000", "7", "3", "00:00:09.5", "0.5", "s"]

    def test_the_link_with_the_lowest_mark_holds_the_windows_back(self) -> None:
        assert holding(sight()) == ["control"]
        assert "control holds the windows back: the next closes at 00:00:10.0, 3.0 s ahead" in drawn(View(sight()), 120)

    def test_an_input_that_has_said_nothing_holds_everything_back(self) -> None:
        silent = record()
        del silent.shards["main2"], silent.inputs["main2"], silent.marks["main2"]
        assert holding(sight(silent)) == ["main2"]
        assert "silent so far" in drawn(View(sight(silent)), 80)

    def test_nothing_is_held_back_after_the_end(self) -> None:
        assert holding(sight(ended())) == []
        assert "every input has ended" in drawn(View(sight(ended())), 80)

    def test_a_window_shows_how_long_after_its_end_it_was_out(self) -> None:
        row = next(line for line in drawn(View(sight()), 80).splitlines() if "00:00:00 to" in line)
        assert row.split() == ["00:00:00", "to", "00:00:05", "8,400", "3.2", "s"]

    def test_the_newest_windows_come_first_and_old_ones_leave(self) -> None:
        many = tuple(Closed(row, 99.0) for row in results(*range(100, 100 + SHOWN_WINDOWS + 2)).to_pylist())
        text = drawn(View(replace(sight(), closed=many)), 80)
        shown = [int(n) for n in re.findall(r"to \S+ +(\d+)", text)]
        assert shown == [*range(106, 106 - SHOWN_WINDOWS, -1)]

    def test_a_view_keeps_its_height(self) -> None:
        before = drawn(View(Sight(NETWORK, Record(), seconds=60.0)), 80)
        assert len(before.splitlines()) == len(drawn(View(sight()), 80).splitlines())

    def test_a_log_gets_one_line(self) -> None:
        line = plain_line(sight())
        assert "12 batches  16,814 read (1,801/s)  7 late  3 refused  1 results  2 open windows" in line
        assert line.endswith("held back by control")


class TestWatch:
    def test_rates_are_means_over_the_last_seconds(self) -> None:
        now = [0.0]
        watch = Watch(60.0, clock=lambda: now[0])
        for batch in range(21):
            now[0] = batch * 0.5
            watch.batch(Record(batch, inputs={"main1": InputCount(read=500 * batch if batch < 10 else 5_000)}))
        seen = watch.sight(NETWORK)
        assert seen.rates == {"main1": 0.0}  # nothing has come for the five seconds that count
        assert seen.batch_seconds == pytest.approx(0.5)
        assert seen.elapsed == pytest.approx(10.0)

    def test_one_batch_makes_no_rate(self) -> None:
        watch = Watch(60.0)
        watch.batch(record())
        assert watch.sight(NETWORK).rates is None

    def test_fresh_results_are_told_once(self) -> None:
        watch = Watch(60.0)
        watch.results(results(3, 4))
        assert [closed.result["n"] for closed in watch.fresh()] == [3, 4]
        assert watch.fresh() == []
        assert len(watch.sight(NETWORK).closed) == 2


class TestStopping:
    def test_the_first_signal_asks(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        with stop_on_signal() as stop:
            signal.raise_signal(signal.SIGINT)
            assert stop.is_set()
        assert signal.getsignal(signal.SIGINT) is before

    def test_a_batch_that_fails_is_forgiven_only_when_it_was_stopped(self) -> None:
        with stop_on_signal() as stop:
            with pytest.raises(InternalError), interruptible(stop):
                raise InternalError("Spark ended the run")
            stop.set()
            with interruptible(stop):
                raise InternalError("Spark ended the run")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from penstock.cli.main import app; app()", "demo", *arguments]


def tuples(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found is not None, text
    return int(found.group(1).replace(",", ""))


@pytest.mark.slow
@pytest.mark.spark
def test_the_demo_runs_on_spark_and_accounts_for_every_tuple() -> None:
    arguments = command("--seconds", "6", "--rate", "2000", "--window", "2 seconds")
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=240, env={**os.environ, "COLUMNS": "120"})
    assert done.returncode == 0, done.stdout + done.stderr
    text = done.stdout
    assert "every tuple accounted for: yes" in text
    assert "all links have ended" in text
    read = [tuples(rf"input {link} +([\d,]+) read", text) for link in ("control", "main1", "main2")]
    assert read[1:] == [12_000, 9_600]
    windows = [int(n.replace(",", "")) for n in re.findall(r"window \S+ to \S+: n = ([\d,]+)", text)]
    assert sum(windows) == sum(read) == tuples(r"([\d,]+) sum of n read back", text)


def test_a_window_that_cannot_be_read_is_refused_before_spark_starts() -> None:
    done = subprocess.run(command("--window", "five"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "cannot read the duration 'five'" in done.stderr
    assert "starting Spark" not in done.stdout
