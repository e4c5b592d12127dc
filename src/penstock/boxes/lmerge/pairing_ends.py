"""From some ends to others: which event takes which end, where a Vs and a payload have several."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.operators.arrays import Mask, Numbers


@dataclass(frozen=True)
class Pairs:
    """Single events that change their end: rows of counts by event and end, -1 for none."""

    event: Numbers
    from_row: Numbers
    to_row: Numbers

    def only(self, keep: Mask) -> Pairs:
        return Pairs(self.event[keep], self.from_row[keep], self.to_row[keep])


def pairs(event: Numbers, was: Numbers, becomes: Numbers) -> Pairs:
    """What leads from one count of every row to another: of each event, the first row with too many to the first with
    too few, and so on; what is left over comes or goes.

    >>> pairs(np.array([0, 0, 0, 1]), np.array([2, 0, 0, 1]), np.array([1, 1, 1, 0]))
    Pairs(event=array([0, 0, 1]), from_row=array([ 0, -1,  3]), to_row=array([ 1,  2, -1]))
    """
    from_rows = np.repeat(np.arange(len(event)), np.maximum(was - becomes, 0))
    to_rows = np.repeat(np.arange(len(event)), np.maximum(becomes - was, 0))
    rows = np.concatenate([from_rows, to_rows])
    moved, owner = np.unique(event[rows], return_inverse=True)
    sides = owner[: len(from_rows)], owner[len(from_rows) :]
    sizes = np.maximum(*(np.bincount(side, minlength=len(moved)) for side in sides))
    starts = np.cumsum(sizes) - sizes
    found = []
    for side, own in zip(sides, (from_rows, to_rows), strict=True):
        column = np.full(int(sizes.sum()), -1)
        rank = np.arange(len(side)) - np.searchsorted(side, side)
        column[starts[side] + rank] = own
        found.append(column)
    return Pairs(np.repeat(moved, sizes), *found)
