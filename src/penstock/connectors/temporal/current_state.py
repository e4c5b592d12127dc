"""`pk.current`: a target that shows the events of a temporal stream as they are, instead of its elements."""

from __future__ import annotations

from penstock.connectors.delta.declaration import Delta
from penstock.connectors.targets.console import Console
from penstock.connectors.targets.target import Target
from penstock.connectors.temporal.current_console import CurrentConsole
from penstock.connectors.temporal.current_table import CurrentTable
from penstock.errors import QueryError


def current(target: Target) -> Target:
    """Show the current state of a temporal stream: in a Delta table, or on the console.

    `pk.current(pk.delta(path))` is a table with a row for each event: `vs`, `ve` and the payload as they are after each
    batch. `pk.current(pk.console())` draws the newest events anew in place. Other targets take the elements themselves.
    """
    if isinstance(target, Delta):
        plain = Delta(target.folder)
        given = [
            f"{name}={getattr(target, name)!r}"
            for name in ("partition_by", "since", "follow", "changes", "feedback")
            if getattr(target, name) != getattr(plain, name)
        ]
        if given:
            raise QueryError(f"{given[0]} means nothing for a table of the current state", found=", ".join(given))
        return CurrentTable(target.folder, target.mode, (), target.compact, target.punctuation)
    if isinstance(target, Console):
        return CurrentConsole(target.limit)
    raise QueryError(
        "this target cannot revise what it has shown",
        expected="pk.delta(...) or pk.console()",
        found=repr(target),
        hint="output(name, to=...) without pk.current(...) gives it the elements",
    )
