"""The command line: `penstock run`, `explain`, `demo`, `bench`."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

import penstock
from penstock.api import Network
from penstock.cli.demo import demo
from penstock.errors import InternalError, PenstockError, QueryError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
app.command("demo")(demo)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {penstock.__version__}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Continuous queries over streams that are late, skewed, bursty or silent, on Apache Spark."""


@app.command()
def run(
    application: Annotated[Path, typer.Argument(help="A Python file that defines a network.")],
    network: Annotated[str | None, typer.Option(help="Which variable, if the file defines several networks.")] = None,
    master: Annotated[str | None, typer.Option(help="The Spark master; local[*] if not given.")] = None,
    checkpoint: Annotated[str | None, typer.Option(help="Where to keep the run, to go on after a stop.")] = None,
    rows: Annotated[int, typer.Option(min=0, help="How many tuples of each output to show.")] = 20,
) -> None:
    """Run the network of an application: to the end of its inputs, or until Ctrl-C."""
    with _reported():
        net = load(application, network)
        console = Console()
        handle = net.start(master=master, checkpoint=checkpoint)
        console.print(f"running [bold]{net.name}[/], checkpoint {handle.checkpoint}; Ctrl-C stops", highlight=False)
        try:
            while not handle.wait(1.0):
                if handle.result.record().ended:
                    break
        except KeyboardInterrupt:
            console.print("stopping")
        result = handle.stop()
        for output in result.outputs():
            _show(console, output, result[output], rows)
        for name, count in result.record().inputs.items():
            console.print(
                f"{name}: {count.read:,} read = {count.taken:,} taken + {count.late:,} late + {count.refused:,} refused"
                + (f" + {count.punctuation:,} punctuation" if count.punctuation else ""),
                highlight=False,
            )


@app.command()
def explain(
    application: Annotated[Path, typer.Argument(help="A Python file that defines a network.")],
    network: Annotated[str | None, typer.Option(help="Which variable, if the file defines several networks.")] = None,
) -> None:
    """Show the plan of an application's network: boxes, stages, progress of every arc."""
    with _reported():
        typer.echo(load(application, network).explain())


def load(application: Path, name: str | None) -> Network:
    """The network that a Python file defines."""
    if not application.is_file():
        raise QueryError(f"there is no file {application}")
    found = {
        key: value for key, value in runpy.run_path(str(application)).items() if isinstance(value, Network)
    }
    if name is not None and name in found:
        return found[name]
    if name is not None or len(found) != 1:
        raise QueryError(
            f"{application} defines {len(found)} networks" if name is None else f"{application} has no network '{name}'",
            expected="one variable that is a pk.Network",
            found=", ".join(found) or "none",
            hint="name one with --network" if found else "net = pk.Network('name') at the top level of the file",
        )
    return next(iter(found.values()))


def _show(console: Console, output: str, tuples: pa.Table, rows: int) -> None:
    shown = Table(title=f"{output}: {tuples.num_rows:,} tuples", title_justify="left")
    for column in tuples.column_names:
        shown.add_column(column)
    for row in tuples.slice(0, rows).to_pylist():
        shown.add_row(*(str(v) for v in row.values()))
    console.print(shown)


@contextmanager
def _reported() -> Iterator[None]:
    """Errors as people read them: exit code 2 for the user's query, 1 for everything else."""
    try:
        yield
    except PenstockError as error:
        Console(stderr=True).print(str(error), style="red", markup=False, highlight=False)
        if isinstance(error, InternalError):
            raise
        sys.exit(2 if isinstance(error, QueryError) else 1)


def _register_benchmarks() -> None:
    # The benchmarks are a package of their own: an installation without them still runs networks.
    try:
        from penstock_bench.command import register
    except ImportError:
        return
    register(app)


_register_benchmarks()
