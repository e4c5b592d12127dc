"""Spark's own stream-stream join within a band of time, and a windowed count of the matches: the native peers of q7."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name every Spark user knows)

from penstock_bench.native import HDFS, ROCKSDB, Query

KEYS: Final = ("srcIP", "destIP", "srcPort", "destPort")
CONVERSATION: Final = (
    "m1.srcIP = m2.destIP AND m1.destIP = m2.srcIP AND m1.srcPort = m2.destPort AND m1.destPort = m2.srcPort"
)


class Matches(Query):
    """q7 as a native query: two watermarks, a join on the conversation and the band, window, count."""

    # With all files in one batch nothing is ever purged before the join is done with it: 188 s instead of 177 s.
    files_per_batch = 4

    def __init__(self, band: int) -> None:
        self._band = f"INTERVAL {band} SECONDS"

    def results(self, data: Path) -> DataFrame:
        m1, m2 = (
            self.packets(data / link).select("ts", *KEYS).withWatermark("ts", "2 seconds").alias(link)
            for link in ("m1", "m2")
        )
        within = f"m1.ts >= m2.ts - {self._band} AND m1.ts <= m2.ts + {self._band}"
        matches = m1.join(m2, F.expr(f"{CONVERSATION} AND {within}"))
        counts = matches.groupBy(F.window("m1.ts", "1 minute")).count()
        return counts.select(F.col("window.start").alias("ts"), F.col("count").alias("n"))


class RocksDBMatches(Matches):
    provider = ROCKSDB
    settings: Mapping[str, str] = {
        "spark.sql.streaming.join.stateFormatVersion": "4",
        "spark.sql.shuffle.partitions": "4",
    }


class HDFSMatches(Matches):
    provider = HDFS
