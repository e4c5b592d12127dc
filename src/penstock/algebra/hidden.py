"""Hidden columns and marks: what every tuple and stream carries besides the attributes that queries see.

- `ARRIVED`: the QoS timestamp (aurora.md 5.1), the arrival time of the oldest tuple that contributed, in microseconds
  since the epoch. All tuples of a batch arrive at the clock reading in its offset, so at the intake it is a constant
  that the host adds when tuples leave; behind a stage it is a column.
- `SEQ`: arrival order inside a batch, carried only where a box downstream is defined on it. Tuples that boxes create
  get one from their progressing attribute; where it ties, the content of the tuples decides (`in_order`).
- `falling(attribute)`: the mark of an attribute that decreases, of its negative ticks: no later tuple has more.
- `ENDED`: a mark beside those of the progressing attributes, `END` once nothing will follow. It is known of streams
  that make no progress on anything, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.ticks import BEGINNING, END

ARRIVED: Final = "#arrived"
SEQ: Final = "#seq"
ENDED: Final = "#ended"

_FALLING: Final = "#falling:"


def falling(attribute: str) -> str:
    """The mark of an attribute that decreases: a low-water mark of its negative.

    >>> falling("ttl")
    '#falling:ttl'
    """
    return _FALLING + attribute


def fallen(marks: Iterable[str]) -> list[str]:
    """The attributes that decrease, among all marks of a port.

    >>> fallen(["ts", "#falling:ttl", "#ended"])
    ['ttl']
    """
    return [name.removeprefix(_FALLING) for name in marks if name.startswith(_FALLING)]


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


def has_ended(marks: Mapping[str, int]) -> bool:
    """Whether marks say that nothing will follow."""
    return marks.get(ENDED, BEGINNING) == END


def end_of(marks: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The `ENDED` mark of what is made of several streams: it has ended when all of them have."""
    return {ENDED: END if all(has_ended(m) for m in marks) else BEGINNING}


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
