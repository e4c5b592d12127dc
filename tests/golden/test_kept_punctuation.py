"""Finer punctuation behind a connection point: read back, the second half closes the same windows, before the end.

```
 countdown ──────────●──> windows on an attribute that decreases
 syn, ack ──> join ──●──> counts by both times, closed by joint marks
 devices ──> where ──●──> counts by device, each closed by its own mark
```
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.golden.conftest import Runner

import penstock as pk

Half = Callable[[pk.Stream], None]
Head = Callable[[pk.Network], pk.Stream]


def countdown(net: pk.Network) -> pk.Stream:
    rows = [(left ^ 1, "ab"[left % 2]) for left in range(39, -1, -1)]
    ticks = pk.memory(rows, schema={"left": "int64", "k": "string"}, train=4)
    return net.source("ticks", ticks, on="left", progress=pk.delayed(2, descending=True))


def windows_down(ticks: pk.Stream) -> None:
    ticks.aggregate({"n": "count(*)", "most": "max(left)"}, on="left", size=8, by="k").output("windows")


def pairs(net: pk.Network) -> pk.Stream:
    schema = {"ts": "int64", "host": "string"}
    syn, ack = (
        net.source(name, pk.memory([(t // 2 * 2 + later, "xy"[t % 2]) for t in range(24)], schema=schema, train=3))
        for later, name in enumerate(("syn", "ack"))
    )
    return syn.join(ack, "l.host = r.host", on="ts", size=30)


def by_both_times(pairs: pk.Stream) -> None:
    pairs.aggregate({"n": "count(*)"}, on="r_ts", size=4, by="l_ts").output("windows")


def devices(net: pk.Network) -> pk.Stream:
    """The clock of one device is far ahead, and that of another is slow; a filter drops most of its tuples."""
    rows = [(t + 50 * (t % 3) - 20 * (t % 3 == 1), "abc"[t % 3], t % 4) for t in range(48)]
    packets = pk.memory(rows, schema={"ts": "int64", "device": "string", "v": "int64"}, train=6)
    return net.source("packets", packets, progress=pk.delayed(2, by="device")).where("v > 0")


def by_device(packets: pk.Stream) -> None:
    packets.aggregate({"n": "count(*)"}, on="ts", size=8, by="device").output("windows")


CASES: dict[str, tuple[Head, Half]] = {
    "falling": (countdown, windows_down),
    "joint": (pairs, by_both_times),
    "groups": (devices, by_device),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("read", ["connection point", "delta table"])
def test_windows_close_as_behind_the_point(run: Runner, tmp_path: Path, case: str, read: str) -> None:
    if (case, read) == ("groups", "delta table"):
        pytest.skip("marks of groups are in files that only a connection point has")
    head, half = CASES[case]
    place = str(tmp_path / "point")
    first = pk.Network("first")
    half(head(first).connection_point("point", path=place))
    behind, closed = closing(run, first)
    again = pk.Network("again")
    half(again.source("point", pk.connection_point(place) if read == "connection point" else pk.delta(place)))
    fed, closed_again = closing(run, again, train_rows=6)
    assert Counter(map(str, fed["windows"].to_pylist())) == Counter(map(str, behind["windows"].to_pylist()))
    assert fed.record().inputs["point"].late == 0
    assert closed[-1] > 0
    assert closed_again[-1] > 0, "windows close before the end, here as there"


def closing(run: Runner, net: pk.Network, **options: Any) -> tuple[pk.Result, list[int]]:
    """What a network gives, and how many windows had closed behind each batch before the last tuple."""
    left: list[tuple[int, int]] = []
    result = run(
        net,
        on_batch=lambda record: left.append((sum(i.read for i in record.inputs.values()), record.outputs["windows"])),
        **options,
    )
    whole = left[-1][0]
    return result, [windows for read, windows in left if read < whole]
