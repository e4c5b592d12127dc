"""Spark Structured Streaming, as well as it can be set up on two cores: the session of native peers, and q4's query.

The settings were chosen by the JVM's CPU seconds, which a busy machine disturbs less than the wall clock, as the least
of four alternating repetitions in a warm JVM, with 65,536 groups:

| | RocksDB | HDFS-backed |
| --- | --- | --- |
| 5 M rows, 2 files to a batch, 2 shuffle partitions | 3.83 | 2.56 |
| the same, 4 shuffle partitions | 4.10 | 2.88 |
| the same, `foreachBatch` instead of the file sink | 3.70 | 2.65 |
| the same, counting the rows in the store | 4.39 | |
| the same, no changelog / no compression / larger write buffer | 3.71 / 3.70 / 3.85 | |
| 8 M rows, 2 / 4 / 8 files to a batch | 5.71 / 4.96 / 4.14 | 4.00 / 3.51 / 3.32 |

Differences under a tenth are within the noise; there Spark's default stands, except that changelog checkpointing is on,
as its documentation advises for short commits. The collector (parallel) was not varied.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name every Spark user knows)

from penstock_bench.throughput import CORES

_STATE: Final = "org.apache.spark.sql.execution.streaming.state"
ROCKSDB: Final = f"{_STATE}.RocksDBStateStoreProvider"
HDFS: Final = f"{_STATE}.HDFSBackedStateStoreProvider"

SHUFFLE_PARTITIONS: Final = CORES
# The larger the batch, the more the partial aggregate folds before state is touched. Beyond this it would be one batch
# job in all but name: results wait for the end of their batch.
FILES_PER_BATCH: Final = 20
PACKETS: Final = "ts timestamp, srcIP long, srcPort int, destIP long, destPort int, len int"

SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "4g",
    # Throughput counts here, pauses do not.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.adaptive.enabled": "false",  # stateful queries cannot use it; planning is cheaper without
    "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    # The default forks chmod for each log file and writes a checksum beside it: 60 ms instead of 20 ms per log.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # RocksDB alone reads these. Uploading changes instead of whole files is what Spark advises for short commits;
    # counting the rows it holds costs it a lookup for every write.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}


def session(provider: str, scratch: Path, extra: Mapping[str, str] | None = None) -> SparkSession:
    """A session whose state lies in `provider` and whose files all lie under `scratch`."""
    builder: Any = SparkSession.builder.master(f"local[{CORES}]").appName("penstock bench")
    settings = {
        **SETTINGS,
        "spark.sql.streaming.stateStore.providerClass": provider,
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **(extra or {}),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Query:
    """A native query from files to files. A subclass says what the results are, and where their state is kept."""

    provider: str
    settings: Mapping[str, str] = {}
    files_per_batch: int = FILES_PER_BATCH

    def results(self, data: Path) -> DataFrame:
        """The streaming results over a folder of data."""
        raise NotImplementedError

    def packets(self, folder: Path) -> DataFrame:
        """The packets of a folder as a stream."""
        reader = self._spark.readStream.schema(PACKETS).option("maxFilesPerTrigger", self.files_per_batch)
        return reader.parquet(str(folder))

    def open(self, scratch: Path) -> None:
        self._scratch = scratch
        self._spark = session(self.provider, scratch, self.settings)

    def run(self, data: Path, out: Path) -> None:
        writer = (
            self.results(data)
            .writeStream.format("parquet")
            .outputMode("append")
            .option("checkpointLocation", str(self._scratch / f"checkpoint-{out.name}"))
            .trigger(availableNow=True)
        )
        writer.start(str(out)).awaitTermination()

    def close(self) -> None:
        self._spark.stop()


class Flows(Query):
    """q4 as a native query: files, watermark, window, count, files."""

    def results(self, data: Path) -> DataFrame:
        packets = self.packets(data).withWatermark("ts", "2 seconds")
        counts = packets.groupBy(F.window("ts", "1 minute"), "srcIP", "destIP").count()
        return counts.select(F.col("window.start").alias("ts"), "srcIP", "destIP", F.col("count").alias("n"))


class RocksDBFlows(Flows):
    provider = ROCKSDB


class HDFSFlows(Flows):
    provider = HDFS
