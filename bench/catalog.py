"""The benchmarks there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.errors import QueryError
from penstock_bench.attach import ATTACH
from penstock_bench.bandjoin import BANDJOIN
from penstock_bench.calls import CALLS
from penstock_bench.contract import OURS, Benchmark, Peer
from penstock_bench.ets import ETS
from penstock_bench.failover import FAILOVER
from penstock_bench.feedback import FEEDBACK
from penstock_bench.floor import FLOOR
from penstock_bench.heartbeats import HEARTBEATS
from penstock_bench.late import LATE
from penstock_bench.lmerge import LMERGE
from penstock_bench.lull import LULL
from penstock_bench.optimizer import OPTIMIZER
from penstock_bench.point_query import POINT_QUERY
from penstock_bench.q4 import Q4
from penstock_bench.q7 import Q7
from penstock_bench.q9 import Q9
from penstock_bench.retention import RETENTION
from penstock_bench.shapes import SHAPES
from penstock_bench.skew import SKEW
from penstock_bench.smoothing import SMOOTHING

BENCHMARKS: Final[tuple[Benchmark, ...]] = (
    Q4,
    Q7,
    Q9,
    SHAPES,
    CALLS,
    FLOOR,
    HEARTBEATS,
    ETS,
    SMOOTHING,
    SKEW,
    LULL,
    LATE,
    BANDJOIN,
    ATTACH,
    POINT_QUERY,
    RETENTION,
    OPTIMIZER,
    LMERGE,
    FEEDBACK,
    FAILOVER,
)


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


def choose(bench: Benchmark, against: Sequence[str], cases: Sequence[str] = (), *, profile: bool = False) -> list[Peer]:
    """Ours and the peers named, in the cases named (all, or the usual ones, when none is), in the benchmark's order.

    With `profile`, also those of ours that find out where the time goes.
    """
    if profile and not _profiled(bench):
        raise QueryError(
            f"benchmark '{bench.name}' has no profile",
            expected=f"--profile with one of {', '.join(b.name for b in BENCHMARKS if _profiled(b))}",
            hint="leave --profile out",
        )
    cases = cases or getattr(bench, "usual_cases", ())
    known = names(bench.peers)
    for name in against:
        if name not in known:
            raise QueryError(
                f"benchmark '{bench.name}' has no peer '{name}'",
                expected=f"one of {', '.join(each for each in known if each != OURS)}",
                hint="give --against one of these, or leave it out to run them all",
            )
    for case in cases:
        if case not in _cases(bench):
            raise QueryError(
                f"benchmark '{bench.name}' has no case '{case}'",
                expected=f"one of {', '.join(_cases(bench))}" if _cases(bench) else "no --case: it has only one",
            )
    # A benchmark may hold several networks of ours (penstock, penstock-two-stages): they always run.
    return [
        peer
        for peer in bench.peers
        if (not against or peer.name in against or peer.name.startswith(OURS))
        and (not cases or peer.case in cases)
        and (profile or not peer.profiles)
    ]


def _profiled(bench: Benchmark) -> bool:
    return any(peer.profiles for peer in bench.peers)


def names(peers: Sequence[Peer]) -> list[str]:
    """The names of peers, each once whatever the number of cases."""
    return list(dict.fromkeys(peer.name for peer in peers))


def _cases(bench: Benchmark) -> list[str]:
    return list(dict.fromkeys(peer.case for peer in bench.peers if peer.case))
