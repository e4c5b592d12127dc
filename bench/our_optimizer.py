"""Penstock's side of `optimizer`: the same boxes in three orders."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import penstock as pk
from penstock.runtime.board import Record
from penstock_bench.optimizer import HALF
from penstock_bench.throughput import CORES

PASSED_ON: Final = {name: name for name in ("ts", "region", "status", "agent", "path")}
WORST: Final = ("digest", "words", "shown", "bots", "few", "api")
"""The order as written: what costs most comes first, what drops most last."""
BEST: Final = (("few", "api", "bots", "words", "digest", "shown"), ("few", "bots", "api", "words", "digest", "shown"))
"""The best order of each half."""
WHERE: Final = {
    "words": "regexp_matches(path, '[a-f]+.*[0-9]+$')",
    "bots": "regexp_matches(agent, 'bot[0-9]+')",
    "api": "regexp_matches(path, '/api/v[0-9]')",
    "few": "status < 450",
}
MAPS: Final = {"digest": "md5(agent || path)", "shown": "upper(path)"}


def network(order: Sequence[str], data: Path, out: Path) -> pk.Network:
    """The boxes in an order."""
    net = pk.Network("requests")
    stream = net.source("requests", pk.files(str(data / "*.parquet")), on="ts", progress=pk.ordered())
    carried = dict(PASSED_ON)
    for name in order:
        if name in WHERE:
            stream = stream.where(WHERE[name], name=name)
        else:
            stream = stream.map(**carried, **{name: MAPS[name]}, name=name)
            carried[name] = name
    outputs = {"n": "count(*)", "digest": "max(digest)", "shown": "min(shown)"}
    counts = stream.aggregate(outputs, on="ts", size="1 minute", by=["region"], name="counts")
    counts.output("counts", to=pk.parquet(str(out)))
    return net


class AsWritten:
    """The worst order, as it is."""

    order: Sequence[str] = WORST
    optimize = "off"

    def run(self, data: Path, out: Path, rows: int) -> list[dict[str, Any]]:
        """Run batches of so many rows. What each took: seconds, seconds of the boxes on cores, and its version."""
        self._data, self._out = data, out
        self._batches: list[dict[str, Any]] = []
        self._last, self._cpu = time.perf_counter(), 0.0
        self._rows, self._started = rows, threading.Event()
        self._run = network(self.order, data, out).start(
            master=f"local[{CORES}]", train_rows=self._rows, optimize=self.optimize, on_batch=self._after
        )
        self._started.set()
        self._run.wait()
        return self._batches

    def _after(self, record: Record) -> None:
        now, cpu = time.perf_counter(), sum(work.seconds for work in record.boxes.values())
        done = {"seconds": now - self._last, "cpu": cpu - self._cpu, "version": record.version, "rows": self._rows}
        self._batches.append(done)
        self._last, self._cpu = now, cpu
        self._changed(record.batch)

    def _changed(self, batch: int) -> None:
        """A batch is done: the order may be changed by hand."""


class Optimized(AsWritten):
    """The worst order, and the optimizer at work."""

    optimize = "on"


class ByHand(AsWritten):
    """The best order of each half."""

    order = BEST[0]

    def _changed(self, batch: int) -> None:
        if batch == HALF - 1:
            self._started.wait()
            self._run.change(network(BEST[1], self._data, self._out), seconds=0)
