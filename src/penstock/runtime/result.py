"""What a run has produced: tables, elements and counts, read from its checkpoint."""

from __future__ import annotations

import datetime as dt
import math
import time
from typing import Any

import pyarrow as pa

from penstock.algebra.box import Output, Port
from penstock.algebra.hidden import ARRIVED, is_hidden
from penstock.algebra.marks import Marks
from penstock.algebra.source import Source
from penstock.algebra.ticks import BEGINNING, END, from_ticks
from penstock.connectors.memory import PunctuationElement, punctuation
from penstock.connectors.points.account import PointAccount, account_of
from penstock.connectors.points.point_target import ConnectionPoint
from penstock.connectors.targets.kept_results import KeptBatch, KeptResults, Results
from penstock.errors import QueryError, WorldError
from penstock.plan.keep_rejects import errors_output, late_output
from penstock.progress.idle import Span, span_ns
from penstock.runtime.board import Board, Record
from penstock.runtime.job import Job
from penstock.runtime.leaving import request
from penstock.runtime.overdue import Failure, failures
from penstock.runtime.promises import Promise, promises
from penstock.runtime.traces import Trace
from penstock.runtime.waiting import Waiting, waiting


class TupleElement(dict[str, Any]):
    """A tuple as it left the network, and its QoS timestamp: when the oldest tuple that contributed to it arrived."""

    def __init__(self, row: dict[str, Any]) -> None:
        super().__init__({name: value for name, value in row.items() if not is_hidden(name)})
        self.arrived = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=row[ARRIVED])


class Result:
    """The committed results of a run, complete for a run that has ended."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._board = Board(job.board)

    def __getitem__(self, output: str) -> pa.Table:
        """The tuples of an output, in emission order."""
        kept = self._kept(output)
        return kept.table(self._batches(output, kept)).drop_columns([ARRIVED])

    def forgotten(self, output: str) -> int:
        """How many of the oldest tuples of an output are no longer kept: see `pk.results(keep=...)`."""
        return self._kept(output).forgotten()

    def late(self, name: str) -> pa.Table:
        """The late tuples of an input, or of a box that is defined on arrival order."""
        boxes = {b.name: b for b in self._job.plan.network.boxes if b.late_port() is not None}
        if name not in boxes:
            raise QueryError(f"there is no late stream of '{name}'", expected=f"one of {', '.join(boxes)}")
        box = boxes[name]
        if isinstance(box, Source) and box.late != "route":
            raise QueryError(f"late tuples of '{name}' were not kept", found=f"late={box.late!r}", hint="late='route'")
        return self[late_output(name)]

    def errors(self, name: str) -> pa.Table:
        """What an input has refused, or a map that computes times, with the reason."""
        boxes = [box.name for box in self._job.plan.network.boxes if box.keeps_errors]
        if name not in boxes:
            raise QueryError(
                f"there is no error stream of '{name}'",
                network=self._job.plan.network.name,
                expected=f"one of {', '.join(boxes)}",
                hint="inputs have one, and maps that compute a time that may be out of range",
            )
        return self[errors_output(name)]

    def elements(self, output: str) -> list[TupleElement | PunctuationElement]:
        """Tuples (as dicts) and punctuation of an output as emitted; the end is punctuation at infinity."""
        box = self._output(output)
        kept, schema = self._kept(output), box.schema(0)
        found: list[TupleElement | PunctuationElement] = []
        for batch in self._batches(output, kept):
            found += [TupleElement(row) for row in kept.table([batch]).to_pylist()]
            if stated := batch.marks.rising:
                found.append(punctuation(**{a: _value(tick, schema.field(a).type) for a, tick in stated.items()}))
        return found

    def record(self) -> Record:
        """How far everything has come, and what every box did."""
        return self._board.latest().with_inputs(self._job.plan.network.sources)

    def refused(self) -> dict[str, str]:
        """Of every input with refused records: how many they are, and the most frequent reasons."""
        record = self.record()
        return {
            name: f"refused {record.inputs[name].refused:,} of {record.inputs[name].read:,}: {told.sentence()}"
            for name, told in record.refusals.items()
        }

    def promises(self) -> list[Promise]:
        """The inputs whose tuples were out of order: how far, what was declared, and what would be kept."""
        return promises(self._job.plan.network, self._board.latest())

    def progress(self) -> dict[str, dict[str, dict[str, Any]]]:
        """The low-water mark of every arc and shard: port -> shard ("" for the whole arc) -> attribute -> value.

        The shards of an input are its own; those of what leaves a stage are the buckets.
        """
        network, record = self._job.plan.network, self._board.latest()
        ports = {p.name: p for box in network.boxes for p in (Port(box, i) for i in range(len(box.ports)))}
        marks: dict[str, dict[str, Marks]] = {}
        for name, port in ports.items():
            marks[name] = {
                "": record.marks.get(name, port.shape),
                **{f"bucket {b}": m for b, m in record.buckets.get(name, {}).items()},
            }
        for source in network.sources:
            marks[source.name].update(record.issued(source).shards)
        return {
            name: {
                shard: {a: _value(tick, ports[name].schema.field(a).type) for a, tick in of_shard.rising.items()}
                for shard, of_shard in shards.items()
            }
            for name, shards in marks.items()
            if ports[name].progressing
        }

    def waiting(self) -> list[Waiting]:
        """Who is waiting for whom: every box that holds something back, for which input and shard, and why."""
        return waiting(self._job.plan.network, self._board.latest())

    def traces(self) -> list[Trace]:
        """The way of the heartbeats and ETS of the last batches through the network, oldest first."""
        return [trace for record in self._board.recent() for trace in record.traces]

    def close_shard(self, source: str, shard: str) -> None:
        """Ask the run to close a shard that will not deliver any more, with its next batch."""
        request(self._job, source, shard)

    def failures(self, *, batch: Span = "1 minute", since: int | None = None) -> list[Failure]:
        """The shards that are overdue, and a batch that has not been committed within the time given."""
        record = self._board.latest()
        now = time.time_ns() // 1000
        return failures(self._job, record, now, since or record.began or now, span_ns(batch) // 1000)

    def outputs(self) -> list[str]:
        """The names of the outputs whose tuples are kept."""
        return [o.name for o in self._job.plan.network.outputs if isinstance(o.target, Results) and "!" not in o.name]

    def points(self) -> list[PointAccount]:
        """The connection points of the network: where they are, and what they hold now."""
        found = [(o.name, self._job.target(o)) for o in self._job.plan.network.outputs]
        return [account_of(name, target) for name, target in found if isinstance(target, ConnectionPoint)]

    def _kept(self, output: str) -> KeptResults:
        target = self._output(output).target
        if not isinstance(target, Results):
            raise QueryError(
                f"the tuples of output '{output}' are not kept: they go to {target.describe()}",
                hint="read them there, or declare the output without to=",
            )
        return KeptResults(self._job.scratch(output))

    def _batches(self, output: str, kept: KeptResults) -> list[KeptBatch]:
        """What was left up to the last committed batch; what a batch in flight has left does not count yet."""
        record = self._board.latest()
        found = kept.batches(record.batch)
        rows, wanted = kept.forgotten() + sum(batch.rows for batch in found), record.outputs.get(output, 0)
        if rows < wanted:
            raise WorldError(
                f"results of output '{output}' are missing in {self._job.scratch(output).path}",
                network=self._job.plan.network.name,
                expected=f"{wanted:,} tuples up to batch {record.batch}",
                found=f"{rows:,}",
                hint="restore the checkpoint from a copy, or run the network again with another one",
            )
        return found

    def _output(self, name: str) -> Output:
        outputs = {o.name: o for o in self._job.plan.network.outputs}
        if name not in outputs:
            raise QueryError(
                f"there is no output '{name}'",
                network=self._job.plan.network.name,
                expected=f"one of {', '.join(n for n in outputs if '!' not in n)}",
            )
        return outputs[name]


def _value(mark: int, kind: pa.DataType) -> Any:
    if mark in (BEGINNING, END):
        return math.inf if mark == END else -math.inf
    return from_ticks(pa.array([mark], pa.int64()), kind)[0].as_py()
