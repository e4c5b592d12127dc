"""Spark's own windowed count with a single tuple in a batch: the native peer of `floor`.

State in RocksDB on two partitions, JSON input, and a sink that collects the one row of a batch and renames a small file
into the output folder: that rename is the earliest moment at which somebody else sees the result. Parquet input and
Spark's own file sink were tried too, and no difference could be told from the noise of the machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name every Spark user knows)

from penstock_bench.floor import Result
from penstock_bench.native import ROCKSDB, session


class RocksDBFloor:
    """One second windows, no delay, append mode; empty batches let the watermark take effect without new data."""

    suffix = ".json"

    def start(self, folder: Path, scratch: Path) -> None:
        self.checkpoint = scratch / "checkpoint"
        self._out = scratch / "out"
        self._out.mkdir()
        self._seen: dict[str, list[Result]] = {}
        self._spark = session(ROCKSDB, scratch)
        tuples = self._spark.readStream.schema("ts timestamp, v int").json(str(folder))
        counts = tuples.withWatermark("ts", "0 seconds").groupBy(F.window("ts", "1 second")).count()
        self._query = (
            counts.select(F.unix_seconds("window.start").alias("start"), F.col("count").alias("n"))
            .writeStream.outputMode("append")
            .option("checkpointLocation", str(self.checkpoint))
            .foreachBatch(self._write)
            .start()
        )

    def results(self) -> Sequence[Result]:
        for name in os.listdir(self._out):
            if name.endswith(".json") and name not in self._seen:
                lines = (self._out / name).read_text().splitlines()
                self._seen[name] = [Result(**json.loads(line)) for line in lines]
        return [result for results in self._seen.values() for result in results]

    def progress(self) -> Sequence[Mapping[str, Any]]:
        return [json.loads(progress.json) for progress in self._query.recentProgress]

    def stop(self) -> None:
        self._query.stop()
        self._spark.stop()

    def _write(self, results: DataFrame, batch: int) -> None:
        rows = results.collect()
        if rows:
            hidden = self._out / f"{batch}.hidden"
            hidden.write_text("".join(json.dumps(row.asDict()) + "\n" for row in rows))
            hidden.rename(self._out / f"{batch}.json")
