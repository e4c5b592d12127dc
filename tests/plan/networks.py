"""Networks to plan."""

from __future__ import annotations

import penstock as pk
from penstock.plan.compile import compile_network
from penstock.plan.plan import Plan

SCHEMA = {"ts": "int64", "a": "string", "b": "string", "v": "int64", "unused": "double"}


def source(net: pk.Network, name: str = "in") -> pk.Stream:
    return net.source(name, pk.memory([], schema=SCHEMA))


def planned(net: pk.Network) -> Plan:
    return compile_network(net.network)
