"""The connection points of a run, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from penstock.connectors.points.account import PointAccount


def show_points(console: Console, points: Sequence[PointAccount]) -> None:
    """A line for each: where it is, how much it holds since when, and what it is told to keep."""
    if not points:
        console.print("the network has no connection points")
        return
    shown = Table("point", "rows", "bytes", "files", "since", "keeps", "key")
    for point in points:
        since = point.since.strftime("%Y-%m-%d %H:%M:%S") if point.since is not None else ""
        numbers = (f"{number:,}" for number in (point.rows, point.bytes, point.files))
        shown.add_row(point.name, *numbers, since, point.keep, ", ".join(point.key))
    console.print(shown)
    for point in points:
        # On a line of its own: a path that is wrapped cannot be copied.
        console.print(f"{point.name}: {point.place}", soft_wrap=True)
