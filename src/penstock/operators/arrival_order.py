"""The order in which tuples have arrived."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.algebra.hidden import SEQ, in_order


def in_arrival_order(tables: Sequence[pa.Table]) -> pa.Table:
    """The tuples of one batch in order of arrival; most often the tables only have to be put in order."""
    filled = [t for t in tables if t.num_rows] or list(tables[:1])
    tuples = pa.concat_tables(sorted(filled, key=lambda t: t.column(SEQ)[0].as_py()) if len(filled) > 1 else filled)
    seq = tuples.column(SEQ).to_numpy()
    return tuples if bool(np.all(seq[1:] > seq[:-1])) else in_order(tuples)
