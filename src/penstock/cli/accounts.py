"""The books of a run: every tuple that came in must be found again where it went."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table
from rich.text import Text

from penstock.algebra.box import Port
from penstock.algebra.network import Network
from penstock.algebra.source import Source
from penstock.boxes.aggregate.box import Aggregate
from penstock.runtime.board import Record
from penstock.runtime.work import BoxWork, InputCount

Entry = tuple[str, int]
"""What is counted, and the count."""


@dataclass(frozen=True)
class Account:
    """One equation: a total, and the parts that it must be the sum of.

    >>> Account("input main1", ("read", 10), (("taken", 7), ("late", 2))).missing
    1
    """

    of: str
    total: Entry
    parts: tuple[Entry, ...]

    @property
    def missing(self) -> int:
        """Tuples of the total that no part accounts for; negative if there are too many."""
        return self.total[1] - sum(count for _, count in self.parts)


def accounts(network: Network, record: Record) -> list[Account]:
    """What the board says of every input and box, as equations."""
    found = [_of_input(source.name, record.inputs.get(source.name, InputCount())) for source in network.sources]
    for box in network.boxes:
        if not isinstance(box, Source) and box.ports:
            work = record.boxes.get(box.name, BoxWork())
            arrived = tuple((f"from {p.name}", _left(p, record)) for p in box.inputs if _left_is_known(p))
            if len(arrived) == len(box.inputs):
                what = "in or skipped" if work.skipped else "in"
                found.append(Account(f"box {box.name}", (what, work.tuples_in + work.skipped), arrived))
            if isinstance(box, Aggregate):
                found.append(_of_aggregate(box, work))
            elif box.keeps_count:
                parts = [("out", work.tuples_out), *([("refused", work.refused)] if work.refused else [])]
                found.append(Account(f"box {box.name}", ("in", work.tuples_in), tuple(parts)))
    return found


def of_windows(box: Aggregate, record: Record, results: pa.Table, count: str) -> list[Account]:
    """What has left the network, against the board: results, and the tuples they count in the column `count`.

    For tumbling windows that count every tuple once.
    """
    work, rows = record.boxes.get(box.name, BoxWork()), results.num_rows
    counted = int(pc.sum(results.column(count)).as_py() or 0)
    return [
        Account(f"box {box.name}", ("results", work.tuples_out), (("read back from the output", rows),)),
        Account(f"box {box.name}", ("in closed windows", work.released), ((f"sum of {count} read back", counted),)),
    ]


def balanced(books: list[Account]) -> bool:
    return not any(account.missing for account in books)


def statement(books: list[Account]) -> Iterator[Table | Text]:
    """The books as people read them, and the verdict."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    table.add_column(no_wrap=True)
    for account in books:
        parts = " + ".join(_entry(part) for part in account.parts)
        verdict = Text("ok", "green") if not account.missing else Text(f"{account.missing:+,}", "bold red")
        table.add_row(account.of, f"{_entry(account.total)} = {parts}", verdict)
    yield table
    if balanced(books):
        yield Text("every tuple accounted for: yes", "bold green")
        return
    yield Text("every tuple accounted for: NO", "bold red")
    for account in books:
        if account.missing:
            what = "not accounted for" if account.missing > 0 else "too many accounted for"
            yield Text(f"  {account.of}: of {_entry(account.total)}, {abs(account.missing):,} {what}", "red")


def _of_input(name: str, count: InputCount) -> Account:
    parts = [("taken", count.taken), ("late", count.late), ("refused", count.refused)]
    parts += [(what, found) for what in ("skipped", "punctuation") if (found := getattr(count, what))]
    return Account(f"input {name}", ("read", count.read), tuple(parts))


def _of_aggregate(box: Aggregate, work: BoxWork) -> Account:
    # The board counts partial aggregates, not the tuples in them: no partial, no tuple; a partial, at least one.
    # Early results are held beside them.
    least = 0 if box.temporal(0) else work.held_rows
    in_open = max(work.tuples_in - work.released - work.purged, least) if work.held_rows else 0
    parts = [("in closed windows", work.released), (f"in {work.open_windows} open windows", in_open)]
    parts += [("purged", work.purged)] if work.purged else []
    return Account(f"box {box.name}", ("in", work.tuples_in), tuple(parts))


def _left(port: Port, record: Record) -> int:
    """Tuples that have left a box by a port."""
    if isinstance(port.box, Source):
        count = record.inputs.get(port.box.name, InputCount())
        return {0: count.taken, Source.LATE: count.late, Source.ERRORS: count.refused}[port.index]
    work = record.boxes.get(port.box.name, BoxWork())
    return work.refused if port.index == port.box.errors_port() else work.tuples_out


def _left_is_known(port: Port) -> bool:
    # The board counts what leaves a box by all its ports together.
    return sum(port.box.delivers(index) for index in range(len(port.box.ports))) == 1


def _entry(entry: Entry) -> str:
    what, count = entry
    return f"{count:,} {what}"
