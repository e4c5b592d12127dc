"""When the elements of a copy come, if they are held up on their way: by random delays, or by congestion.

A source has an element every so often. Each leaves a queue behind the one before it. A delay holds up the queue: what
has gathered leaves as fast as the queue can, until it is empty again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

RATE: Final = 5_000
"""Elements that a source has in a second."""
HURRY: Final = 4
"""How many times as fast as the source the queue lets elements go that have gathered."""
MEAN_S: Final = 0.020
SPREAD_S: Final = 0.005
"""Of a delay: normally distributed, and cut off where it would be negative."""
DISORDER: Final = 0.2
DISPLACED: Final = 100
"""An element that comes late comes at most so many elements later."""


def order_of(elements: int, seed: int) -> Numbers:
    """The order in which a copy has its elements: a fifth of them late."""
    random = np.random.default_rng(seed)
    late = random.random(elements) < DISORDER
    return np.argsort(np.arange(elements) + np.where(late, random.uniform(0, DISPLACED, elements), 0), kind="stable")


def bursty(elements: int, probability: float, seed: int, times: float = 1.0) -> Seconds:
    """When each element comes, if one in so many is held up; for so many times as long, but as many times as rarely."""
    random = np.random.default_rng(seed)
    held = np.where(random.random(elements) < probability / times, times * _delays(random, elements), 0.0)
    return _left(held)


def congested(elements: int, periods: Sequence[tuple[float, float]], seed: int) -> Seconds:
    """When each element comes, if every one is held up in some periods, which are given as shares of the whole time."""
    random = np.random.default_rng(seed)
    delays, whole = _delays(random, elements), elements / RATE
    held = np.zeros(elements)
    for begin, end in periods:
        # The queue stands still from the begin on: so many elements leave it in the period.
        first = int(begin * elements)
        count = int(np.searchsorted(np.cumsum(delays[first:]), (end - begin) * whole))
        held[first : first + count] = delays[first : first + count]
    return _left(held)


def _delays(random: np.random.Generator, count: int) -> Seconds:
    return np.maximum(0.0, random.normal(MEAN_S, SPREAD_S, count))


def _left(held: Seconds) -> Seconds:
    """When elements leave the queue, each of which is held up by so much."""
    work = held + 1 / (RATE * HURRY)
    done = np.cumsum(work)
    came = np.arange(len(held)) / RATE
    # An element leaves its work after it has come and the one before has left, whichever is later.
    return done + np.maximum.accumulate(came - (done - work))
