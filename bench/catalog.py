"""The benchmarks there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.errors import QueryError
from penstock_bench.contract import OURS, Benchmark, Peer
from penstock_bench.floor import FLOOR
from penstock_bench.q4 import Q4

BENCHMARKS: Final[tuple[Benchmark, ...]] = (Q4, FLOOR)


def find(name: str) -> Benchmark:
    """The benchmark of that name."""
    for bench in BENCHMARKS:
        if bench.name == name:
            return bench
    raise QueryError(
        f"unknown benchmark '{name}'",
        expected=f"one of {', '.join(bench.name for bench in BENCHMARKS)}",
        hint="`penstock bench` without a name lists them",
    )


def choose(bench: Benchmark, against: Sequence[str]) -> list[Peer]:
    """Ours and the peers named (all, when none is): in the order of the benchmark."""
    names = [peer.name for peer in bench.peers]
    for name in against:
        if name not in names:
            raise QueryError(
                f"benchmark '{bench.name}' has no peer '{name}'",
                expected=f"one of {', '.join(each for each in names if each != OURS)}",
                hint="give --against one of these, or leave it out to run them all",
            )
    # A benchmark may hold several networks of ours (penstock, penstock-two-stages): they always run.
    return [peer for peer in bench.peers if not against or peer.name in against or peer.name.startswith(OURS)]
