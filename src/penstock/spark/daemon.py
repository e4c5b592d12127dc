"""The process from which Spark forks its Python workers, with everything loaded that they need.

A worker forked from here starts warm, and shares the memory of what was loaded. Nothing may be opened or started
before the fork: the kernel's connection, for one, is made by each worker for itself.
"""

from __future__ import annotations

from pyspark import daemon

import penstock.connectors.files.declaration
import penstock.connectors.generator.packets
import penstock.connectors.memory
import penstock.runtime.intake
import penstock.runtime.stage
import penstock.spark.query
import penstock.spark.source  # noqa: F401 - loaded for the workers

if __name__ == "__main__":
    daemon.manager()
