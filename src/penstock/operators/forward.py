"""The entry of boxes that need the tuples themselves at their stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.algebra.box import Stateful
from penstock.algebra.hidden import SEQ, carried


class ForwardOp:
    """The entry of boxes that need the tuples themselves at their stage; the part is the number of the input."""

    def __init__(self, box: Stateful, needed: Sequence[frozenset[str]]) -> None:
        # Inputs of one schema may name their attributes in another order than the first.
        self._columns = [[name for name in box.schema(0).names if name in some] for some in box.required(needed)]
        self._gathered: dict[int, list[pa.Table]] = {}

    def process(self, slot: int, tuples: pa.Table) -> None:
        if SEQ not in tuples.column_names:
            # Records that an input refuses have no arrival number: then their content decides.
            tuples = tuples.append_column(SEQ, pa.array(np.zeros(tuples.num_rows, np.int64)))
        self._gathered.setdefault(slot, []).append(tuples.select([*self._columns[slot], *carried(tuples)]))

    def flush(self) -> Iterator[tuple[str, pa.Table]]:
        gathered, self._gathered = self._gathered, {}
        for slot in sorted(gathered):
            yield str(slot), pa.concat_tables(gathered[slot])


class ForwardWhole:
    """The entry of boxes that need tuples as they come, whatever columns they give themselves; with one input."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = list(columns)
        self._gathered: list[pa.Table] = []

    def process(self, slot: int, tuples: pa.Table) -> None:
        self._gathered.append(tuples.select([*self._columns, *carried(tuples)]))

    def flush(self) -> Iterator[tuple[str, pa.Table]]:
        gathered, self._gathered = self._gathered, []
        if gathered:
            yield "0", pa.concat_tables(gathered)
