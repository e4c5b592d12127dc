"""Spark's own sliding windows over a union of three streams: the native peers of q9."""

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
        links = [self.packets(data / link).select("ts").withWatermark("ts", "2 seconds") for link in LINKS]
        counts = reduce(DataFrame.union, links).groupBy(F.window("ts", self._range, "1 minute")).count()
        return counts.select(F.col("window.start").alias("ts"), F.col("count").alias("n"))


class RocksDBCounts(Counts):
    provider = ROCKSDB


class HDFSCounts(Counts):
    provider = HDFS
