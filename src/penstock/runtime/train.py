"""Trains: the unit of flow, and the one row format in which they travel through Spark.

A train is a table of tuples of one arc, with a header, as Arrow IPC bytes in one binary column of one row. One that
stays in the process that made it is not packed. A *note* is a row without tuples; what it says is in
`runtime/notes.py`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions import kernel

ROW_SCHEMA: Final = pa.schema(
    [pa.field("bucket", pa.int32()), pa.field("header", pa.string()), pa.field("body", pa.binary())]
)

_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")

BODY_BYTES: Final = 32 * 1024 * 1024
"""Tuples of one train, before compression: the JVM holds several at a time, each as one array."""
FEW_BUCKETS: Final = 8
CHUNK_ROWS: Final = 8192
"""Chunks that are shorter on average are made one first: each costs some calls."""
PIECES: Final = 1_000_000
"""A part is cut into fewer trains than this."""

OUTLET: Final = -1
"""The stage number of rows that go to the outlet."""


@dataclass(frozen=True)
class Row:
    """What Spark moves: to which bucket, of which stage, and a train or a note."""

    bucket: int
    header: dict[str, Any]
    body: pa.Buffer | pa.Table | None = None
    """The tuples of a train: as bytes if another process has sent them, as they are in the process that made them."""

    @property
    def stage(self) -> int:
        return int(self.header["stage"])

    @property
    def is_train(self) -> bool:
        return bool(self.header["kind"] == "train")

    @property
    def sender(self) -> str:
        return str(self.header["from"])

    @property
    def document(self) -> dict[str, Any]:
        """What a note says, as JSON (`runtime/notes.py`)."""
        document: dict[str, Any] = self.header["content"]
        return document

    @property
    def order(self) -> tuple[str, str, str, int]:
        """The order in which a stage takes its trains, so that a replay computes the same bytes."""
        h = self.header
        return (h["box"], h["part"], h["from"], h["seq"])

    def tuples(self) -> pa.Table:
        return self.body if isinstance(self.body, pa.Table) else pa.ipc.open_stream(self.body).read_all()


def trains(
    stage: int, box: str, part: str, sender: str, seq: int, tuples: pa.Table, keys: Sequence[str] | None, buckets: int
) -> Iterator[Row]:
    """A part of a box's traffic as trains for its stage: by bucket, none of them too long for one row of Spark's."""
    for bucket, own in buckets_of(tuples, keys, buckets):
        rows = max(1, int(own.num_rows * BODY_BYTES // max(1, own.nbytes)))
        for place, start in enumerate(range(0, own.num_rows, rows)):
            piece = own.slice(start, rows)
            yield train(stage, bucket, box, part, sender, seq * PIECES + place, piece)


def train(stage: int, bucket: int, box: str, part: str, sender: str, seq: int, tuples: pa.Table) -> Row:
    """A train of partial aggregates for a box of a stage."""
    header = {"kind": "train", "stage": stage, "box": box, "part": part, "from": sender, "seq": seq}
    coded = any(pa.types.is_dictionary(kind) for kind in tuples.schema.types)
    return Row(bucket, header, _with_one_dictionary(tuples) if coded else tuples)


def note_row(stage: int, bucket: int, sender: str, document: Mapping[str, Any]) -> Row:
    """A row without tuples, for what a task tells a stage or the outlet."""
    return Row(bucket, {"kind": "note", "stage": stage, "from": sender, "content": document})


def to_batch(row: Row) -> pa.RecordBatch:
    """A row as Spark takes it: one row to a record batch, since a body can be large."""
    packed = _packed(row.body) if isinstance(row.body, pa.Table) else row.body
    body = pa.array([None], pa.binary()) if packed is None else _binary(packed)
    return pa.RecordBatch.from_arrays(
        [pa.array([row.bucket], pa.int32()), pa.array([json.dumps(row.header)], pa.string()), body], schema=ROW_SCHEMA
    )


def from_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """The rows of record batches that Spark hands over."""
    for batch in batches:
        buckets, headers = batch.column("bucket").to_pylist(), batch.column("header").to_pylist()
        bodies = batch.column("body")
        for i, (bucket, header) in enumerate(zip(buckets, headers, strict=True)):
            yield Row(bucket, json.loads(header), bodies[i].as_buffer())


def buckets_of(tuples: pa.Table, keys: Sequence[str] | None, buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """The tuples of each bucket: those of one group together, the global group in bucket 0; all in all for None."""
    if keys is None:
        yield from ((bucket, tuples) for bucket in range(buckets))
        return
    if not keys or buckets == 1:
        yield 0, tuples
        return
    where = _buckets(tuples.select(list(keys)), buckets)
    if buckets <= FEW_BUCKETS:
        yield from _parted_by_chunk(tuples, where, buckets)
        return
    order = np.argsort(where, kind="stable")
    sizes = np.bincount(where, minlength=buckets)
    gathered = tuples.take(pa.array(order)).combine_chunks()
    at = 0
    for bucket, size in enumerate(sizes.tolist()):
        if size:
            yield bucket, gathered.slice(at, size)
        at += size


def _buckets(keys: pa.Table, buckets: int) -> np.ndarray:
    """The bucket of each row."""
    if any(pa.types.is_dictionary(kind) for kind in keys.schema.types):
        from penstock.operators.groups import number, without_codes  # whoever only plans batches never loads them

        # Groups are few beside rows: only they are hashed, as the texts that they are.
        groups, (numbers,) = number([keys], keys.column_names)
        return _buckets(without_codes(groups.keys), buckets)[numbers]
    hashed = kernel.run(f"SELECT {bucket_sql(keys.column_names, buckets)} AS b FROM tuples", tuples=keys)
    found: np.ndarray = hashed.column("b").to_numpy()
    return found


def _parted_by_chunk(tuples: pa.Table, where: np.ndarray, buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """The tuples of each bucket, chunk by chunk: a look at all rows for each bucket is quicker than a sort, while there
    are few of them, and what a chunk holds stays in the caches. Nothing is copied twice."""
    chunks = max((column.num_chunks for column in tuples.columns), default=0)
    tuples = tuples.combine_chunks() if tuples.num_rows < CHUNK_ROWS * chunks else tuples
    found: list[list[pa.RecordBatch]] = [[] for _ in range(buckets)]
    at = 0
    for batch in tuples.to_batches():
        mine = where[at : at + batch.num_rows]
        at += batch.num_rows
        for bucket, pieces in enumerate(found):
            rows = np.flatnonzero(mine == bucket)
            if len(rows):
                pieces.append(batch if len(rows) == len(mine) else batch.take(pa.array(rows)))
    yield from ((bucket, pa.Table.from_batches(pieces)) for bucket, pieces in enumerate(found) if pieces)


def bucket_sql(keys: Sequence[str], buckets: int) -> str:
    return f"CAST(hash({', '.join(kernel.quote(k) for k in keys)}) % {buckets} AS SMALLINT)"


@functools.cache
def hash_probe() -> str:
    """What the kernel's hash makes of some values: it must never change under a checkpoint, or groups would move."""
    values = "hash(1::BIGINT), hash('a'), hash(NULL::INT), hash(1::BIGINT, 'b'), hash(TIMESTAMP '2000-01-01')"
    return str(kernel.run(f"SELECT concat_ws(' ', {values}) AS h").column("h")[0].as_py())


def _with_one_dictionary(tuples: pa.Table) -> pa.Table | pa.Buffer:
    """Dictionaries of several chunks become one in bytes: by either way a stage must get the same."""
    try:
        return tuples.unify_dictionaries()
    except pa.ArrowException:
        return _packed(tuples)  # its codes have no room for all of them


def _packed(tuples: pa.Table) -> pa.Buffer:
    for at, kind in enumerate(tuples.schema.types):
        if pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type):
            lists = [_with_own_entries(chunk) for chunk in tuples.column(at).chunks]
            tuples = tuples.set_column(at, tuples.field(at), pa.chunked_array(lists, kind))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tuples.schema, options=_COMPRESSED) as stream:
        stream.write_table(tuples)
    return sink.getvalue()


def _with_own_entries(lists: pa.ListArray) -> pa.ListArray:
    """Lists of codes with a dictionary of no more than they need: in one process many share a large one."""
    coded = lists.flatten()
    codes, used = coded.indices.to_numpy(), np.zeros(len(coded.dictionary), np.bool_)
    used[codes] = True
    places = (np.cumsum(used) - 1).astype(np.int32)
    own = pa.DictionaryArray.from_arrays(pa.array(places[codes]), coded.dictionary.filter(pa.array(used)), safe=False)
    offsets = np.append(0, np.cumsum(pc.list_value_length(lists).to_numpy())).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), own)


def _binary(body: pa.Buffer) -> pa.Array:
    offsets = pa.py_buffer(np.array([0, body.size], np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, body])
