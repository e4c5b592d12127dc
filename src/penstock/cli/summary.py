"""The summary of a run: what every input has brought, what was refused and why, and which promises were broken."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from penstock.errors import PromiseWarning
from penstock.runtime.result import Result


def show_counts(console: Console, result: Result) -> None:
    """A line for each input, and further ones where something is wrong with it."""
    record, refused, promises = result.record(), result.refused(), result.promises()
    for name, count in record.inputs.items():
        _line(
            console,
            f"{name}: {count.read:,} read = {count.taken:,} taken + {count.late:,} late + {count.refused:,} refused"
            + (f" + {count.skipped:,} skipped" if count.skipped else "")
            + (f" + {count.punctuation:,} punctuation" if count.punctuation else ""),
        )
        for text in (*([refused[name]] if name in refused else []), *(str(p) for p in promises if p.input == name)):
            _line(console, "  " + text.removeprefix(f"input '{name}': "))
    for name, work in record.boxes.items():
        if work.late:
            _line(console, f"{name}: {work.late:,} of {work.tuples_in:,} tuples came too late")
        if work.skipped or work.purged:
            parts = ((work.skipped, "skipped"), (work.purged, "purged"))
            told = " and ".join(f"{count:,} {what}" for count, what in parts if count)
            _line(console, f"{name}: {told}, because they were of no use any more")
        if work.refused:
            _line(console, f"{name}: {work.refused:,} of {work.tuples_in:,} tuples refused")
    for output in result.outputs():
        if gone := result.forgotten(output):
            _line(console, f"{output}: the oldest {gone:,} tuples are no longer kept")


@contextmanager
def shown_warnings(console: Console) -> Iterator[None]:
    """Show what is said of broken promises as a line of its own, without the place in our code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", PromiseWarning)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: object, **more: object) -> None:
            if issubclass(category, PromiseWarning):
                _line(console, f"warning: {message}", "yellow")
            else:
                others(message, category, *place, **more)  # type: ignore[arg-type]

        warnings.showwarning = show
        yield


def _line(console: Console, text: str, style: str | None = None) -> None:
    # Not as markup: a reason may quote text with brackets of its own.
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
