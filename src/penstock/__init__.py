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

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.algebra.expressions.python_functions import window_function
    from penstock.algebra.order import TUPLE_NUMBER, order
    from penstock.algebra.temporal.compatibility import Prefix, compatible
    from penstock.algebra.temporal.database import equivalent, tdb
    from penstock.api import Network
    from penstock.boxes.cleanse.verb import merge
    from penstock.boxes.lmerge.policy import merge_policy
    from penstock.boxes.lmerge.verb import lmerge
    from penstock.boxes.union.verb import union
    from penstock.connectors.delta.declaration import delta
    from penstock.connectors.files.declaration import files
    from penstock.connectors.generator.packets import generator
    from penstock.connectors.memory import clock, memory, punctuation
    from penstock.connectors.points.keeping import keep
    from penstock.connectors.points.point_input import connection_point
    from penstock.connectors.tables.static_table import table
    from penstock.connectors.targets.callback import callback
    from penstock.connectors.targets.console import console
    from penstock.connectors.targets.kept_results import results
    from penstock.connectors.targets.part_files import csv, jsonl, parquet
    from penstock.connectors.temporal.current_state import current
    from penstock.connectors.temporal.element_input import temporal
    from penstock.errors import InternalError, PenstockError, QueryError, WorldError
    from penstock.language.stream import Stream
    from penstock.progress.idle import heartbeat, on_demand
    from penstock.progress.policies.delayed import delayed
    from penstock.progress.policies.ordered import ordered
    from penstock.progress.policies.punctuated import punctuated
    from penstock.progress.policies.slack import slack
    from penstock.runtime.result import Result
    from penstock.runtime.stepping.stepper import Stepper
    from penstock.spark.dataframe import dataframe
    from penstock.spark.run import Run

__version__ = "0.1.0"

__all__ = [
    # networks
    "Network",
    "Stream",
    "lmerge",
    "merge",
    "merge_policy",
    "union",
    # order
    "TUPLE_NUMBER",
    "order",
    # functions
    "window_function",
    # temporal databases
    "Prefix",
    "compatible",
    "equivalent",
    "tdb",
    # inputs
    "clock",
    "connection_point",
    "dataframe",
    "files",
    "generator",
    "memory",
    "punctuation",
    "temporal",
    # static tables
    "table",
    # progress
    "delayed",
    "heartbeat",
    "on_demand",
    "ordered",
    "punctuated",
    "slack",
    # outputs
    "callback",
    "results",
    "console",
    "csv",
    "current",
    "delta",
    "jsonl",
    "keep",
    "parquet",
    # running
    "Result",
    "Run",
    "Stepper",
    # errors
    "InternalError",
    "PenstockError",
    "PromiseWarning",
    "QueryError",
    "WorldError",
]

# Spark starts Python processes that need one small module of this package: loading all of it would cost each of them
# half a second. So a name is loaded when it is first asked for.
_HOME = {
    "Network": "penstock.api",
    "TUPLE_NUMBER": "penstock.algebra.order",
    "order": "penstock.algebra.order",
    "Prefix": "penstock.algebra.temporal.compatibility",
    "compatible": "penstock.algebra.temporal.compatibility",
    "equivalent": "penstock.algebra.temporal.database",
    "tdb": "penstock.algebra.temporal.database",
    "window_function": "penstock.algebra.expressions.python_functions",
    "delta": "penstock.connectors.delta.declaration",
    "files": "penstock.connectors.files.declaration",
    "csv": "penstock.connectors.targets.part_files",
    "jsonl": "penstock.connectors.targets.part_files",
    "parquet": "penstock.connectors.targets.part_files",
    "clock": "penstock.connectors.memory",
    "generator": "penstock.connectors.generator.packets",
    "memory": "penstock.connectors.memory",
    "punctuation": "penstock.connectors.memory",
    "connection_point": "penstock.connectors.points.point_input",
    "keep": "penstock.connectors.points.keeping",
    "table": "penstock.connectors.tables.static_table",
    "callback": "penstock.connectors.targets.callback",
    "console": "penstock.connectors.targets.console",
    "results": "penstock.connectors.targets.kept_results",
    "current": "penstock.connectors.temporal.current_state",
    "temporal": "penstock.connectors.temporal.element_input",
    "InternalError": "penstock.errors",
    "PenstockError": "penstock.errors",
    "PromiseWarning": "penstock.errors",
    "QueryError": "penstock.errors",
    "WorldError": "penstock.errors",
    "Stream": "penstock.language.stream",
    "lmerge": "penstock.boxes.lmerge.verb",
    "merge": "penstock.boxes.cleanse.verb",
    "merge_policy": "penstock.boxes.lmerge.policy",
    "union": "penstock.boxes.union.verb",
    "heartbeat": "penstock.progress.idle",
    "on_demand": "penstock.progress.idle",
    "delayed": "penstock.progress.policies.delayed",
    "ordered": "penstock.progress.policies.ordered",
    "punctuated": "penstock.progress.policies.punctuated",
    "slack": "penstock.progress.policies.slack",
    "Result": "penstock.runtime.result",
    "Stepper": "penstock.runtime.stepping.stepper",
    "dataframe": "penstock.spark.dataframe",
    "Run": "penstock.spark.run",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
