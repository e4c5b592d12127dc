"""shapes: many shapes of queries beside their peers, each in two modes.

The cells are declared in `shapes_cells.py`; `--case CELL` is a cell that catches up with data that lies there, each
engine with the batch that suits it best; `--case CELL-steady` the same data with a twentieth of the rows to a batch for
everybody, a million of twenty, so that state is carried over. DuckDB answers in one batch, so it has no steady mode.
What Spark cannot do it is not asked; what it does not answer within `PATIENCE_S`, or fails at, is told as no answer.

Every run has a fresh process, as in all benchmarks of throughput, so its memory is its own. All JVMs have heaps of the
same size. What is right is what DuckDB answers (`shapes_answers.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rich.console import RenderableType

from penstock_bench import shapes_answers, shapes_data, shapes_report
from penstock_bench.contract import OURS, Clock, Job, Peer, Run, Size, named
from penstock_bench.shapes_cells import CATCH_UP, CELLS, PROFILE, Cell, Windows, place
from penstock_bench.throughput import answer

HEAP: Final = "4g"
"""Of every JVM: Penstock is told by the variable that Spark reads, native queries by `native.SETTINGS`."""
PATIENCE_S: Final = 300.0
"""How long one run may take, with its start and its warm-up."""
ROCKSDB_SUMMARY: Final = "Spark Structured Streaming, RocksDB state"
HDFS_SUMMARY: Final = "Spark Structured Streaming, HDFS-backed state"
PANES_SUMMARY: Final = "Spark Structured Streaming, RocksDB state, rewritten by hand: panes first"


def _peers(cell: Cell, mode: str) -> list[Peer]:
    case = cell.case(mode)
    if cell.fresh:
        engine, native = ("penstock_bench.shapes_first:Fresh",) * 2
        ours: Sequence[Any] = (OURS,)
    else:
        engine, native = "penstock_bench.our_shapes:Shape", "penstock_bench.native_shapes:Shape"
        ours = (cell, mode)
    peers = [Peer(OURS, engine, "this system", case=case, arguments=ours)]
    spark = {"spark-rocksdb": ROCKSDB_SUMMARY, "spark-hdfs": HDFS_SUMMARY} if cell.native else {}
    if isinstance(cell.question, Windows) and cell.question.panes is not None:
        spark["spark-panes"] = PANES_SUMMARY
    for name, summary in spark.items():
        arguments = (name,) if cell.fresh else (cell, mode, name)
        peers.append(Peer(name, native, summary, sees_end=False, case=case, arguments=arguments))
    if mode == CATCH_UP and not cell.fresh and cell.target == "parquet":
        batch = "penstock_bench.shapes_answers:DuckDBShape"
        peers.append(Peer("duckdb", batch, "one batch query, no stream, no state", case=case, arguments=(cell,)))
    if not cell.fresh:
        profiled = "penstock_bench.shapes_profile:ProfiledShape"
        summary = "this system in one process, with a stopwatch"
        peers.append(Peer(PROFILE, profiled, summary, case=case, arguments=(cell, mode), profiles=True))
    return peers


class Shapes:
    """The benchmark."""

    name = "shapes"
    summary = "many shapes of queries, each catching up and steadily, a million rows to a batch"
    size = Size(rows=20_000_000, groups=262_144)
    rounds = 1
    peers: Sequence[Peer] = tuple(peer for cell in CELLS for mode in cell.modes for peer in _peers(cell, mode))
    growth: Sequence[tuple[str, str]] = ()
    environment: Mapping[str, str] = {"SPARK_DRIVER_MEMORY": HEAP}
    patience = PATIENCE_S
    matrix = True

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        self.prepare_cases([cell.case(mode) for cell in CELLS for mode in cell.modes], size, data, written)

    def prepare_cases(self, cases: Sequence[str], size: Size, data: Path, written: Callable[[int], None]) -> None:
        """The same for some cases: there is much that the others do not need."""
        cells = list({place(case)[0].name: place(case)[0] for case in cases}.values())
        shapes_data.prepare(cells, size.rows, size.groups, data, written)
        for cell in cells:
            shapes_answers.expect_cell(cell, data / cell.data / "timed", _expected(data, cell))

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        peer = named(self.peers, job.peer)
        cell, _ = place(peer.case)
        detail = answer(peer, replace(job, data=job.data / cell.data), clock, folder="timed")
        return {**detail, "rows": shapes_data.rows_of(cell, job.size.rows)}

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        peer = named(self.peers, job.peer)
        cell, _ = place(peer.case)
        data, out = job.data / cell.data / "timed", job.scratch / "out"
        return shapes_answers.difference(cell, data, out, _expected(job.data, cell), sees_end=peer.sees_end)

    def told(self, results: Mapping[str, Run]) -> dict[str, Any]:
        return {"shapes": shapes_report.told(results)}

    def shown(self, found: Mapping[str, Any]) -> Sequence[RenderableType]:
        return shapes_report.shown(found)


SHAPES: Final = Shapes()


def _expected(data: Path, cell: Cell) -> Path:
    return data / f"expected-{cell.name}.parquet"
