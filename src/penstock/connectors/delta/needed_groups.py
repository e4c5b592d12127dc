"""Which row groups of a data file are needed, if only rows within some bounds are of use.

The footer of a file tells the smallest and the largest value of every column in every row group. It never changes, so
the same groups are left out whenever the file is looked at. A group stays if a row of it may be within the bounds; and
also if a row of it may be late or refused, for such rows are told of, whoever wants them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.algebra.expressions.bounds import Extent, columns_in, may_hold
from penstock.algebra.marks import FALLING, Mark, Marks
from penstock.algebra.ticks import BEGINNING, out_of_range, to_ticks
from penstock.connectors.connector import NeededRows
from penstock.connectors.fitting import lossless


@dataclass(frozen=True)
class NeededGroups:
    """What is read of a file."""

    groups: frozenset[int]
    """Its row groups; of a file that cannot be looked at, none."""
    rows: int
    bytes: int
    """Of all columns, as they lie in the file."""
    clean: bool
    """Whether no row of them can be late or refused, so that those beyond the bounds can be left out, too."""


def needed_groups(
    footer: pq.FileMetaData,
    schema: pa.Schema,
    needed: NeededRows,
    issued: Marks,
    given: Mapping[str, Any] | None = None,
) -> NeededGroups:
    """The row groups of a file to be read; `given` are values of columns that are in the log and not in the file."""
    found = footer.schema.to_arrow_schema()
    known = {name: (value, value) if value is not None else None for name, value in (given or {}).items()}
    # A column that came later is NULL in all rows.
    known |= {name: None for name in columns_in(needed.bounds) if name not in found.names and name not in known}
    places = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    fits = all(lossless(found.field(field.name).type, field.type) for field in schema if field.name in found.names)
    alike = {name for name in places if name in schema.names and found.field(name).type.equals(schema.field(name).type)}
    compared = [name for name in columns_in(needed.bounds) if name in alike and name not in known]
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    spotless = np.full(len(groups), fits and all(name in alike for name in needed.progressing))
    for name in needed.progressing if spotless.any() else ():
        facts = [group.column(places[name]).statistics for group in groups]
        spotless &= _clean(facts, schema.field(name).type, issued.of(name), issued.of(Mark(name, FALLING)))
    chosen = [
        at
        for at, group in enumerate(groups)
        if not spotless[at] or may_hold(needed.bounds, known | _extents(group, places, compared))
    ]
    exact = all(name in compared or name in known for name in columns_in(needed.bounds))
    return NeededGroups(
        frozenset(chosen),
        sum(groups[at].num_rows for at in chosen),
        sum(groups[at].column(place).total_compressed_size for at in chosen for place in places.values()),
        exact and bool(spotless[chosen].all()),
    )


def _extents(group: Any, places: Mapping[str, int], columns: list[str]) -> dict[str, Extent]:
    found: dict[str, Extent] = {}
    for name in columns:
        facts = group.column(places[name]).statistics
        if facts is None:
            continue
        if facts.has_min_max:
            found[name] = (facts.min, facts.max)
        elif facts.has_null_count and facts.null_count == group.num_rows:
            found[name] = None
    return found


def _clean(facts: Sequence[Any], kind: pa.DataType, issued: int, downwards: int) -> np.ndarray:
    """Of which row groups no value of a progressing attribute is NULL, out of range, or below what was stated: above
    it, if it decreases."""
    told = [one is not None and one.has_min_max and one.has_null_count and not one.null_count for one in facts]
    ends = [(one.min, one.max) if known else (None, None) for one, known in zip(facts, told, strict=True)]
    try:
        low, high = (to_ticks(pa.array([pair[end] for pair in ends], kind), wrap=True) for end in (0, 1))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return np.zeros(len(facts), bool)
    odd = pc.or_(pc.or_(out_of_range(low, kind), out_of_range(high, kind)), pc.less(low, issued))
    if downwards != BEGINNING:
        odd = pc.or_(odd, pc.less(pc.negate(high), downwards))
    return np.asarray(pc.invert(pc.fill_null(odd, True)))
