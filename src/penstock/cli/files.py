"""Tables that commands write to a file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from penstock.errors import QueryError


def write_table(tuples: pa.Table, file: Path) -> None:
    """Write a table in the format that the name of the file says."""
    if file.suffix not in (".parquet", ".csv"):
        raise QueryError(f"{file} has no known format", expected="a name that ends with .parquet or .csv")
    if file.suffix == ".parquet":
        pq.write_table(tuples, file)
    else:
        pacsv.write_csv(tuples, file)
