"""Which elements are legal, where each must begin with what the one before it has left.

```
 there is <p, 6, 10>     adjust 10 -> 12    adjust 10 -> 15    adjust 12 -> 20
                         legal              not: 12 is there   legal
```

What is illegal is as if it had not come, so an element depends on all before it that are legal. The next legal element
behind one that leaves an end is the first that asks for this end: where that is the case is known for all elements at
once. Those that can be reached from the first end, jump by jump, are legal; jumps are doubled until all are at the end.
"""

from __future__ import annotations

import numpy as np

from penstock.operators.arrays import Mask, Numbers


def legal(chain: Numbers, now: Numbers, asks: Numbers, leaves: Numbers) -> Mask:
    """Of elements in order of arrival, which find what they ask for.

    `chain` says which elements follow each other, `now` the end that is there before the first of its chain.

    >>> one = np.zeros(3, np.int64)
    >>> legal(one, one + 10, np.array([10, 10, 12]), np.array([12, 15, 20])).tolist()
    [True, False, True]
    """
    order = np.argsort(chain, kind="stable")
    chain, asks, leaves, now = chain[order], asks[order], leaves[order], now[order]
    first = np.append(True, chain[1:] != chain[:-1])[: len(chain)]
    found = np.where(first, now, np.append(0, leaves[:-1])[: len(chain)]) == asks
    if not found.all():
        broken = np.isin(chain, chain[~found])
        found[broken] = _reached(chain[broken], now[broken], asks[broken], leaves[broken])
    result = np.empty(len(chain), bool)
    result[order] = found
    return result


def _reached(chain: Numbers, now: Numbers, asks: Numbers, leaves: Numbers) -> Mask:
    """The same, chain after chain, where some elements are illegal."""
    rows = len(chain)
    _, chain = np.unique(chain, return_inverse=True)
    _, ends = np.unique(np.concatenate([asks, leaves, now]), return_inverse=True)
    # A number for every end of every chain, and then for it at every place: below rows squared, so within 64 bits.
    _, keys = np.unique(np.tile(chain, 3) * (int(ends.max()) + 1) + ends, return_inverse=True)
    asked, left, begun = np.split(keys, 3)
    step = rows + 1
    places = np.arange(1, rows + 1)
    wanted = asked * step + places
    order = np.argsort(wanted, kind="stable")
    wanted = wanted[order]

    def following(key: Numbers, place: Numbers) -> Numbers:
        """The first element behind a place that asks for a key; `rows` if there is none."""
        at = np.searchsorted(wanted, key * step + place, "right")
        inside = np.minimum(at, rows - 1)
        return np.where((at < rows) & (wanted[inside] // step == key), order[inside], rows)

    first = np.flatnonzero(np.append(True, chain[1:] != chain[:-1]))
    jump = np.append(following(left, places), rows)
    reached = np.zeros(rows + 1, bool)
    # Chains stand one after the other, and a key belongs to one of them: the search may begin in front of all.
    reached[following(begun[first], np.zeros(len(first), np.int64))] = True
    while (jump < rows).any():
        reached[jump[reached]] = True
        jump = jump[jump]
    return reached[:rows]
