"""Queries that are attached to a run in another process: `penstock attach`, `penstock detach`, `penstock attached`."""

from __future__ import annotations

import time
from pathlib import Path
from types import FunctionType
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from penstock.cli.application import executed, load
from penstock.cli.failures import reported
from penstock.cli.versions import in_effect, since
from penstock.connectors.points.point_history import SHARE
from penstock.errors import QueryError
from penstock.language.attaching import BEGINNING_WORD, Query

Application = Annotated[Path, typer.Argument(help="The Python file that defines the network which runs.")]
Checkpoint = Annotated[str, typer.Option(help="The checkpoint of the run, which goes on in its own process.")]
WhichNetwork = Annotated[
    str | None, typer.Option("--network", help="Which variable, if the file defines several networks.")
]
Seconds = Annotated[float, typer.Option(min=0.1, help="How long to wait for the run.")]


def attach(
    application: Application,
    query: Annotated[Path, typer.Argument(help="A Python file that defines a function from streams to outputs.")],
    checkpoint: Checkpoint,
    at: Annotated[
        list[str] | None, typer.Option(help="The connection point that it reads; repeat it for several.")
    ] = None,
    to: Annotated[str | None, typer.Option(help="The lmerge that it joins, as another copy of the stream.")] = None,
    begin: Annotated[
        str, typer.Option("--since", help="'beginning', 'now', or a length of time such as '1 hour'.")
    ] = BEGINNING_WORD,
    from_time: Annotated[
        str | None, typer.Option(help="From when on a copy has all events; from the beginning, if not given.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the query is called; as its function, if not given.")] = None,
    share: Annotated[
        float, typer.Option(help="How much of the time batches of its history may take, at most.")
    ] = SHARE,
    function: Annotated[str | None, typer.Option(help="Which function, if the file defines several.")] = None,
    network: WhichNetwork = None,
    seconds: Seconds = 60.0,
) -> None:
    """Attach a query to a run: it reads what connection points hold, and then goes on with what passes there. Or, with
    --to, let another copy of a stream join an lmerge."""
    console = Console(highlight=False)
    with reported():
        net, deadline = load(application, network), time.monotonic() + seconds
        wanted = query_of(query, function)
        with console.status(f"asking the run in {checkpoint}"):
            version = net.attach(
                checkpoint,
                wanted,
                at=at or (),
                to=to,
                since=_since(begin),
                from_time=None if from_time is None else _since(from_time),
                name=name,
                share=share,
                seconds=seconds,
            )
            version = in_effect(net, checkpoint, version, deadline)
        told = version.attached[-1]
        outputs = f"its outputs: {', '.join(told['outputs'])}" if told["outputs"] else f"it has joined '{to}'"
        console.print(f"'{told['name']}' is attached {since(version)}; {outputs}")


def detach(
    application: Application,
    name: Annotated[str, typer.Argument(help="The query that was attached.")],
    checkpoint: Checkpoint,
    network: WhichNetwork = None,
    seconds: Seconds = 60.0,
) -> None:
    """End a query that was attached to a run. What it has written stays."""
    console = Console(highlight=False)
    with reported():
        net, deadline = load(application, network), time.monotonic() + seconds
        with console.status(f"asking the run in {checkpoint}"):
            version = in_effect(net, checkpoint, net.detach(checkpoint, name, seconds=seconds), deadline)
        console.print(f"'{name}' is detached {since(version)}")


def attached(application: Application, checkpoint: Checkpoint, network: WhichNetwork = None) -> None:
    """List the queries that are attached to a run: where, since when, and what comes of them."""
    console = Console(highlight=False)
    with reported():
        queries = load(application, network).look_at_versions(checkpoint)[-1].attached
        if not queries:
            console.print("no query is attached")
            return
        shown = Table("query", "at", "since", "share", "outputs")
        for query in queries:
            at, outputs = ", ".join(query["at"]), ", ".join(query["outputs"])
            shown.add_row(query["name"], at, query["since"], f"{query['share']:g}", outputs)
        console.print(shown)


def query_of(file: Path, name: str | None) -> Query:
    """The function that a Python file defines."""
    if not file.is_file():
        raise QueryError(f"there is no file {file}")
    values = executed(file, "a function from streams to outputs")
    own = values.get("__name__")
    found = {
        key: value
        for key, value in values.items()
        if isinstance(value, FunctionType) and value.__module__ == own and not key.startswith("_")
    }
    if name is not None and name in found:
        return found[name]
    if name is not None or len(found) != 1:
        raise QueryError(
            f"{file} has no function '{name}'" if name is not None else f"{file} defines {len(found)} functions",
            expected="one function from streams to outputs",
            found=", ".join(found) or "none",
            hint="name one with --function" if found else "def query(stream): stream.where('v > 3').output('few')",
        )
    return next(iter(found.values()))


def _since(text: str) -> str | int:
    return int(text) if text.isdigit() else text
