"""`penstock trace`: where heartbeats and ETS waited on their way, and what every box costs."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penstock.runtime.board import Record
from penstock.runtime.traces import Trace

BAR_WIDTH: Final = 28


def show_traces(console: Console, traces: list[Trace]) -> None:
    """Every trace as a line of time: dots where it waited, blocks where a place was at work."""
    longest = max((trace.milliseconds for trace in traces), default=0.0)
    for trace in traces:
        where = f"input '{trace.input}', shard '{trace.shard}'"
        console.print(
            f"[bold]{trace.kind} {trace.id}[/] of {escape(where)}: {escape(trace.states)}, "
            f"{trace.milliseconds:.1f} ms in all"
        )
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
        for hop, (_, wait) in zip(trace.hops, trace.waits, strict=True):
            work = max(0, hop.left - hop.arrived) / 1000
            begins = max(0, hop.arrived - trace.made) / 1000
            took = "" if not hop.tuples_in else f"{hop.tuples_in:,} in, {hop.tuples_out:,} out"
            table.add_row(
                escape(hop.place), f"after {wait:.1f} ms", f"{work:.1f} ms", _bar(begins, wait, work, longest), took
            )
        console.print(table)


def show_statistics(console: Console, record: Record) -> None:
    """What every box has done since the start of the run."""
    table = Table("box", "in", "out", "selectivity", "us/tuple", "held", "open windows", "late")
    for name, work in record.boxes.items():
        fed = work.tuples_in
        table.add_row(
            escape(name),
            f"{fed:,}",
            f"{work.tuples_out:,}",
            f"{work.tuples_out / fed:.3g}" if fed else "",
            f"{work.seconds * 1e6 / fed:.3g}" if fed else "",
            f"{work.held_rows:,}",
            f"{work.open_windows:,}",
            f"{work.late:,}",
        )
    console.print(table)


def _bar(begins: float, waited: float, worked: float, longest: float) -> str:
    if longest <= 0:
        return ""
    before = round(max(0.0, begins - waited) / longest * BAR_WIDTH)
    dots = round(waited / longest * BAR_WIDTH)
    blocks = max(1, round(worked / longest * BAR_WIDTH))
    return " " * before + "[dim]" + "." * dots + "[/]" + "#" * blocks
