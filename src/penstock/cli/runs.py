"""`penstock ls`, `penstock show`, `penstock drop`: the runs of this user, found by name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penstock.catalog.database import Catalog
from penstock.catalog.dropping import drop as drop_run
from penstock.catalog.entry import INPUT, OUTPUT, POINT, TABLE, VIEW, PartEntry, RunEntry
from penstock.catalog.facts import GONE, RunFacts, facts_of, point_facts
from penstock.catalog.finding import unknown
from penstock.cli.failures import reported
from penstock.cli.trace import show_statistics
from penstock.cli.versions import show_versions
from penstock.errors import QueryError
from penstock.storage.sizes import size_text

JSON = "As JSON, for programs."


def ls(as_json: Annotated[bool, typer.Option("--json", help=JSON)] = False) -> None:
    """List the runs of this user, with their connection points and tables: how they stand, and what they hold."""
    with reported():
        lines = [line for entry in Catalog().runs() for line in _lines(facts_of(entry))]
        if as_json:
            typer.echo(json.dumps(lines, indent=2))
            return
        console = Console(highlight=False)
        if not lines:
            console.print("no run has been started with a checkpoint or a name")
            return
        shown = Table("kind", "name", "state", "batch", "rows", "size", box=None, padding=(0, 2, 0, 0))
        for line in lines:
            numbers = [f"{line[key]:,}" if line[key] is not None else "" for key in ("batch", "rows")]
            size = size_text(line["bytes"]) if line["bytes"] is not None else ""
            told = f"{line['state']} ({line['told']})" if line["told"] else line["state"]
            shown.add_row(line["kind"], escape(line["name"]), escape(told), *numbers, size)
        console.print(shown, soft_wrap=True)


def show(
    name: Annotated[str, typer.Argument(help="A run; or RUN/POINT, a part of one.")],
    as_json: Annotated[bool, typer.Option("--json", help=JSON)] = False,
) -> None:
    """Show a run: how it stands, the schemas of its inputs, outputs and points, its versions, and what its boxes do."""
    with reported():
        entry, part = _found(name)
        facts = facts_of(entry)
        if as_json:
            typer.echo(json.dumps(_document(facts) if part is None else _part(part, facts), indent=2))
            return
        console = Console(highlight=False)
        if part is not None:
            for key, value in _part(part, facts).items():
                console.print(f"{key}: {_value(value)}", soft_wrap=True, markup=False)
            return
        _show_run(console, facts)


def drop(
    name: Annotated[str | None, typer.Argument(help="A run.")] = None,
    data: Annotated[
        bool, typer.Option("--data", help="Delete its checkpoint and its connection points as well.")
    ] = False,
    gone: Annotated[bool, typer.Option("--gone", help="Forget all runs whose checkpoints are gone.")] = False,
) -> None:
    """Forget a run; refused while a process uses it."""
    with reported():
        if (name is None) != gone or (gone and data):
            raise QueryError("say what to forget", expected="the name of a run, or --gone alone")
        runs = [_run(name)] if name is not None else [e for e in Catalog().runs() if facts_of(e).state == GONE]
        for entry in runs:
            deleted = drop_run(entry, data=data)
            typer.echo(f"'{entry.name}' is forgotten")
            for place in deleted:
                typer.echo(f"deleted {place}")
            if name is not None and entry.place not in deleted and facts_of(entry).state != GONE:
                typer.echo(f"its checkpoint stays: {entry.place}")


def _run(name: str) -> RunEntry:
    found = Catalog().named(name)
    if found is None:
        raise unknown(name)
    return found


def _found(name: str) -> tuple[RunEntry, PartEntry | None]:
    """A run, or a part of one."""
    run, _, wanted = name.partition("/")
    entry = _run(run)
    if not wanted:
        return entry, None
    found = next((part for part in entry.parts if part.name == wanted), None)
    if found is None:
        known = ", ".join(part.name for part in entry.parts)
        raise QueryError(f"the run '{run}' has no part '{wanted}'", expected=f"one of {known}")
    return entry, found


def _lines(facts: RunFacts) -> Iterable[dict[str, Any]]:
    """A line for a run, and one for each of its points, views and tables."""
    entry = facts.entry
    gone = facts.state == GONE
    yield {
        "kind": "run",
        "name": entry.name,
        "state": facts.state,
        "told": facts.told,
        "batch": facts.batch,
        "rows": None if facts.record is None else facts.rows,
        "bytes": None if gone else facts.bytes,
        "place": entry.place,
    }
    for part in entry.of_kind(POINT, VIEW, TABLE):
        held = point_facts(part) if part.kind == POINT and not gone else None
        yield {
            "kind": part.kind,
            "name": f"{entry.name}/{part.name}",
            "state": GONE if part.kind == POINT and held is None else "",
            "told": "",
            "batch": None,
            "rows": held.rows if held is not None else None,
            "bytes": held.bytes if held is not None else None,
            "place": part.place,
        }


def _part(part: PartEntry, facts: RunFacts) -> dict[str, Any]:
    told: dict[str, Any] = {"kind": part.kind, "name": part.name, "run": facts.entry.name, "place": part.place}
    if part.keeps:
        told["keeps"] = part.keeps
    if part.kind == POINT and (held := point_facts(part)) is not None:
        told |= {"rows": held.rows, "bytes": held.bytes, "files": held.files}
    record = facts.record
    if record is not None and part.kind == INPUT and part.name in record.inputs:
        told |= record.inputs[part.name].to_json()
    if record is not None and part.kind in (OUTPUT, POINT):
        told["left"] = record.outputs.get(part.name, 0)
    return {**told, "columns": dict(part.columns)}


def _document(facts: RunFacts) -> dict[str, Any]:
    entry, record = facts.entry, facts.record
    return {
        "name": entry.name,
        "network": entry.network,
        "state": facts.state,
        "told": facts.told,
        "checkpoint": entry.place,
        "started": entry.entered,
        "architecture": facts.identity["architecture"] if facts.identity else None,
        "buckets": facts.identity["buckets"] if facts.identity else None,
        "batch": facts.batch,
        "bytes": facts.bytes,
        "files": facts.files,
        "disk": entry.disk or None,
        "parts": [_part(part, facts) for part in entry.parts],
        "versions": [{"number": v.number, "batch": v.batch, "at": v.at} for v in facts.versions],
        "boxes": {name: work.to_json() for name, work in record.boxes.items()} if record is not None else {},
    }


def _show_run(console: Console, facts: RunFacts) -> None:
    told, entry = _document(facts), facts.entry
    state = f"{facts.state} ({facts.told})" if facts.told else facts.state
    started = datetime.fromtimestamp(entry.entered / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
    lines = {
        "run": entry.name,
        "network": entry.network,
        "state": state,
        "checkpoint": entry.place,
        "last start": f"{started} UTC",
        "architecture": told["architecture"],
        "buckets": told["buckets"],
        "last batch": told["batch"],
        "on disk": f"{size_text(facts.bytes)} in {facts.files:,} files" if facts.files else None,
        "at most": entry.disk or None,
    }
    for key, value in lines.items():
        if value is not None:
            # Not as markup, and not wrapped: a path is to be copied.
            console.print(f"{key}: {value}", soft_wrap=True, markup=False)
    parts = Table("kind", "name", "rows", "columns", "keeps", title="parts", title_justify="left")
    for part in told["parts"]:
        rows = next((part[key] for key in ("rows", "read", "left") if key in part), None)
        shown = f"{rows:,}" if rows is not None else ""
        parts.add_row(part["kind"], escape(part["name"]), shown, escape(_value(part["columns"])), part.get("keeps", ""))
    console.print(parts)
    if facts.versions:
        show_versions(console, list(facts.versions))
    if facts.record is not None and facts.record.boxes:
        show_statistics(console, facts.record)
    for part in told["parts"]:
        if part["kind"] != INPUT:
            console.print(f"{part['kind']} {part['name']}: {part['place']}", soft_wrap=True, markup=False)


def _value(value: Any) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in value.items()) if isinstance(value, dict) else str(value)
