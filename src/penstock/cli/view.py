"""The live view of a running network: a pure function from a `Sight` to what a terminal shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from rich import box as borders
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.algebra.box import Output
from penstock.algebra.marks import UNKNOWN
from penstock.algebra.source import Source
from penstock.algebra.ticks import BEGINNING, END, from_ticks, tick_ns, tick_of
from penstock.boxes.aggregate.box import Aggregate
from penstock.cli.watch import Closed, Sight
from penstock.runtime.work import BoxWork, InputCount

SHOWN_WINDOWS: Final = 5
WIDE: Final = 118
"""Columns from which boxes and windows stand side by side."""
_BAR_WIDTH: Final = 24
_NANOSECONDS: Final = 1e9


class View:
    """A sight, laid out for the width of the terminal."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        sight = self._sight
        boxes, windows = box_table(sight), window_table(sight)
        yield heading(sight)
        yield Text()
        yield input_table(sight)
        yield waiting(sight)
        yield Text()
        if options.max_width >= WIDE:
            beside = Table.grid(padding=(0, 4))
            beside.add_row(boxes, windows)
            yield beside
        else:
            yield Group(boxes, Text(), windows)
        yield Text()
        yield clock(sight)


def heading(sight: Sight) -> Text:
    """One line: how far the run is."""
    text = Text.assemble(("penstock ", "bold cyan"), (sight.network.name, "bold"))
    if sight.record.batch < 0:
        return text.append("   Spark is up, the first batch is on its way")
    text.append(f"   {_batches(sight)}")
    if sight.batch_seconds is not None:
        text.append(f", one every {sight.batch_seconds:.1f} s")
    read = sum(count.read for count in sight.record.inputs.values())
    text.append(f"   {read:,} tuples read")
    if sight.rates is not None:
        text.append(f", {sum(sight.rates.get(s.name, 0.0) for s in sight.network.sources):,.0f}/s")
    return text


def input_table(sight: Sight) -> Table:
    """Per input: what it delivered, and how far its low-water mark lags behind the newest tuple of all inputs."""
    table = _table("input", "read", "per s", "late", "refused", "low-water mark", "behind", left=("input",))
    newest, held_by = newest_tick(sight), holding(sight)
    for source in sight.network.sources:
        count, mark = sight.record.inputs.get(source.name, InputCount()), mark_of(sight, source)
        table.add_row(
            Text(source.name, "bold yellow" if source.name in held_by else "bold"),
            f"{count.read:,}",
            _rate(sight, source.name),
            Text(f"{count.late:,}", "red" if count.late else ""),
            Text(f"{count.refused:,}", "red" if count.refused else ""),
            _moment(mark, source.on_type),
            "" if mark in (BEGINNING, END) else _length(newest - mark, source.on_type),
        )
    return table


def waiting(sight: Sight) -> Text:
    """Which input holds the windows back, and what the next window waits for."""
    if sight.record.batch < 0:
        return Text()
    held_by = holding(sight)
    if not held_by:
        return Text(" every input has ended: all windows are closed", "green")
    verb = "hold" if len(held_by) > 1 else "holds"
    text = Text.assemble(" ", (" and ".join(held_by), "bold yellow"), f" {verb} the windows back")
    text.no_wrap, text.overflow = True, "ellipsis"  # a view that keeps its height does not jump
    for box in _aggregates(sight):
        mark = sight.record.marks[box.inputs[0].name].of(box.on)
        if mark not in (BEGINNING, END):
            end = box.window.start_of(box.window.last_closed(mark) + 1) + box.window.size
            kind = box.inputs[0].schema.field(box.on).type
            text.append(f": the next closes at {_moment(end, kind)}, {_length(end - mark, kind)} ahead")
    return text


def box_table(sight: Sight) -> Table:
    """Per box: tuples through it, and what it holds."""
    table = _table("box", "in", "out", "in per s", "state\nheld", "open\nwindows", left=("box",))
    for box in sight.network.boxes:
        if isinstance(box, Source | Output):
            continue
        work = sight.record.boxes.get(box.name, BoxWork())
        holds = box.has_windows
        table.add_row(
            Text.assemble((box.name, "bold"), *([(f" {box.kind}", "dim")] if box.kind != box.name else [])),
            f"{work.tuples_in:,}",
            f"{work.tuples_out:,}",
            _rate(sight, box.name),
            f"{work.held_rows:,}" if holds else "",
            f"{work.open_windows:,}" if holds else "",
        )
    return table


def window_table(sight: Sight) -> Table:
    """The last windows that closed, newest first, and how long after their end their results were out."""
    box = next(iter(_aggregates(sight)), None)
    columns = box.schema(0).names[1:] if box is not None else []
    table = _table("window closed", *columns, "out after", left=("window closed",))
    if box is not None:
        for closed in reversed(sight.closed[-SHOWN_WINDOWS:]):
            table.add_row(*window_row(box, closed, columns))
    for _ in range(SHOWN_WINDOWS - min(SHOWN_WINDOWS, len(sight.closed))):
        table.add_row()  # a view that keeps its height does not jump
    return table


def window_row(box: Aggregate, closed: Closed, columns: list[str]) -> list[str]:
    """A closed window: its span, its results, and its delay."""
    kind = box.inputs[0].schema.field(box.on).type
    start = tick_of(closed.result[box.on], kind)
    span = f"{_moment(start, kind, whole=True)} to {_moment(start + box.window.size, kind, whole=True)}"
    values = [f"{v:,}" if isinstance(v, int) else str(v) for v in (closed.result[c] for c in columns)]
    delay = delay_of(box, closed)
    # The end of the inputs closes a window before its time is over.
    when = "" if delay is None else f"{delay:.1f} s" if delay > 0 else "the end"
    return [span, *values, when]


def delay_of(box: Aggregate, closed: Closed) -> float | None:
    """Seconds from the end of a window (by its own time) to its result; None if its ticks are no time."""
    kind = box.inputs[0].schema.field(box.on).type
    unit = tick_ns(kind)
    if unit is None:
        return None
    return closed.at - (tick_of(closed.result[box.on], kind) + box.window.size) * unit / _NANOSECONDS


def clock(sight: Sight) -> Table:
    """Elapsed and remaining time."""
    grid = Table.grid(padding=(0, 1))
    if sight.stopping:
        grid.add_row(" stopping: the batch under way is finished or left out whole")
    elif sight.seconds is None:
        grid.add_row(f" {sight.elapsed:.0f} s", Text("Ctrl-C stops", "dim"))
    else:
        left = sight.seconds - sight.elapsed
        bar = ProgressBar(sight.seconds, min(sight.elapsed, sight.seconds), _BAR_WIDTH)
        rest = f"{left:.0f} s left, Ctrl-C stops" if left >= 1 else "the last tuples are on their way"
        grid.add_row("", bar, f"{sight.elapsed:.0f} s", Text("" if sight.record.ended else rest, "dim"))
    return grid


def plain_line(sight: Sight) -> str:
    """The view in one line, for a log."""
    record = sight.record
    if record.batch < 0:
        return f"{sight.elapsed:4.0f} s  waiting for the first batch"
    counts, work = record.inputs.values(), [record.boxes.get(b.name, BoxWork()) for b in _aggregates(sight)]
    rate = "" if sight.rates is None else f" ({sum(sight.rates.get(s.name, 0) for s in sight.network.sources):,.0f}/s)"
    parts = [
        f"{sight.elapsed:4.0f} s",
        _batches(sight),
        f"{sum(c.read for c in counts):,} read{rate}",
        f"{sum(c.late for c in counts):,} late",
        f"{sum(c.refused for c in counts):,} refused",
        *([f"{skipped:,} skipped"] if (skipped := sum(c.skipped for c in counts)) else []),
        *([f"{purged:,} purged"] if (purged := sum(w.purged for w in record.boxes.values())) else []),
        f"{sum(w.tuples_out for w in work):,} results",
        f"{sum(w.open_windows for w in work):,} open windows",
    ]
    held_by = holding(sight)
    parts.append(f"held back by {' and '.join(held_by)}" if held_by else "all inputs have ended")
    return "  ".join(parts)


def holding(sight: Sight) -> list[str]:
    """The inputs whose low-water mark is the smallest: the windows wait for them."""
    marks = {source.name: mark_of(sight, source) for source in sight.network.sources}
    lowest = min(marks.values(), default=END)
    if lowest == END or sight.record.batch < 0:
        return []
    return [name for name, mark in marks.items() if mark == lowest]


def mark_of(sight: Sight, source: Source) -> int:
    return sight.record.marks.get(source.name, UNKNOWN).of(source.on)


def newest_tick(sight: Sight) -> int:
    """The largest value that any shard of any input has delivered."""
    return max((e.largest for shards in sight.record.shards.values() for e in shards.values()), default=BEGINNING)


def _aggregates(sight: Sight) -> list[Aggregate]:
    return [box for box in sight.network.boxes if isinstance(box, Aggregate)]


def _table(*columns: str, left: tuple[str, ...]) -> Table:
    table = Table(box=borders.SIMPLE_HEAD, padding=(0, 1), header_style="dim", show_edge=False, pad_edge=True)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", no_wrap=True)
    return table


def _batches(sight: Sight) -> str:
    count = sight.record.batch + 1
    return f"{count:,} batch{'es' if count != 1 else ''}"


def _rate(sight: Sight, name: str) -> str:
    if sight.rates is None:
        return ""
    rate = sight.rates.get(name, 0.0)
    # A nearly silent link would round to nothing.
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def _moment(tick: int, kind: pa.DataType, *, whole: bool = False) -> str:
    """A tick as a time of day, or as itself; `whole` leaves fractions of a second out where they are none."""
    if tick == END:
        return "ended"
    if tick == BEGINNING:
        return "silent so far"
    if not pa.types.is_timestamp(kind):
        return str(from_ticks(pa.array([tick], pa.int64()), kind)[0].as_py())
    moment = from_ticks(pa.array([tick], pa.int64()), kind).cast(pa.timestamp("us"))[0].as_py()
    if whole and not moment.microsecond:
        return f"{moment:%H:%M:%S}"
    return f"{moment:%H:%M:%S}.{moment.microsecond // 100_000}"


def _length(ticks: int, kind: pa.DataType) -> str:
    unit = tick_ns(kind)
    return f"{ticks:,}" if unit is None else f"{ticks * unit / _NANOSECONDS:.1f} s"
