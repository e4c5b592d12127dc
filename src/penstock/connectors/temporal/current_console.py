"""The current state of a temporal stream on the console: the newest events, drawn anew in place after each batch.

The events that it may still show are kept in the checkpoint, so a run that starts again goes on where it was. Where the
output is no terminal, nothing can be drawn anew: elements are printed as they come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.temporal.elements import SYNC, VE, VS
from penstock.algebra.ticks import END, to_ticks
from penstock.connectors.targets.console import Console, grid
from penstock.connectors.targets.target import Markers, OutputProgress, read_staged, writer
from penstock.connectors.temporal.event_netting import change_of, event_schema, taken_away
from penstock.errors import WorldError
from penstock.storage.folder import Folder
from penstock.storage.sealed import checksum, read_sealed, write_sealed

_EVENTS: Final = "events-"
_ACCOUNT: Final = "account-"


@dataclass(frozen=True)
class CurrentConsole(Console):
    """Draws the `limit` newest events of a temporal stream. After a crash, the last batch may be drawn again."""

    @property
    def revises(self) -> bool:
        return True

    def _hand_over(self, batch: int, tuples: pa.Table, scratch: Folder, progress: OutputProgress) -> None:
        last = Markers(scratch).last()
        # What the last batch has left is needed until this one is marked.
        scratch.forget([name for name in scratch.names() if _is_older(name, last)])
        events = _after(_load(scratch, last), tuples)
        self._draw(writer(scratch).output, batch, tuples, events)
        _save(scratch, batch, self._needed(events, progress.after.of(SYNC)))

    def describe(self) -> str:
        return "the current state on the console"

    def _draw(self, output: str, batch: int, elements: pa.Table, events: pa.Table) -> None:
        from rich.console import Console as Terminal

        terminal = Terminal(highlight=False)
        if not terminal.is_terminal:
            self.deliver(output, batch, elements)
            return
        terminal.clear()
        shown = events.slice(max(0, events.num_rows - self.limit))
        terminal.print(*grid(f"{output}, after batch {batch}: the newest of its events", shown), sep="\n")

    def _needed(self, events: pa.Table, stable: int) -> pa.Table:
        """The events that may change, or may be among the newest."""
        newest = np.arange(events.num_rows) >= events.num_rows - self.limit
        ends = pc.fill_null(to_ticks(events.column(VE)), END).to_numpy()
        return events.filter(pa.array(newest | (ends >= stable)))


def _after(events: pa.Table | None, elements: pa.Table) -> pa.Table:
    """The events after the elements of a batch, in order of their starts."""
    change = change_of(elements)
    before = event_schema(elements.schema).empty_table() if events is None else events
    stay, gone = taken_away(before, change.gone)
    if gone.num_rows:
        raise WorldError(
            f"the events kept for the console lack {gone.num_rows:,} that a batch adjusts or removes",
            hint="restore the checkpoint from a copy, or start with another one",
        )
    after = pa.concat_tables([before.filter(stay), change.added])
    return after.take(pc.sort_indices(after, [(VS, "ascending")])) if after.num_rows else after


def _load(scratch: Folder, batch: int) -> pa.Table | None:
    if batch < 0:
        return None
    account = read_sealed(scratch, f"{_ACCOUNT}{batch:08d}")
    return read_staged(scratch, f"{_EVENTS}{batch:08d}", account["bytes"], account["crc"])


def _save(scratch: Folder, batch: int, events: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, events.schema) as file:
        file.write_table(events.combine_chunks())
    content = sink.getvalue()
    scratch.write(f"{_EVENTS}{batch:08d}", content)
    write_sealed(scratch, f"{_ACCOUNT}{batch:08d}", {"bytes": content.size, "crc": checksum(content)})


def _is_older(name: str, batch: int) -> bool:
    """Whether a file is of the events after an earlier batch."""
    number = name.removeprefix(_EVENTS).removeprefix(_ACCOUNT)
    return name.startswith((_EVENTS, _ACCOUNT)) and number.isdigit() and int(number) < batch
