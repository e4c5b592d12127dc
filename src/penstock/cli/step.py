"""`penstock step`: watch a network work, element by element."""

from __future__ import annotations

import typer

from penstock.api import Network
from penstock.errors import QueryError


def show_steps(net: Network, limit: int | None, pause: bool) -> None:
    """A line for each step over what the inputs bring; then what has left, and what is still queued."""
    unbounded = [source.name for source in net.network.sources if not source.connector.bounded]
    if unbounded and limit is None and not pause:
        raise QueryError(
            f"the input '{unbounded[0]}' never ends, so the steps would not either",
            network=net.name,
            hint="say how many with --limit, or --pause",
        )
    stepper = net.stepper()
    done = 0
    while limit is None or done < limit:
        step = stepper.step()
        if step is None:
            if not stepper.pull():
                break
            continue
        done += 1
        typer.echo(str(step))
        if pause and _asked_to_end():
            break
    for output in net.network.outputs:
        typer.echo(f"{output.name}: {stepper.output(output.name).num_rows:,} tuples")
    for source in net.network.sources:
        late = stepper.late(source.name).num_rows if source.late == "route" else 0
        for number, what in ((late, "late"), (stepper.errors(source.name).num_rows, "refused")):
            if number:
                typer.echo(f"{source.name}: {number:,} {what}")
    for label, length in stepper.queues().items():
        if length:
            typer.echo(f"still queued: {label}: {length:,}")


def _asked_to_end() -> bool:
    """Wait for Enter; whether somebody has typed q, or the input of the command has ended."""
    try:
        return input() == "q"
    except EOFError:
        return True
