"""`penstock boxes`: the list of boxes."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penstock.cli.failures import reported
from penstock.language.box_list import Card, card
from penstock.language.box_list import boxes as all_boxes


def boxes(
    name: Annotated[str | None, typer.Argument(help="One box, with its arguments; all boxes if not given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As a JSON document, with everything.")] = False,
) -> None:
    """List every box: what it is for, what it takes, and an example."""
    with reported():
        cards = [card(name)] if name is not None else all_boxes()
        if as_json:
            typer.echo(json.dumps([c.to_json() for c in cards], indent=2))
            return
        console = Console(highlight=False)
        for number, each in enumerate(cards):
            if number:
                console.print()
            _show(console, each)


def _show(console: Console, box: Card) -> None:
    console.print(f"[bold]{box.name}[/]   {escape(box.call)}", soft_wrap=True)
    console.print(f"  {escape(box.summary)}")
    arguments = Table(box=None, show_header=False, padding=(0, 2, 0, 2), pad_edge=True)
    arguments.add_column(no_wrap=True)
    arguments.add_column()
    for argument in box.arguments:
        default = "" if argument.default is None else f" = {argument.default}"
        arguments.add_row(escape(argument.name) + f"[dim]{escape(default)}[/]", escape(argument.meaning))
    console.print(arguments)
    console.print(f"  gives: {escape(box.gives)}")
    console.print(f"  [green]{escape(box.example)}[/]", soft_wrap=True)
    console.print(f"  [dim]docs/{box.page}[/]")
