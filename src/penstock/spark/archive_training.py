"""What a JVM does to show which classes it needs: start a session, run a small network by each way, and end."""

from __future__ import annotations

from typing import Final

from pyspark import SparkContext

import penstock as pk

_EXIT_SECONDS: Final = 300.0
"""Writing the archive takes the JVM some seconds of processor time, and this process has the lowest priority."""


def train() -> None:
    for way in ("express", "exchange"):
        net = pk.Network("training")
        rows = pk.memory([(0, 1), (1, 2), (12, 3)], schema={"ts": "int64", "v": "int64"}, train=2)
        counts = net.source("rows", rows, progress=pk.ordered()).aggregate({"n": "count(*)"}, size=10, name="counts")
        counts.output("counts")
        assert net.run(way=way, buckets=2)["counts"].num_rows == 2


def end() -> None:
    """Wait for the JVM, which ends when nobody can speak to it any more."""
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    assert context is not None
    assert gateway is not None
    context.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    assert gateway.proc.wait(_EXIT_SECONDS) == 0


if __name__ == "__main__":
    train()
    end()
