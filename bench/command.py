"""`penstock bench`: run a benchmark beside its peers, or show and plot what a run has saved."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from penstock.errors import PenstockError, QueryError
from penstock_bench.catalog import BENCHMARKS, choose, find, names
from penstock_bench.contract import OURS, Benchmark, Peer, Size, Turn
from penstock_bench.measure import Runs, best, measure, processes
from penstock_bench.plots import SUFFIXES, check_place, check_plot, plot
from penstock_bench.report import document, floor_table, load, table, turns_table

ROUNDS = 3
"""How often peers take turns, unless the benchmark or the user says otherwise."""
RUN_OPTIONS: Final = ("--rows", "--groups", "--against", "--case", "--rounds", "--json", "--keep-data", "--profile")
"""What is only about a run that is still to come."""


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
    plot_file: Annotated[
        Path | None, typer.Option("--plot", help=f"Draw the results into this file ({', '.join(SUFFIXES)}).")
    ] = None,
    saved: Annotated[
        Path | None, typer.Option("--from", help="Run nothing: show, and plot, the results in this file of --json.")
    ] = None,
    keep_data: Annotated[
        Path | None, typer.Option(help="Keep the data in this folder, and use what a run before has left there.")
    ] = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Find out where our time goes, too, with one more run of every case.")
    ] = False,
) -> None:
    """Run a benchmark beside its peers, each in a fresh process, and compare."""
    console = Console()
    with _reported():
        if saved is not None:
            given = (rows, groups, against, case, rounds, json_file, keep_data, profile)
            _run_nothing([option for option, value in zip(RUN_OPTIONS, given, strict=True) if value])
            found = load(saved)
            chosen = find(found["bench"])
            _same(name, chosen, saved)
            check_plot(chosen, plot_file)
        elif name is None:
            _plot_what(plot_file)
            console.print(listing())
            return
        else:
            chosen = find(name)
            peers = choose(chosen, against or [], case or [], profile=profile)
            # What cannot be written is said before anything runs, not after many minutes.
            check_plot(chosen, plot_file)
            check_place(json_file)
            size = Size(rows or chosen.size.rows, groups or chosen.size.groups)
            times = rounds if rounds is not None else int(getattr(chosen, "rounds", ROUNDS))
            found = conduct(
                chosen, size, peers, rounds=times, keep_data=keep_data, console=console, json_file=json_file
            )
        show(chosen, found, console)
        if json_file is not None:
            _save(found, json_file)
        if plot_file is not None:
            plot(chosen, found, plot_file)
    ours_failed = any(name.startswith(OURS) for name in found.get("unanswered", {}))
    if ours_failed or not all(result["correct"] for result in found["results"].values()):
        raise typer.Exit(1)


def show(chosen: Benchmark, found: Mapping[str, Any], console: Console) -> None:
    """Results for people."""
    if not getattr(chosen, "matrix", False):
        console.print(table(found))
    for pair, times in found.get("growth", {}).items():
        console.print(f"{pair}: {times:.2f} times as long", highlight=False)
    if "floor" in found:
        console.print(floor_table(found))
    if "turns" in found:
        console.print(turns_table(found))
    for part in chosen.shown(found) if hasattr(chosen, "shown") else ():
        console.print(part)


def listing() -> Table:
    """The benchmarks, a line each."""
    shown = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for each in BENCHMARKS:
        shown.add_row(f"[bold]{each.name}[/]", f"{each.summary} ({', '.join(names(each.peers))})")
    return shown


def conduct(
    chosen: Benchmark,
    size: Size,
    peers: list[Peer],
    *,
    rounds: int,
    keep_data: Path | None,
    console: Console,
    json_file: Path | None = None,
) -> dict[str, Any]:
    """Prepare, run all rounds and compare, with a progress bar, or a line for every run where there is no terminal.

    Leaves nothing behind but `keep_data`; and of a matrix, which takes long, what has run so far in `json_file`.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        _stopped_by_terminate(),
        tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as temporary,
        Progress(*columns, console=console) as progress,
    ):
        data = (keep_data or Path(temporary) / "data").resolve()
        data.mkdir(parents=True, exist_ok=True)
        writing = progress.add_task("data", total=size.rows)
        written = partial(progress.advance, writing)
        if hasattr(chosen, "prepare_cases"):
            chosen.prepare_cases(list(dict.fromkeys(peer.case for peer in peers)), size, data, written)
        else:
            chosen.prepare(size, data, written)
        turns = [turn for shared in processes(chosen, peers, rounds) for turn in shared]
        running = progress.add_task(chosen.name, total=len(turns))

        def watch(turn: Turn, stage: str) -> None:
            if stage.startswith("wrong"):
                progress.console.print(f"round {turn.round}, {turn.peer}: {stage}", style="red", markup=False)
                return
            doing = f"{chosen.name}: round {turn.round} of {rounds}, {turn.peer}, {stage}"
            progress.update(running, description=doing, completed=turns.index(turn))

        def after(runs: Runs, turn: Turn) -> None:
            last = runs[turn.peer][-1]
            if not console.is_terminal and not last.failure:
                progress.console.print(f"round {turn.round}, {turn.peer}: {last.seconds:.2f} s", highlight=False)
            if json_file is not None and getattr(chosen, "matrix", False):
                so_far = {name: own for name, own in runs.items() if own}
                _save(document(chosen, size, best(so_far), so_far), json_file)

        scratch = Path(temporary) / "runs"
        runs = measure(chosen, size, peers, rounds=rounds, data=data, scratch=scratch, watch=watch, after=after)
        progress.update(running, description=chosen.name, completed=len(turns))
    return document(chosen, size, best(runs), runs)


def _save(found: Mapping[str, Any], file: Path) -> None:
    """Write results in one go: who looks, or pulls the plug, finds those of before or these."""
    if file.exists() and not file.is_file():  # such as /dev/stdout
        file.write_text(json.dumps(found, indent=2) + "\n")
        return
    unfinished = file.with_name(f".{file.name}.unfinished")
    unfinished.write_text(json.dumps(found, indent=2) + "\n")
    unfinished.replace(file)


def _run_nothing(given: Sequence[str]) -> None:
    if given:
        raise QueryError(
            f"{', '.join(given)} beside --from: nothing is run",
            expected="--from with --plot alone",
            hint="leave --from out to run the benchmark again",
        )


def _same(name: str | None, chosen: Benchmark, saved: Path) -> None:
    if name not in (None, chosen.name):
        raise QueryError(
            f"'{saved}' has results of another benchmark",
            expected=f"results of '{name}'",
            found=f"results of '{chosen.name}'",
            hint="leave the name out: --from knows it",
        )


def _plot_what(plot_file: Path | None) -> None:
    if plot_file is not None:
        raise QueryError(
            "--plot without anything to plot",
            expected="the name of a benchmark, or --from with a file that --json wrote",
            hint="`penstock bench` alone lists the benchmarks",
        )


@contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except PenstockError as error:
        # Not as markup: an error may quote text with brackets of its own.
        Console(stderr=True).print(str(error), style="red", markup=False, highlight=False)
        raise typer.Exit(2) from error


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
