"""retention: a long run of small batches whose disk does not grow (aurora.md 4.2).

Packets come 20 to a batch; every tenth is far too late. The run has a connection point that keeps the newest 4,000
rows, kept results and a late stream that keep 256 kB each, and a keyed count with state. Files that have left the
connection point stay for another 10 seconds. Five thousand batches, unless `--rows` says otherwise.

All files of the run are counted a hundred times. What must hold: the most that there was on disk in the last quarter of
the run is not more than a tenth above that of the quarter before, in bytes and in files. And every tuple is accounted
for: what is kept and what was let go is what has left.

The usual case is the local executor, whose planner, state, outlet and upkeep are the same; `--case spark` runs it on
Spark, whose own logs count too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from rich.console import RenderableType
from rich.table import Table

import penstock as pk
from penstock.runtime.board import Record
from penstock.runtime.footprint import footprint
from penstock.storage.folder import Folder
from penstock_bench.contract import OURS, Clock, Job, Peer, Run, Size, named
from penstock_bench.throughput import CORES

BATCH_ROWS: Final = 20
LATE_EVERY: Final = 10
LATE_BY: Final = 10_000
POINT_ROWS: Final = 4_000
KEEP: Final = "256 kB"
GRACE: Final = "10 seconds"
SAMPLES: Final = 100
FLAT: Final = 1.1
"""How much more there may be on disk in the last quarter of the run than in the quarter before."""

Sample = Mapping[str, Any]
"""A batch, and the bytes and files that there were after it, by kind."""


@dataclass
class Sampling:
    """Called after every batch: counts the files of the run now and then."""

    checkpoint: Path
    every: int
    samples: list[Sample] = field(default_factory=list)

    def __call__(self, record: Record) -> None:
        if (record.batch + 1) % self.every:
            return
        amounts: dict[str, dict[str, int]] = {"bytes": {}, "files": {}}
        for stored in footprint(Folder(str(self.checkpoint))):
            for what, amount in (("bytes", stored.bytes), ("files", stored.files)):
                amounts[what][stored.kind] = amounts[what].get(stored.kind, 0) + amount
        self.samples.append({"batch": record.batch + 1, **amounts})


class Retention:
    """The benchmark."""

    name = "retention"
    summary = "a long run of small batches: what it takes up on disk, batch by batch"
    size = Size(rows=5_000 * BATCH_ROWS, groups=5)
    rounds = 1
    usual_cases: Sequence[str] = ("local",)
    peers: Sequence[Peer] = (
        Peer(OURS, "", "the local executor", case="local", arguments=("local",)),
        Peer(OURS, "", "on Spark", case="spark", arguments=("spark",)),
    )
    growth: Sequence[tuple[str, str]] = ()

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        written(size.rows)  # packets are made in the run's own process

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        (engine,) = named(self.peers, job.peer).arguments
        net, batches = network(job.size), job.size.rows // BATCH_ROWS
        sampling = Sampling(job.scratch / "checkpoint", max(1, batches // SAMPLES))
        clock.start()
        result = net.run(
            engine,
            master=f"local[{CORES}]",
            checkpoint=str(sampling.checkpoint),
            durability="process",
            keep=KEEP,
            on_batch=sampling,
        )
        clock.stop()
        return {"rows": job.size.rows, "samples": sampling.samples, "wrong": wrong(result)}

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        if detail["wrong"] is not None:
            return str(detail["wrong"])
        grown = {what: growth(detail["samples"], what) for what in ("bytes", "files")}
        steep = [f"{what} grow {times:.2f} times" for what, times in grown.items() if times > FLAT]
        return "; ".join(steep) or None

    def told(self, results: Mapping[str, Run]) -> dict[str, Any]:
        """What there was on disk at half of the run and at its end, and all samples."""
        return {"retention": {run.case: summary(run.detail["samples"]) for run in results.values()}}

    def shown(self, found: Mapping[str, Any]) -> Sequence[RenderableType]:
        shown = Table(title="on disk", title_justify="left")
        for heading in ("case", "batches", "what", "at half", "at the end", "last quarter / the one before"):
            shown.add_column(heading, justify="left" if heading in ("case", "what") else "right")
        for case, run in found["retention"].items():
            for what in ("bytes", "files"):
                own = run[what]
                amounts = (f"{own['half']:,}", f"{own['end']:,}", f"{own['growth']:.2f}")
                shown.add_row(case, f"{run['batches']:,}", what, *amounts)
        return [shown]


RETENTION: Final = Retention()


def network(size: Size, point_rows: int = POINT_ROWS, grace: str = GRACE, late_by: int = LATE_BY) -> pk.Network:
    """Packets of which some are late, an arc that remembers, and a count."""
    count = size.rows // BATCH_ROWS * BATCH_ROWS
    at = np.arange(count, dtype=np.int64)
    late = (at % LATE_EVERY == LATE_EVERY - 1) & (at > late_by // 2)
    rows = pa.table({"ts": np.where(late, at - late_by, at), "k": at % size.groups, "bytes": at * 7919 % 1500})
    net = pk.Network("retention")
    packets = net.source("packets", pk.memory(rows, train=BATCH_ROWS), progress=pk.delayed(50))
    packets.connection_point("raw", keep=point_rows, key="k", grace=grace)
    packets.aggregate({"n": "count(*)", "sum": "sum(bytes)"}, size=100, by="k").output("counts")
    return net


def wrong(result: pk.Result) -> str | None:
    """What is not accounted for, if anything is."""
    record = result.record()
    (count,) = record.inputs.values()
    if count.read != count.taken + count.late or not count.late:
        return f"{count.read} read, but {count.taken} taken and {count.late} late"
    for output in ("counts", "packets!late"):
        kept, gone = result[output].num_rows, result.forgotten(output)
        if kept + gone != record.outputs[output]:
            return f"{output}: {kept} kept and {gone} let go of {record.outputs[output]}"
    return None


def amount(sample: Sample, what: str) -> int:
    return sum(sample[what].values())


def growth(samples: Sequence[Sample], what: str) -> float:
    """The most in the last quarter of a run, over the most in the quarter before."""
    amounts = [amount(sample, what) for sample in samples]
    half, last = len(amounts) // 2, len(amounts) * 3 // 4
    return max(amounts[last:]) / max(amounts[half:last])


def summary(samples: Sequence[Sample]) -> dict[str, Any]:
    """The figures of a run."""
    told: dict[str, Any] = {"batches": samples[-1]["batch"], "samples": list(samples)}
    for what in ("bytes", "files"):
        half, end = samples[len(samples) // 2 - 1], samples[-1]
        told[what] = {"half": amount(half, what), "end": amount(end, what), "growth": growth(samples, what)}
    return told
