"""Spark's own sliding windows over a union of three streams: the native peers of q9.

CPU seconds of the JVM, as in `native.py`, the least of several repetitions in a warm JVM, state in RocksDB:

| | 4 M rows | 20 M rows |
| --- | --- | --- |
| 10 of a link's 10 files to a batch | 4.3 | 9.6 |
| 5 / 2 files to a batch | 4.4 / 6.1 | 10.5 / |
| one watermark after the union | 4.0 | 9.4 |
| one shuffle partition | 4.3 | |
| HDFS-backed state | 4.8 | |
| minutes first, then windows of minutes | 4.3 | 4.7 |

So a batch takes all files there are. A watermark on every link costs nothing, and is right also when links run apart.
Spark counts a packet once for each window that covers it: with 4 M rows, 2 minutes took 3.5 and 60 minutes 21 seconds.
Who counts minutes first, and adds them up in a second aggregation, spares it that; `spark-panes` shows what it brings.
"""

from __future__ import annotations

from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name every Spark user knows)

from penstock_bench.native import HDFS, ROCKSDB, Query
from penstock_bench.q9 import LINKS


class Counts(Query):
    """q9 as a native query: a watermark on every link, union, window, count."""

    def __init__(self, minutes: int) -> None:
        self._range = f"{minutes} minutes"

    def results(self, data: Path) -> DataFrame:
        counts = self.united(data).groupBy(F.window("ts", self._range, "1 minute")).count()
        return counts.select(F.col("window.start").alias("ts"), F.col("count").alias("n"))

    def united(self, data: Path) -> DataFrame:
        """The packets of all links."""
        links = [self.packets(data / link).select("ts").withWatermark("ts", "2 seconds") for link in LINKS]
        return reduce(DataFrame.union, links)


class RocksDBCounts(Counts):
    provider = ROCKSDB


class HDFSCounts(Counts):
    provider = HDFS


class Panes(Counts):
    """q9 rewritten by hand: a count per minute, and a sum of minutes over each window."""

    provider = ROCKSDB

    def results(self, data: Path) -> DataFrame:
        minutes = self.united(data).groupBy(F.window("ts", "1 minute")).count()
        windows = minutes.groupBy(F.window(F.window_time("window"), self._range, "1 minute"))
        return windows.agg(F.sum("count").alias("n")).select(F.col("window.start").alias("ts"), "n")
