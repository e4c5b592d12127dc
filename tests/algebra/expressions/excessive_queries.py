"""Queries that need too much memory, tried in a process in which nothing else takes any.

Its output is a JSON object: what became of every query. The memory of a whole process is measured, so it must not be
the one that runs other tests, whose threads and allocators take and give back memory at any time.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Final

import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.errors import PenstockError

QUERIES: Final = {
    "a string beyond DuckDB's": "SELECT repeat(s, 2000000000) AS r FROM t",
    "a padded string": "SELECT lpad(s, 2000000000, 'x') AS r FROM t",
    "a string that is only measured": "SELECT length(repeat(s, 500000000)) AS r FROM t",
    "many strings": "SELECT repeat(s, 5000000) AS r FROM t, range(100)",
    "a list, which DuckDB does not count": "SELECT range(100000000) AS r FROM t",
    "a list that is only measured": "SELECT len(range(x * 100000000)) AS r FROM t",
    "items of a string": "SELECT string_split(repeat(s || ',', 50000000), ',') AS r FROM t",
    "an aggregate": "SELECT string_agg(repeat(s, 5000000), '') AS r FROM t, range(100)",
    "a sort, which would be spilled": "SELECT range AS r FROM range(100000000) ORDER BY hash(range)",
    "groups": "SELECT hash(range) AS r, count(*) FROM range(100000000) GROUP BY 1",
}
TUPLES: Final = pa.table({"x": pa.array([3, 1, 2], pa.int64()), "s": ["c", "a", None]})


def tried(sql: str) -> dict[str, object]:
    """What the query says, by how many bytes it lets the process grow at most, and whether all is well afterwards."""
    limits = resource.getrlimit(resource.RLIMIT_DATA)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status("VmRSS")
    try:
        kernel.run(sql, t=TUPLES)
        said = "an answer"
    except PenstockError as error:
        said = f"{type(error).__name__}: {error}"
    return {
        "said": said,
        "growth": _status("VmHWM") - before,
        "limits are back": resource.getrlimit(resource.RLIMIT_DATA) == limits,
        "a query afterwards": int(kernel.run("SELECT sum(x) AS total FROM t", t=TUPLES)["total"][0].as_py()),
        "files": sorted(at.name for at in Path().iterdir()),
    }


def _status(name: str) -> int:
    """A line of the process's status, in bytes. Only memory that was touched counts."""
    line = next(at for at in Path("/proc/self/status").read_text().splitlines() if at.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    # What is loaded by the first query, or by the first error, is no growth of those that are measured.
    tried("SELECT range(1000) AS r FROM t ORDER BY s")
    tried("SELECT nothing FROM t")
    json.dump({name: tried(sql) for name, sql in QUERIES.items()}, sys.stdout)
