"""Punctuation is only as fine as its consumers can use: the smallest step of any window downstream.

The steps of windows that are reached through a Map are not comparable with the source's own ticks, so there the step
is one tick: nothing is rolled up.
"""

from __future__ import annotations

import math
from dataclasses import replace

from penstock.algebra.box import Box, Port, Stateful
from penstock.algebra.network import Network
from penstock.algebra.source import Source
from penstock.plan.plan import Plan


def roll_up(plan: Plan) -> Plan:
    producers = [b for b in plan.network.boxes if isinstance(b, Source | Stateful)]
    return replace(plan, steps={box.name: _step(plan.network, Port(box)) or 1 for box in producers})


def _step(network: Network, port: Port) -> int:
    """The greatest common divisor of all panes downstream; 0 where nothing waits for progress."""
    return math.gcd(*(_of(network, arc.consumer) for arc in network.consumers(port)))


def _of(network: Network, consumer: Box) -> int:
    if consumer.step is not None:
        return consumer.step
    return math.gcd(*(_step(network, Port(consumer, i)) for i in range(len(consumer.ports))))
