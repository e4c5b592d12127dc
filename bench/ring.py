"""A ring buffer in front of a stage: which rate it stands, given what every train costs.

Packets come at a fixed rate and stay in the ring until their train is done; a train starts when its last packet has
come and the one before is done. If the ring is full, packets are lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

STEPS: Final = 40
"""Halvings of the interval in which the rate is sought: far below what timing can resolve."""


def fullest(costs: Sequence[float], train: int, rate: float) -> float:
    """The most packets in the ring at any time, if trains of `train` packets come at `rate` and cost these seconds.

    >>> fullest([1.0, 1.0, 1.0], 10, rate=5)
    15.0
    >>> fullest([1.0, 4.0, 1.0], 10, rate=5)
    30.0
    """
    done, most = 0.0, 0.0
    for number, cost in enumerate(costs):
        done = max((number + 1) * train / rate, done) + cost
        most = max(most, rate * done - number * train)
    return most


def highest_rate(costs: Sequence[float], train: int, ring: int) -> float:
    """The highest rate at which nothing is lost. A ring that can hold no train at all stands none.

    >>> round(highest_rate([1.0] * 100, train=10, ring=20), 3)
    10.0
    """
    # More than the work allows on average would fill any ring in time, however long the costs given here last.
    low, high = 0.0, train * len(costs) / sum(costs)
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if fullest(costs, train, middle) <= ring else (low, middle)
    return low
