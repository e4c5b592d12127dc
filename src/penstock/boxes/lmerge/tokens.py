"""Which adjusts are legal, where a Vs and a payload may have several events with the same end.

An adjust takes one event of an end away and adds one of another, an insert adds one. It is legal if there is one to
take when it comes. What is illegal takes nothing and adds nothing, so that others may become illegal, too: the first of
a chain that finds nothing is illegal for sure, and so is one whose end nobody ever leaves. The rest is looked at again
without them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.boxes.lmerge.arrivals import ABSENT
from penstock.operators.arrays import Mask, Numbers

MOST_ROUNDS: Final = 64
"""Illegal elements of one chain in a batch behind which nothing of the chain is believed any more."""


def affordable(chain: Numbers, asks: Numbers, leaves: Numbers, there: tuple[Numbers, Numbers, Numbers]) -> Mask:
    """Of elements in order of arrival, which find the event that they adjust.

    `chain` says which elements are of one input, Vs and payload; `there` is what these have before: chain, end, count.

    >>> none = np.zeros(0, np.int64)
    >>> affordable(np.array([0, 0, 0]), np.array([ABSENT, 9, 9]), np.array([9, 12, 15]), (none, none, none)).tolist()
    [True, True, False]
    """
    found = np.ones(len(chain), bool)
    if bool((asks == ABSENT).all()):
        return found
    for _ in range(MOST_ROUNDS):
        poor, hopeless = _poor(np.flatnonzero(found), chain, asks, leaves, there)
        if not len(poor):
            return found
        # The first of each chain, in order of arrival.
        _, first = np.unique(chain[poor], return_index=True)
        found[poor[first]] = False
        found[hopeless] = False
    poor, _ = _poor(np.flatnonzero(found), chain, asks, leaves, there)
    _, numbered = np.unique(chain, return_inverse=True)
    believed = np.full(len(chain), len(chain))
    np.minimum.at(believed, numbered[poor], poor)
    return found & (np.arange(len(chain)) < believed[numbered])


def _poor(
    rows: Numbers, chain: Numbers, asks: Numbers, leaves: Numbers, there: tuple[Numbers, Numbers, Numbers]
) -> tuple[Numbers, Numbers]:
    """The elements, in order of arrival, that find nothing to take if all of these are legal; and those that would
    find nothing whoever came before them."""
    take, give = rows[asks[rows] != ABSENT], rows[leaves[rows] != ABSENT]
    chains = np.concatenate([there[0], chain[take], chain[give]])
    ends = np.concatenate([there[1], asks[take], leaves[give]])
    moved = np.concatenate([there[2], np.full(len(take), -1), np.ones(len(give), np.int64)])
    place = np.concatenate([np.full(len(there[0]), -1), 2 * take, 2 * give + 1])
    element = np.concatenate([np.full(len(there[0]), -1), take, np.full(len(give), -1)])
    order = np.lexsort((place, ends, chains))
    chains, ends, moved, element = chains[order], ends[order], moved[order], element[order]
    total = np.cumsum(moved)
    first = np.append(True, (chains[1:] != chains[:-1]) | (ends[1:] != ends[:-1]))[: len(chains)]
    starts = np.flatnonzero(first)
    sizes = np.diff(np.append(starts, len(first)))
    before = np.repeat((total - moved)[starts], sizes)
    given = np.repeat(np.add.reduceat(np.maximum(moved, 0), starts), sizes) if len(starts) else total
    takes = element >= 0
    return np.sort(element[(total - before < 0) & takes]), element[(given == 0) & takes]
