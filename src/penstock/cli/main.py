"""The command line: run, look at, change and forget networks; `penstock --help` lists the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

import penstock
from penstock.catalog.entering import place_of_run
from penstock.catalog.finding import checkpoint_to_run, name_of
from penstock.cli.application import load
from penstock.cli.attach import attach, attached, detach
from penstock.cli.boxes import boxes
from penstock.cli.check import check
from penstock.cli.demo import demo
from penstock.cli.failures import reported
from penstock.cli.files import write_table
from penstock.cli.points import show_points
from penstock.cli.runs import drop, ls, show
from penstock.cli.step import show_steps
from penstock.cli.stopping import interruptible, start_spark, stop_on_signal
from penstock.cli.storage import storage
from penstock.cli.summary import show_counts, shown_warnings
from penstock.cli.trace import show_statistics, show_traces
from penstock.cli.versions import change_run, show_versions
from penstock.plan.plan import ARCHITECTURES, OUT_OF_ORDER
from penstock.runtime.limits import Limit
from penstock.runtime.settings import AUTO, OFF, POWER, REFUSE, Settings
from penstock.storage.folder import Folder
from penstock.storage.lease import refuse_if_held

MOST = "the run puts up with: a number, or a share such as 5%."
RUN = "The run, going on or stopped: its name, or its checkpoint."
NO_BATCH = "no batch of this run has been committed yet"
ARCHITECTURE = f"How streams are run: {' or '.join(ARCHITECTURES)}."

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
app.command("demo")(demo)
app.command("boxes")(boxes)
app.command("check")(check)
app.command("ls")(ls)
app.command("show")(show)
app.command("drop")(drop)
app.command("storage")(storage)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {penstock.__version__}")
        raise typer.Exit()


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Continuous queries over streams that are late, skewed, bursty or silent, on Apache Spark."""


@app.command()
def run(
    application: Annotated[Path, typer.Argument(help="A Python file that defines a network.")],
    network: Annotated[str | None, typer.Option(help="Which variable, if the file defines several networks.")] = None,
    master: Annotated[str | None, typer.Option(help="The Spark master; local[*] if not given.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Where to keep the run, to go on after a stop; or the name of a run.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The name of the run; without --checkpoint it is kept under that name.")
    ] = None,
    rows: Annotated[int, typer.Option(min=0, help="How many tuples of each output to show.")] = 20,
    architecture: Annotated[str, typer.Option(help=ARCHITECTURE)] = OUT_OF_ORDER,
    durability: Annotated[
        str, typer.Option(help="What a committed batch survives: power (a power cut) or process (a killed process).")
    ] = POWER,
    way: Annotated[
        str, typer.Option(help="How batches get through the stages: auto (by their size), express or exchange.")
    ] = AUTO,
    optimize: Annotated[
        str, typer.Option(help="Whether boxes are put in another order while the network runs: off or on.")
    ] = OFF,
    max_refused: Annotated[str | None, typer.Option(help=f"The most refused records of an input that {MOST}")] = None,
    max_late: Annotated[str | None, typer.Option(help=f"The most late tuples of an input that {MOST}")] = None,
    keep: Annotated[
        str | None, typer.Option(help="The most that each output, late and error stream keeps, such as '1 GB'.")
    ] = None,
    disk: Annotated[str | None, typer.Option(help="The most that the run takes up on disks, such as '20 GB'.")] = None,
    when_full: Annotated[
        str, typer.Option(help="When it has: refuse (the run ends) or oldest (the oldest history leaves).")
    ] = REFUSE,
    discard: Annotated[
        list[str] | None, typer.Option(help="A changed part of the network whose state may be lost; may be repeated.")
    ] = None,
) -> None:
    """Run the network of an application: to the end of its inputs, or until Ctrl-C."""
    console = Console()
    with reported(), stop_on_signal() as stop, shown_warnings(console):
        net = load(application, network)
        for option, given in (("--max-refused", max_refused), ("--max-late", max_late)):
            if given is not None:
                Limit.of(option, given)
        Settings(durability=durability, way=way, optimize=optimize, keep=keep, disk=disk, when_full=when_full)
        checkpoint = place_of_run(checkpoint_to_run(checkpoint) if checkpoint is not None else None, name)
        if checkpoint is not None:
            refuse_if_held(Folder(checkpoint))
        start_spark(master)
        handle = net.start(
            master=master,
            checkpoint=checkpoint,
            architecture=architecture,
            durability=durability,
            way=way,
            optimize=optimize,
            max_refused=max_refused,
            max_late=max_late,
            keep=keep,
            disk=disk,
            when_full=when_full,
            discard=discard or (),
            name=name,
        )
        known = name_of(handle.checkpoint) or net.name
        console.print(f"running [bold]{known}[/], checkpoint {handle.checkpoint}; Ctrl-C stops", highlight=False)
        with interruptible(stop):
            while not (stop.is_set() or handle.wait(1.0) or handle.result.record().ended):
                pass
        if stop.is_set():
            console.print("stopping")
        with interruptible(stop):
            handle.stop()
        result = handle.result
        for output in result.outputs():
            _show(console, output, result[output], rows)
        show_counts(console, result)


@app.command()
def explain(
    application: Annotated[Path, typer.Argument(help="A Python file that defines a network.")],
    network: Annotated[str | None, typer.Option(help="Which variable, if the file defines several networks.")] = None,
    architecture: Annotated[str, typer.Option(help=ARCHITECTURE)] = OUT_OF_ORDER,
    live: Annotated[
        str | None,
        typer.Option(metavar="CHECKPOINT", help="Of a run: its plan now, what boxes cost, what the optimizer did."),
    ] = None,
) -> None:
    """Show the plan of an application's network: boxes, stages, progress of every arc."""
    with reported():
        typer.echo(load(application, network).explain(architecture=architecture, live=live))


@app.command()
def step(
    application: Annotated[Path, typer.Argument(help="A Python file that defines a network.")],
    network: Annotated[str | None, typer.Option(help="Which variable, if the file defines several networks.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many steps.")] = None,
    pause: Annotated[bool, typer.Option("--pause", help="Wait for Enter after every step; q ends.")] = False,
) -> None:
    """Show, without Spark, how the elements of an application's inputs move from box to box: a line for each step."""
    with reported():
        show_steps(load(application, network), limit, pause)


@app.command()
def why(
    application: Annotated[Path, typer.Argument(help="A Python file that defines a network.")],
    checkpoint: Annotated[str, typer.Option(help=RUN)],
    network: Annotated[str | None, typer.Option(help="Which variable, if the file defines several networks.")] = None,
) -> None:
    """Say which boxes wait, what they hold, which input and shard they wait for, and what would release them."""
    with reported():
        result = load(application, network).look(checkpoint)
        waiting, failed = result.waiting(), result.failures()
        for each in (*waiting, *failed, *result.promises()):
            typer.echo(str(each))
        for name, reasons in result.refused().items():
            typer.echo(f"input '{name}': {reasons}")
        if result.record().batch < 0:
            typer.echo(f"{NO_BATCH}, so it is not known who waits")
        elif not waiting:
            typer.echo("nothing waits")


@app.command()
def close(
    application: Annotated[Path, typer.Argument(help="A Python file that defines a network.")],
    source: Annotated[str, typer.Argument(metavar="INPUT", help="The input that the shard is of.")],
    shard: Annotated[str, typer.Argument(help="The shard: a lane of files, a link, a value of shard_by.")],
    checkpoint: Annotated[str, typer.Option(help=RUN)],
    network: Annotated[str | None, typer.Option(help="Which variable, if the file defines several networks.")] = None,
) -> None:
    """Close a shard that will not deliver any more, so that nobody waits for it; if it does, it is open again."""
    with reported():
        load(application, network).look(checkpoint).close_shard(source, shard)
        typer.echo(f"shard '{shard}' of input '{source}' is closed with the next batch of the run")


@app.command()
def change(
    application: Annotated[Path, typer.Argument(help="A Python file that defines the changed network.")],
    checkpoint: Annotated[str, typer.Option(help=RUN)],
    network: Annotated[str | None, typer.Option(help="Which variable, if the file defines several networks.")] = None,
    discard: Annotated[
        list[str] | None, typer.Option(help="A part whose state, position or results may be lost; may be repeated.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to wait for the run.")] = 60.0,
) -> None:
    """Change the network of a run while it runs: what is the same keeps its state, what is new starts empty."""
    with reported():
        change_run(Console(), load(application, network), checkpoint, discard or [], seconds)


app.command("attach")(attach)
app.command("detach")(detach)
app.command("attached")(attached)


@app.command()
def versions(
    application: Annotated[Path, typer.Argument(help="A Python file that defines a network.")],
    checkpoint: Annotated[str, typer.Option(help=RUN)],
    network: Annotated[str | None, typer.Option(help="Which variable, if the file defines several networks.")] = None,
) -> None:
    """List the versions that the network of a run has had: since which batch, when, and what has changed."""
    with reported():
        show_versions(Console(), load(application, network).look_at_versions(checkpoint))


@app.command()
def points(
    application: Annotated[Path, typer.Argument(help="A Python file that defines a network.")],
    checkpoint: Annotated[str, typer.Option(help=RUN)],
    network: Annotated[str | None, typer.Option(help="Which variable, if the file defines several networks.")] = None,
) -> None:
    """List the connection points of a run: where they are, what they hold since when, and what they keep."""
    with reported():
        show_points(Console(highlight=False), load(application, network).look(checkpoint).points())


@app.command()
def read(
    application: Annotated[Path, typer.Argument(help="A Python file that defines a network.")],
    name: Annotated[str, typer.Argument(help="An output, a connection point or a view.")],
    checkpoint: Annotated[str, typer.Option(help="The checkpoint of its run, running or stopped.")],
    network: Annotated[str | None, typer.Option(help="Which variable, if the file defines several networks.")] = None,
    master: Annotated[str | None, typer.Option(help="The Spark master, for a view that is computed.")] = None,
    rows: Annotated[int, typer.Option(min=0, help="How many tuples to show.")] = 20,
    to: Annotated[Path | None, typer.Option(help="Write them all to this file: .parquet, .csv.")] = None,
) -> None:
    """Show what an output, a connection point or a view of a run holds; a view that keeps nothing is computed."""
    console = Console()
    with reported():
        with console.status(f"reading '{name}'"):
            tuples = load(application, network).read(checkpoint, name, master=master)
        if to is not None:
            write_table(tuples, to)
        _show(console, name, tuples, rows)


@app.command()
def trace(
    application: Annotated[Path, typer.Argument(help="A Python file that defines a network.")],
    checkpoint: Annotated[str, typer.Option(help=RUN)],
    network: Annotated[str | None, typer.Option(help="Which variable, if the file defines several networks.")] = None,
    last: Annotated[int, typer.Option(min=1, help="How many of the newest traces to show.")] = 5,
) -> None:
    """Show the way of the last heartbeats and ETS through the network, where they waited, and what every box costs."""
    with reported():
        result = load(application, network).look(checkpoint)
        console, traces = Console(highlight=False), result.traces()[-last:]
        if result.record().batch < 0:
            console.print(f"{NO_BATCH}, so there is nothing to trace")
            return
        show_traces(console, traces)
        if not traces:
            console.print("no heartbeat or ETS in the last batches")
        show_statistics(console, result.record())


def _show(console: Console, output: str, tuples: pa.Table, rows: int) -> None:
    shown = Table(title=f"{output}: {tuples.num_rows:,} tuples", title_justify="left")
    for column in tuples.column_names:
        shown.add_column(column)
    for row in tuples.slice(0, rows).to_pylist():
        shown.add_row(*(str(v) for v in row.values()))
    console.print(shown)


def _register_benchmarks() -> None:
    # The benchmarks are a package of their own: an installation without them still runs networks.
    try:
        from penstock_bench.command import register
    except ImportError:
        return
    register(app)


_register_benchmarks()
