"""Punctuation is only as fine as its consumers can use: the smallest step of any window downstream.

The steps of windows that are reached through a Map are not comparable with the source's own ticks, so there the step
is one tick: nothing is rolled up.
"""

from __future__ import annotations

import math
from dataclasses import replace

from penstock.algebra.box import Box, Port, Source, Stateful
from penstock.algebra.network import Network
from penstock.boxes.aggregate.box import Aggregate
from penstock.boxes.aggregate.low_level.box import LowLevel
from penstock.boxes.filter.box import Filter
from penstock.boxes.union.box import Union
from penstock.plan.plan import Plan


def roll_up(plan: Plan) -> Plan:
    producers = [b for b in plan.network.boxes if isinstance(b, Source | Stateful)]
    return replace(plan, steps={box.name: _step(plan.network, Port(box)) or 1 for box in producers})


def _step(network: Network, port: Port) -> int:
    """The greatest common divisor of all panes downstream; 0 where nothing waits for progress."""
    return math.gcd(*(_of(network, arc.consumer) for arc in network.consumers(port)))


def _of(network: Network, consumer: Box) -> int:
    if isinstance(consumer, Aggregate | LowLevel):
        return consumer.window.pane
    if isinstance(consumer, Filter | Union):
        return math.gcd(*(_step(network, Port(consumer, i)) for i in range(len(consumer.ports))))
    return 1
