"""Where heartbeats and ETS waited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.jobs import job_of

import penstock as pk
from penstock.runtime.local import LocalExecutor
from penstock.runtime.result import Result
from penstock.runtime.traces import Hop, Trace

SCHEMA = {"ts": "int64", "k": "string"}


def run_script(tmp_path: Path, policy: Any, timestamps: str = "external") -> Result:
    """Two inputs: one brings tuples, the other only the time."""
    net = pk.Network("traces")
    busy = [(1, "a"), pk.clock(1), (12, "a"), pk.clock(12), (25, "b"), pk.clock(25), (38, "b"), pk.clock(38)]
    quiet = [pk.clock(at) for at in (1, 1, 12, 12, 25, 25, 38, 38)]
    fast = net.source("busy", pk.memory(busy, schema=SCHEMA, train=2))
    slow = net.source("quiet", pk.memory(quiet, schema=SCHEMA, train=2), progress=policy)
    counted = pk.union(fast, slow).where("ts > 0", name="positive").aggregate({"n": "count(*)"}, size=10, name="counts")
    counted.aggregate({"most": "max(n)"}, size=20, name="most").output("most")
    fast.aggregate({"n": "count(*)"}, size=10, name="elsewhere").output("elsewhere")
    job = job_of(net, tmp_path)
    executor = LocalExecutor(job)
    while executor.step() is not None:
        pass
    return Result(job)


@pytest.mark.parametrize(
    ("policy", "kind"),
    [(pk.heartbeat("1 s", "5 s", unit="s"), "heartbeat"), (pk.on_demand("5 s", unit="s"), "ETS")],
)
def test_a_trace_names_every_place_on_its_way_and_no_other(tmp_path: Path, policy: Any, kind: str) -> None:
    traces = run_script(tmp_path, policy).traces()
    assert [(t.id, t.kind, t.input, t.shard, t.states) for t in traces] == [
        ("0.0", kind, "quiet", "0", "ts >= -4"),
        ("1.0", kind, "quiet", "0", "ts >= 7"),
        ("2.0", kind, "quiet", "0", "ts >= 20"),
        ("3.0", kind, "quiet", "0", "ts >= 33"),
    ]
    for trace in traces:
        assert [hop.place for hop in trace.hops] == ["intake", "counts", "most", "outlet"]
        assert all(hop.arrived <= hop.left for hop in trace.hops)
    counts = traces[2].hops[1]
    assert (counts.tuples_in, counts.tuples_out) == (1, 2)


def test_waits_are_what_lies_between_the_places() -> None:
    trace = Trace(
        "7.0", "ETS", "in", "0", "ts >= 5", 7, 1_000, (Hop("intake", 3_000, 4_000), Hop("outlet", 9_000, 9_500))
    )
    assert trace.waits == [("intake", 2.0), ("outlet", 5.0)]
    assert trace.milliseconds == 8.5
    assert str(trace) == (
        "ETS 7.0 of input 'in', shard '0': ts >= 5; 8.5 ms in all: "
        "intake 1.0 ms (after 2.0 ms) -> outlet 0.5 ms (after 5.0 ms)"
    )
    assert Trace.from_json(trace.to_json()) == trace


def test_without_silence_there_is_nothing_to_trace(tmp_path: Path) -> None:
    assert run_script(tmp_path, pk.ordered()).traces() == []
