"""`penstock storage`: what of a run lies where, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penstock.catalog.database import Catalog
from penstock.catalog.finding import checkpoint_of
from penstock.catalog.storage_account import StorageLine, storage_of
from penstock.cli.failures import reported
from penstock.errors import QueryError
from penstock.runtime.footprint import total
from penstock.runtime.opening import has_run
from penstock.storage.folder import Folder
from penstock.storage.sizes import size_text


def storage(
    run: Annotated[str, typer.Argument(help="The run, going on or stopped: its name, or its checkpoint.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Say what of a run lies where: how much it is, what limits it, and what could be freed."""
    with reported():
        checkpoint = Folder(checkpoint_of(run))
        if not has_run(checkpoint):
            raise QueryError(f"there is no run in {checkpoint.path}", hint="`penstock ls` lists the runs")
        entry = Catalog().at(checkpoint.path)
        lines = storage_of(checkpoint, entry)
        disk = entry.disk if entry is not None else ""
        if as_json:
            typer.echo(json.dumps(_document(checkpoint.path, lines, disk), indent=2))
            return
        console = Console(highlight=False)
        shown = Table("what", "bytes", "files", "limit", "could be freed", box=None, padding=(0, 2, 0, 0))
        for line in lines:
            free = f"{size_text(line.free)}, by {line.how}" if line.free else ""
            numbers = size_text(line.stored.bytes), f"{line.stored.files:,}"
            shown.add_row(escape(line.stored.title), *numbers, escape(line.limit), escape(free))
            for box, size in (line.of or {}).items():
                shown.add_row(escape(f"  held by {box}"), size_text(size), "", "", "")
        console.print(shown)
        stored = [line.stored for line in lines]
        files = sum(one.files for one in stored)
        limit = f", of at most {disk}" if disk else ", without a limit of its own (disk=)"
        console.print(f"{size_text(total(stored))} in {files:,} files{limit}")
        for place in dict.fromkeys(one.place for one in stored):
            console.print(place, soft_wrap=True, markup=False)


def _document(checkpoint: str, lines: Sequence[StorageLine], disk: str) -> dict[str, object]:
    return {
        "checkpoint": checkpoint,
        "bytes": total(line.stored for line in lines),
        "files": sum(line.stored.files for line in lines),
        "disk": disk or None,
        "stored": [
            {
                "kind": line.stored.kind,
                "name": line.stored.name,
                "place": line.stored.place,
                "bytes": line.stored.bytes,
                "files": line.stored.files,
                "limit": line.limit,
                "free": line.free,
                "how": line.how,
                **({"boxes": dict(line.of)} if line.of is not None else {}),
            }
            for line in lines
        ],
    }
