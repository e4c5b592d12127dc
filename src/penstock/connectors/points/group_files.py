"""The files in which a connection point keeps marks of groups: which groups have moved in a batch, and how far.

```
 _marks/part-00000041-0001-groups-....parquet      device  ts        every later tuple of device a has ts >= 7
                                                   a        7
                                                   b        3
```

They lie beside the data files, in a folder that readers of Delta pass by. The commit of the batch names them, so they
are there exactly once, as the tuples are. A mark stays true, so of several files the largest mark of each group is
enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.delta.commit_marks import MARKS_FOLDER, NamedFile
from penstock.connectors.delta.data_files import write_data_file
from penstock.errors import WorldError
from penstock.storage.folder import Folder

GROUP_PART: Final = "groups"


def write_group_file(folder: Folder, begin: str, marks: pa.Table) -> NamedFile:
    """Put a file with marks into the folder of a point: of each group the largest, in order of the groups. The last
    column is what the marks are of."""
    place = folder.child(MARKS_FOLDER)
    place.make()
    rows = largest(marks)
    name, size, _ = write_data_file(place, begin, rows.sort_by([(g, "ascending") for g in rows.column_names[:-1]]))
    return f"{MARKS_FOLDER}/{name}", size


def read_group_files(folder: Folder, files: Sequence[NamedFile], columns: Sequence[str] = ()) -> pa.Table | None:
    """The largest mark of each group in some files, of these columns or of those that the last file has; None if there
    are none. A point whose network has changed may have files of other groups: they say nothing of these."""
    tables = [_read(folder, path) for path, _ in files]
    wanted = [*columns] or (tables[-1].column_names if tables else [])
    alike = [table for table in tables if table.column_names == wanted]
    return largest(pa.concat_tables(alike)) if alike else None


def largest(marks: pa.Table) -> pa.Table:
    """The largest mark of each group.

    >>> largest(pa.table({"k": ["a", "b", "a"], "ts": [3, 5, 4]})).to_pylist()
    [{'k': 'a', 'ts': 4}, {'k': 'b', 'ts': 5}]
    """
    *groups, on = marks.column_names
    found = marks.group_by(groups, use_threads=False).aggregate([(on, "max")])
    return found.select([*groups, f"{on}_max"]).rename_columns([*groups, on])


def _read(folder: Folder, path: str) -> pa.Table:
    inside, _, name = path.rpartition("/")
    place = folder.child(inside)
    if not place.exists(name):
        raise WorldError(
            f"the file {path} of the connection point {folder.path} is gone",
            expected="marks of groups to stay until they have been read",
            hint="let the point keep its files for longer (grace=), or start with another checkpoint",
        )
    try:
        return pq.read_table(pa.BufferReader(place.read(name)))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise WorldError(
            f"the file {path} of the connection point {folder.path} is damaged",
            expected="marks of groups, as Penstock writes them",
            found=(str(error).splitlines() or [repr(error)])[0],
            hint="restore it from a copy",
        ) from error
