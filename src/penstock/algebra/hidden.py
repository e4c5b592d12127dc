"""Hidden columns: what every tuple carries besides the attributes that queries see.

- `ARRIVED`: the QoS timestamp (aurora.md 5.1), the arrival time of the oldest tuple that contributed, in microseconds
  since the epoch. All tuples of a batch arrive at the clock reading in its offset, so at the intake it is a constant
  that the host adds when tuples leave; behind a stage it is a column.
- `SEQ`: arrival order inside a batch, carried only where a box downstream is defined on it. Tuples that boxes create
  get one from their progressing attribute; where it ties, the content of the tuples decides (`in_order`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

ARRIVED: Final = "#arrived"
SEQ: Final = "#seq"


def is_hidden(name: str) -> bool:
    return name.startswith("#")


def visible(names: Iterable[str]) -> list[str]:
    """The names that queries see.

    >>> visible(["ts", "#arrived"])
    ['ts']
    """
    return [name for name in names if not is_hidden(name)]


def carried(tuples: pa.Table) -> list[str]:
    """The hidden columns that tuples carry along."""
    return [name for name in (SEQ, ARRIVED) if name in tuples.column_names]


def in_order(tuples: pa.Table) -> pa.Table:
    """Tuples of one batch in order of arrival: by `SEQ`, ties by content, so that the answer never depends on cuts."""
    if not tuples.num_rows:
        return tuples
    seq = tuples.column(SEQ)
    # Arrival numbers of the intake are unique: then nothing else needs to be compared.
    if len(seq.unique()) == len(seq):
        return tuples.sort_by(SEQ)
    fields = [f for f in tuples.schema if f.name != SEQ and not pa.types.is_nested(f.type)]
    # Arrow does not compare codes of dictionaries, but the values that they stand for.
    plain = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in fields]
    compared = tuples.select([SEQ, *(f.name for f in fields)]).cast(pa.schema([tuples.schema.field(SEQ), *plain]))
    return tuples.take(pc.sort_indices(compared, [(name, "ascending") for name in compared.column_names]))
