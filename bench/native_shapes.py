"""Spark Structured Streaming's side of `shapes`.

To catch up, a batch takes all twenty files, which is what suits it best (`native.py` has the measurements), but for the
join, which is faster with four (`native_q7.py`). In a steady run a batch is one file of every input.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name every Spark user knows)

from penstock_bench.native import FILES_PER_BATCH, HDFS, PACKETS, ROCKSDB, Query
from penstock_bench.native_q7 import Matches as JoinOfLinks
from penstock_bench.native_q7 import RocksDBMatches
from penstock_bench.shapes_cells import STEADY, WINDOW_S, Cell, Matches, Selection, Unique, Windows
from penstock_bench.shapes_data import HOSTS

EVENTS: Final = (
    "ts timestamp, number long, srcIP long, destIP long, id long, link string, host string, popular string, "
    "port int, len int"
)
TEXT: Final = "ts timestamp, link string, len int"
DUPLICATES: Final = "ts timestamp, number long, len int"
SCHEMAS: Final = {"text": TEXT, "duplicates": DUPLICATES, "conversations": PACKETS}
PROVIDERS: Final = {"spark-rocksdb": ROCKSDB, "spark-hdfs": HDFS, "spark-panes": ROCKSDB}


class Shape(Query):
    """A cell as a native query, in one of the modes; `spark-panes` is the one that was rewritten by hand."""

    def __init__(self, cell: Cell, mode: str, peer: str) -> None:
        self._cell = cell
        self._peer = peer
        self.provider = PROVIDERS[peer]
        self.files_per_batch = FILES_PER_BATCH
        if isinstance(cell.question, Matches):
            self.files_per_batch = JoinOfLinks.files_per_batch
            if self.provider == ROCKSDB:
                self.settings = RocksDBMatches.settings
        if mode == STEADY:
            self.files_per_batch = 1

    def packets(self, folder: Path) -> DataFrame:
        """The rows of a folder as a stream."""
        schema = SCHEMAS.get(self._cell.data, EVENTS)
        reader = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", self.files_per_batch)
        if self._cell.text == "csv":
            return reader.csv(str(folder / "csv"), header=True)
        if self._cell.text == "json":
            return reader.json(str(folder / "json"))
        return reader.parquet(str(folder))

    def results(self, data: Path) -> DataFrame:
        match self._cell.question:
            case Windows() as question:
                return self._windows(question, data)
            case Matches(band=band):
                return _Joined(self, band).results(data)
            case Selection(where=where, columns=columns):
                return self.packets(data).where(where).select(*_named(columns))
            case Unique(by=by):
                rows = self.packets(data).select(*by).withWatermark("ts", "2 seconds")
                return rows.dropDuplicatesWithinWatermark(list(by))
        raise NotImplementedError(f"Spark has no equal of {self._cell.name}")

    def _windows(self, question: Windows, data: Path) -> DataFrame:
        folders = [data / link for link in question.links] or [data]
        # A watermark on every link: they may run apart.
        rows = reduce(DataFrame.union, [self.packets(each).withWatermark("ts", "2 seconds") for each in folders])
        if question.lookup:
            hosts = self._spark.read.parquet(str(data.parent / HOSTS))
            rows = rows.join(F.broadcast(hosts), question.lookup)
        size, advance = f"{WINDOW_S} seconds", f"{question.advance} seconds"
        if self._peer == "spark-panes" and question.panes is not None:
            panes = rows.groupBy(F.window("ts", advance), *question.by).agg(*_named(question.panes.partial))
            starts = F.window(F.window_time("window"), size, advance)
            windows = panes.groupBy(starts, *question.by).agg(*_named(question.panes.merged))
        else:
            starts = F.window("ts", size) if question.advance == WINDOW_S else F.window("ts", size, advance)
            windows = rows.groupBy(starts, *question.by).agg(*_named({**question.outputs, **question.native}))
        return windows.select(F.col("window.start").alias("ts"), *question.by, *question.outputs)


class _Joined(JoinOfLinks):
    """q7's query in the session, and with the batches, of a shape."""

    def __init__(self, shape: Shape, band: int) -> None:
        super().__init__(band)
        self._spark = shape._spark
        self.files_per_batch = shape.files_per_batch


def _named(expressions: Mapping[str, str]) -> list[Column]:
    return [F.expr(expression).alias(name) for name, expression in expressions.items()]
