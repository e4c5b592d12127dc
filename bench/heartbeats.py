"""heartbeats: what they cost. q4 as it is, and united with a silent link that speaks by a heartbeat every second.

More packets than q4 has by default, so that the run lasts for several heartbeats (heartbeat.md 7.3). Two processes
that run the same network differ by more (4 %) than heartbeats may cost (2 %), so the two networks take turns in one,
and both are run in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock_bench.contract import OURS, Peer, Size
from penstock_bench.q4 import FlowCounts


class HeartbeatCost(FlowCounts):
    """The benchmark."""

    name = "heartbeats"
    summary = "q4 without and with a silent link that sends a heartbeat every second"
    size = Size(rows=100_000_000, groups=131_072)
    turns = 5
    peers: Sequence[Peer] = (
        Peer(OURS, "penstock_bench.ours:WatchedFlows", "this system"),
        Peer(
            f"{OURS}-heartbeats",
            "penstock_bench.ours:FlowsWithHeartbeats",
            "this system, and a silent link with a heartbeat every second",
        ),
    )
    growth: Sequence[tuple[str, str]] = ((f"{OURS}-heartbeats", OURS),)


HEARTBEATS: Final = HeartbeatCost()
