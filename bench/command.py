"""`penstock bench`: run a benchmark beside its peers."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from penstock.errors import PenstockError
from penstock_bench.catalog import BENCHMARKS, choose, find, names
from penstock_bench.contract import Benchmark, Peer, Size
from penstock_bench.measure import best, measure
from penstock_bench.report import document, floor_table, table

ROUNDS = 3
"""How often peers take turns, unless the benchmark or the user says otherwise."""


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command("bench")(bench)


def bench(
    name: Annotated[str | None, typer.Argument(help="Which benchmark; without one, they are listed.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="How many rows.")] = None,
    groups: Annotated[int | None, typer.Option(min=1, help="How many distinct groups.")] = None,
    against: Annotated[list[str] | None, typer.Option(help="A peer to run beside ours; all, if not given.")] = None,
    case: Annotated[
        list[str] | None, typer.Option(help="A case of the benchmark, where it has several; all, if not given.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Peers take turns this often; the best round counts. Most often 3.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the results to this file too.")] = None,
    keep_data: Annotated[
        Path | None, typer.Option(help="Keep the data in this folder, and use what a run before has left there.")
    ] = None,
) -> None:
    """Run a benchmark beside its peers, each in a fresh process, and compare."""
    console = Console()
    if name is None:
        console.print(listing())
        return
    try:
        chosen = find(name)
        peers = choose(chosen, against or [], case or [])
        size = Size(rows or chosen.size.rows, groups or chosen.size.groups)
        turns = rounds or getattr(chosen, "rounds", ROUNDS)
        found = conduct(chosen, size, peers, rounds=turns, keep_data=keep_data, console=console)
    except PenstockError as error:
        # Not as markup: an error may quote text with brackets of its own.
        Console(stderr=True).print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(2) from error
    console.print(table(found))
    for pair, times in found.get("growth", {}).items():
        console.print(f"{pair}: {times:.2f} times as long", highlight=False)
    if "floor" in found:
        console.print(floor_table(found))
    for part in chosen.shown(found) if hasattr(chosen, "shown") else ():
        console.print(part)
    if json_file is not None:
        json_file.write_text(json.dumps(found, indent=2) + "\n")
    if not all(result["correct"] for result in found["results"].values()):
        raise typer.Exit(1)


def listing() -> Table:
    """The benchmarks, a line each."""
    shown = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for each in BENCHMARKS:
        shown.add_row(f"[bold]{each.name}[/]", f"{each.summary} ({', '.join(names(each.peers))})")
    return shown


def conduct(
    chosen: Benchmark, size: Size, peers: list[Peer], *, rounds: int, keep_data: Path | None, console: Console
) -> dict[str, Any]:
    """Prepare, run all rounds and compare, with a progress bar; leaves nothing behind but `keep_data`."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        _stopped_by_terminate(),
        tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as temporary,
        Progress(*columns, console=console) as progress,
    ):
        data = (keep_data or Path(temporary) / "data").resolve()
        data.mkdir(parents=True, exist_ok=True)
        writing = progress.add_task("data", total=size.rows)
        chosen.prepare(size, data, lambda done: progress.advance(writing, done))
        running = progress.add_task(chosen.name, total=rounds * len(peers))
        turns = [(turn, peer.label) for turn in range(1, rounds + 1) for peer in peers]

        def watch(turn: int, peer: str, stage: str) -> None:
            if stage.startswith("wrong"):
                progress.console.print(f"round {turn}, {peer}: {stage}", style="red", markup=False)
                return
            doing = f"{chosen.name}: round {turn} of {rounds}, {peer}, {stage}"
            progress.update(running, description=doing, completed=turns.index((turn, peer)))

        scratch = Path(temporary) / "runs"
        runs = measure(chosen, size, peers, rounds=rounds, data=data, scratch=scratch, watch=watch)
        progress.update(running, description=chosen.name, completed=len(turns))
    return document(chosen, size, best(runs))


@contextmanager
def _stopped_by_terminate() -> Iterator[None]:
    """Let a polite kill clean up as Ctrl-C does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
