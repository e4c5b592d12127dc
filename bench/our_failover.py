"""Penstock at work on `failover`: copies that come when they come, and one LMerge."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as pk
from penstock.runtime.board import Record
from penstock_bench.delays import DISPLACED, RATE, Seconds, order_of
from penstock_bench.throughput import CORES

OUTPUT: Final = "output"
STEP_US: Final = 1_000_000 // RATE
TICK_S: Final = 0.05
"""All elements of a copy that come in such a time are one file."""
TEXT: Final = 100
"""Bytes of an element's text."""
SCHEMA: Final = {"ts": "int64", "n": "int64", "s": "string"}
PATIENCE_S: Final = 120.0
"""How long after its last element a run may go on."""


def elements(count: int) -> pa.Table:
    """The elements that all copies have."""
    random = np.random.default_rng(7)
    texts = random.integers(33, 127, count * TEXT, np.uint8)
    offsets = np.arange(count + 1, dtype=np.int32) * TEXT
    text = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(texts)])
    return pa.table([pa.array(np.arange(count) * STEP_US), pa.array(random.integers(0, 401, count)), text], [*SCHEMA])


def write_copy(whole: pa.Table, times: Seconds, folder: Path, seed: int) -> None:
    """The files of a copy, each with the number of the tick at whose end it comes."""
    folder.mkdir(parents=True, exist_ok=True)
    own = whole.take(pa.array(order_of(whole.num_rows, seed)))
    ticks = (times / TICK_S).astype(np.int64)
    for tick in np.unique(ticks):
        begin, end = np.searchsorted(ticks, [tick, tick + 1])
        pq.write_table(own.slice(begin, end - begin), folder / f"{tick:06d}.parquet")


class Feeding(threading.Thread):
    """Brings the files of all copies when they are due."""

    def __init__(self, prepared: Path, folder: Path) -> None:
        super().__init__(daemon=True)
        hidden = folder / "hidden"
        shutil.copytree(prepared, hidden)
        self._due = sorted(
            ((int(file.stem) + 1) * TICK_S, file, folder / file.parent.name / file.name)
            for file in hidden.glob("*/*.parquet")
        )
        self.began = 0.0
        self.missed = 0.0
        """By how much the latest file came too late."""

    def run(self) -> None:
        self.began = time.monotonic()
        for due, file, place in self._due:
            wait = self.began + due - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            self.missed = max(self.missed, -wait)
            file.rename(place)  # it is there whole, or not at all


class Merging:
    """A run that merges copies, and notes after every batch how many elements have come of each, and have left."""

    def __init__(self) -> None:
        self.noted: list[tuple[float, dict[str, int]]] = []

    def merge(self, names: Sequence[str], prepared: Path, scratch: Path) -> Feeding:
        """Let the copies come, and wait until all elements have left."""
        wanted = sum(pq.read_metadata(file).num_rows for file in (prepared / names[0]).glob("*.parquet"))
        net = pk.Network("failover")
        copies = []
        for name in names:
            (scratch / "in" / name).mkdir(parents=True)
            files = pk.files(str(scratch / "in" / name), follow=True)
            copies.append(net.source(name, files, schema=SCHEMA, progress=pk.delayed(DISPLACED * STEP_US)))
        pk.lmerge(*copies, case="R3").output(OUTPUT, to=pk.parquet(str(scratch / "out")))
        run = net.start(
            master=f"local[{CORES}]", checkpoint=str(scratch / "run"), buckets=1, tasks=1, on_batch=self._note
        )
        feeding = Feeding(prepared, scratch / "in")
        try:
            feeding.start()
            over = wanted / RATE + PATIENCE_S
            run.wait_for(lambda record: record.outputs.get(OUTPUT, 0) >= wanted and not feeding.is_alive(), over)
        finally:
            run.stop()
        return feeding

    def _note(self, record: Record) -> None:
        came = {name: count.taken for name, count in record.inputs.items()}
        self.noted.append((time.monotonic(), came | {OUTPUT: record.outputs.get(OUTPUT, 0)}))


def rates(noted: Sequence[tuple[float, Mapping[str, int]]], began: float, width: float) -> dict[str, list[float]]:
    """Elements a second of every stream, in stretches of time of a width.

    A batch brings its elements at once. They count as spread over the time since the batch before: so a stretch is not
    empty because no batch has ended in it.
    """
    at = np.array([0.0, *(moment - began for moment, _ in noted)])
    edges = np.arange(0.0, at[-1] + width, width)
    names = noted[-1][1] if noted else {}
    found = {}
    for name in names:
        counted = np.array([0, *(counts.get(name, 0) for _, counts in noted)])
        found[name] = (np.diff(np.interp(edges, at, counted)) / width).tolist()
    return found


def most_behind(
    noted: Sequence[tuple[float, Mapping[str, int]]], began: float, since: float, until: float
) -> dict[str, float]:
    """By how many seconds every stream was behind its source at most, in some stretch of time: after each batch."""
    moments = [(at - began, counts) for at, counts in noted if since <= at - began < until]
    names = noted[-1][1] if noted else {}
    return {name: max((at - counts.get(name, 0) / RATE for at, counts in moments), default=0.0) for name in names}


def difference(whole: pa.Table, out: Path) -> str:
    """What is wrong with the elements that have left."""
    found = pq.read_table(out).select(whole.column_names).sort_by("ts")
    if found.combine_chunks().equals(whole.combine_chunks()):
        return ""
    return f"{found.num_rows} elements have left, which are not the {whole.num_rows} that came"
