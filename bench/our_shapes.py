"""Penstock's side of `shapes`: the public API, as a user would write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import penstock as pk
from penstock_bench.our_q7 import CONVERSATION
from penstock_bench.shapes_cells import STEADY, WINDOW_S, Cell, Matches, Selection, TupleWindows, Unique, Windows
from penstock_bench.shapes_data import HOSTS, batch_rows, schema_of
from penstock_bench.throughput import CORES
from penstock_bench.traffic import SCHEMA as PACKETS


class Shape:
    """A cell as a network, in one of the modes."""

    def __init__(self, cell: Cell, mode: str) -> None:
        self._cell = cell
        self._mode = mode

    def open(self, scratch: Path) -> None:
        """The first run brings the session up: the warm-up."""

    def run(self, data: Path, out: Path) -> None:
        network(self._cell, data, out).run(master=f"local[{CORES}]", **trains(self._mode, data))

    def close(self) -> None:
        """The session ends with the process."""


def trains(mode: str, data: Path) -> dict[str, Any]:
    """How long trains are: as they are by themselves, or of the rows that everybody has in a steady batch."""
    return {"train_rows": batch_rows(data)} if mode == STEADY else {}


def network(cell: Cell, data: Path, out: Path) -> pk.Network:
    """The network of a cell, over a folder of its data."""
    net = pk.Network(cell.name)
    target = pk.delta(str(out)) if cell.target == "delta" else pk.parquet(str(out))
    _answer(net, cell, data).output("results", to=target)
    return net


def _answer(net: pk.Network, cell: Cell, data: Path) -> pk.Stream:
    match cell.question:
        case Windows() as question:
            tuples = _inputs(net, cell, question, data)
            if question.lookup:
                hosts = pk.table(str(data.parent / HOSTS / "*.parquet"))
                tuples = tuples.join(hosts, f"l.{question.lookup} = r.{question.lookup}")
            return tuples.aggregate(
                dict(question.outputs),
                on="ts",
                size=f"{WINDOW_S} seconds",
                advance=f"{question.advance} seconds",
                by=list(question.by),
            )
        case TupleWindows() as question:
            tuples = _input(net, "events", cell, data)
            return tuples.aggregate(
                dict(question.outputs), on=pk.TUPLE_NUMBER, size=question.size, by=list(question.by)
            )
        case Matches(band=band):
            late = pk.delayed("2 seconds")
            m1, m2 = (
                net.source(link, pk.files(str(data / link)), schema=PACKETS, on="ts", progress=late)
                for link in ("m1", "m2")
            )
            matches = m1.join(m2, CONVERSATION, on=("ts", "ts"), size=f"{band} seconds")
            return matches.aggregate({"n": "count(*)"}, on="l_ts", size="1 minute").map(ts="l_ts", n="n")
        case Selection(where=where, columns=columns):
            return _input(net, "events", cell, data).where(where).map(**columns)
        case Unique(by=by):
            rows = _input(net, "events", cell, data).map(**{name: name for name in by})
            return rows.dedupe(by=[name for name in by if name != "ts"], on="ts")


def _inputs(net: pk.Network, cell: Cell, question: Windows, data: Path) -> pk.Stream:
    if question.links:
        return pk.union(*(_input(net, link, cell, data / link) for link in question.links))
    progress = pk.delayed("2 seconds", by=list(question.marks_by)) if question.marks_by else pk.delayed("2 seconds")
    return _input(net, "events", cell, data / cell.text if cell.text else data, progress)


def _input(net: pk.Network, name: str, cell: Cell, folder: Path, progress: Any = None) -> pk.Stream:
    late = progress if progress is not None else pk.delayed("2 seconds")
    return net.source(name, pk.files(str(folder)), schema=schema_of(cell), on="ts", progress=late)
