"""Penstock: continuous queries over streams that are late, skewed, bursty or silent, on Apache Spark.

```
 inputs ──> INTAKE ──────────> exchange ──> STAGE 1 ──> exchange ──> STAGE 2 ... ──> OUTLET ──> results, tables,
            stateless boxes,   trains by    superbox,                                commit     folders, callbacks
            low-level          bucket       state in                                 per batch
            aggregates                      Arrow files                                 │
               ^                                                                        │
               └───────────────────── board: how far everything has come ───────────────┘
```

Spark moves and remembers, Arrow and DuckDB compute, punctuation says when.
"""

from penstock.api import Network
from penstock.connectors.delta import delta
from penstock.connectors.files import files
from penstock.connectors.folders import csv, jsonl, parquet
from penstock.connectors.generator import generator
from penstock.connectors.memory import memory, punctuation
from penstock.connectors.targets import callback, console
from penstock.errors import InternalError, PenstockError, QueryError, WorldError
from penstock.language.builder import Stream, union
from penstock.progress.policy import delayed, ordered, punctuated
from penstock.runtime.result import Result
from penstock.spark.dataframe import dataframe
from penstock.spark.run import Run

__version__ = "0.1.0"

__all__ = [
    # networks
    "Network",
    "Stream",
    "union",
    # inputs
    "dataframe",
    "files",
    "generator",
    "memory",
    "punctuation",
    # progress
    "delayed",
    "ordered",
    "punctuated",
    # outputs
    "callback",
    "console",
    "csv",
    "delta",
    "jsonl",
    "parquet",
    # running
    "Result",
    "Run",
    # errors
    "InternalError",
    "PenstockError",
    "QueryError",
    "WorldError",
]
