"""Inputs that fall silent, in all the ways they do: exact windows, late tuples, and who is blamed.

Time is scripted: every step is one batch, with a clock reading and what each input brings. Inputs are ordered on `ts`,
in seconds, and say clock - 5 when they are silent for a second. Windows are 10 seconds long.

```
 step          0    1    2    3
 clock        20   21   22   23
 busy       5,12   13    .    .
 quiet         .    .    .    .
```
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.golden.conftest import Runner

import penstock as pk
from penstock.plan.compile import compile_network
from penstock.runtime.board import Record
from penstock.runtime.waiting import waiting

SCHEMA = {"ts": "int64", "link": "string"}
BEAT = pk.heartbeat(every="1 second", skew="5 seconds", unit="s")
Step = tuple[int, dict[str, list[int]]]


@dataclass
class Story:
    """What a run of the script showed, batch by batch."""

    windows: list[tuple[int, int]]
    """(start, count) in order of emission."""
    emitted: list[int] = field(default_factory=list)
    """How many windows had left after each step."""
    culprits: list[set[tuple[str, str]]] = field(default_factory=list)
    """Who held windows back after each step."""
    late: dict[str, list[int]] = field(default_factory=dict)


def tell(run: Runner, steps: list[Step], **inputs: dict[str, Any]) -> Story:
    """Run a script; the inputs are given by name with the arguments of their source."""
    net = pk.Network("silence")
    width = 1 + max(len(rows) for _, brought in steps for rows in brought.values())
    streams = []
    for name, options in inputs.items():
        sharded = options.pop("sharded", False)
        script: list[Any] = []
        for reading, brought in steps:
            rows = [(ts, shard) for shard, ts in _rows(name, brought)]
            script += [pk.clock(reading), *rows, *[pk.clock(reading)] * (width - 1 - len(rows))]
        connector = pk.memory(script, schema=SCHEMA, train=width, shard_by="link" if sharded else None)
        streams.append(net.source(name, connector, **{"progress": pk.ordered(idle=BEAT), **options}))
    united = pk.union(*streams) if len(streams) > 1 else streams[0]
    united.aggregate({"n": "count(*)"}, size=10, name="counts").output("counts")
    network, story = compile_network(net.network).network, Story([])

    def on_batch(record: Record) -> None:
        story.emitted.append(record.outputs["counts"])
        story.culprits.append({each for held in waiting(network, record) for each in held.culprits})

    result = run(net, on_batch=on_batch)
    story.windows = [(row["ts"], row["n"]) for row in result["counts"].to_pylist()]
    story.late = {name: result.late(name)["ts"].to_pylist() for name in inputs}
    return story


def _rows(name: str, brought: dict[str, list[int]]) -> list[tuple[str, int]]:
    """The rows of an input in a step; 'links.west' are those of its shard 'west'."""
    found = []
    for key, values in brought.items():
        source, _, shard = key.partition(".")
        found += [(shard or "0", ts) for ts in values] if source == name else []
    return found


def test_silent_from_the_start(run: Runner) -> None:
    #  the clock: 14 lets quiet state 9 (nothing closes), 15 lets it state 10: [0, 10) leaves
    steps: list[Step] = [
        (12, {"busy": [5, 12]}),
        (13, {}),
        (14, {}),
        (15, {}),
        (16, {"busy": [16]}),
    ]
    story = tell(run, steps, busy={}, quiet={})
    assert story.windows == [(0, 1), (10, 2)]
    assert story.emitted == [0, 0, 0, 1, 2]
    assert story.culprits[:3] == [{("quiet", "0")}] * 3
    # The window from 10 on is open now, and both inputs must pass its end.
    assert story.culprits[3] == {("busy", "0"), ("quiet", "0")}
    assert story.late == {"busy": [], "quiet": []}


def test_one_that_falls_silent(run: Runner) -> None:
    steps: list[Step] = [
        (8, {"busy": [8], "quiet": [7]}),
        (11, {"busy": [11]}),
        (14, {"busy": [14]}),
        (15, {"busy": [15]}),
        (16, {}),
    ]
    story = tell(run, steps, busy={}, quiet={})
    #  quiet states clock - 5: 6 is nothing new, 9, then 10
    assert story.windows == [(0, 2), (10, 3)]
    assert story.emitted == [0, 0, 0, 1, 2]
    assert story.culprits[1:3] == [{("quiet", "0")}] * 2


def test_one_that_returns_with_old_data(run: Runner) -> None:
    steps: list[Step] = [
        (8, {"busy": [8], "quiet": [7]}),
        (16, {"busy": [16]}),
        (17, {"quiet": [9, 10, 11, 15]}),
        (18, {}),
    ]
    story = tell(run, steps, busy={}, quiet={})
    #  at 16 quiet has stated 11: what it brings from below is late, from 11 on it is not
    assert story.emitted == [0, 1, 1, 2]
    assert story.windows == [(0, 2), (10, 3)]
    assert story.late == {"busy": [], "quiet": [9, 10]}


def test_two_with_opposite_skew(run: Runner) -> None:
    #  one is 8 seconds ahead of the clock, the other 4 behind, then they change places
    steps: list[Step] = [
        (10, {"east": [18], "west": [6]}),
        (12, {"east": [20], "west": [8]}),
        (15, {"east": [], "west": [11]}),
        (24, {"east": [21], "west": [31]}),
        (25, {"east": [22], "west": [33]}),
        (26, {}),
    ]
    story = tell(run, steps, east={}, west={})
    assert story.windows == [(0, 2), (10, 2), (20, 3), (30, 2)]
    assert story.emitted == [0, 0, 1, 2, 2, 4]
    assert story.culprits[0] == {("west", "0")}
    assert story.culprits[1] == {("west", "0")}
    #  [10, 20) is open, and only west is behind its end; then [20, 30), and only east is
    assert story.culprits[2] == {("west", "0")}
    assert story.culprits[3] == {("east", "0")}
    assert story.late == {"east": [], "west": []}


def test_all_silent(run: Runner) -> None:
    steps: list[Step] = [(12, {"east": [5], "west": [6]}), (14, {}), (15, {}), (16, {}), (40, {}), (41, {})]
    story = tell(run, steps, east={}, west={})
    assert story.windows == [(0, 2)]
    assert story.emitted == [0, 0, 1, 1, 1, 1]
    assert story.culprits[1] == {("east", "0"), ("west", "0")}
    assert story.culprits[2:] == [set()] * 4


def test_a_shard_that_appears_late(run: Runner) -> None:
    """Known from the declaration it holds windows back; what it brings from below where the input stands is late."""
    steps: list[Step] = [
        (8, {"links.east": [8]}),
        (12, {"links.east": [12]}),
        (15, {"links.east": [15]}),
        (16, {"links.west": [9, 12, 13]}),
        (17, {}),
    ]
    story = tell(run, steps, links={"sharded": True})
    #  while it is silent, west states clock - 5: 3, 7, and 10, which lets [0, 10) go
    assert story.emitted == [0, 0, 1, 1, 2]
    assert story.windows == [(0, 1), (10, 4)]
    assert story.culprits[1] == {("links", "west")}
    assert story.late == {"links": [9]}


def test_a_shard_that_leaves_is_closed_when_it_is_overdue_and_may_come_back(run: Runner) -> None:
    options = {"sharded": True, "progress": pk.ordered(), "overdue": "4 seconds", "when_overdue": "close"}
    steps: list[Step] = [
        (8, {"links.east": [8], "links.west": [7]}),
        (11, {"links.east": [11]}),
        (12, {"links.east": [12]}),  # west was last heard of 4 seconds ago: it is closed, and [0, 10) leaves
        (13, {"links.east": [13]}),
        (14, {"links.west": [12, 13, 14]}),  # it comes back, and the input stands at 13
        (15, {"links.east": [21]}),
        (16, {}),
    ]
    story = tell(run, steps, links=options)
    assert story.emitted == [0, 0, 1, 1, 1, 1, 3]
    assert story.windows == [(0, 2), (10, 5), (20, 1)]
    assert story.culprits[1] == {("links", "west")}
    #  west is not blamed while it is gone, and is again once it is back
    assert story.culprits[3] == {("links", "east")}
    assert story.culprits[5] == {("links", "west")}
    assert story.late == {"links": [12]}


def test_tuples_that_fail_every_predicate_still_carry_the_time(run: Runner) -> None:
    """heartbeat.md 4.2, 4.3: what is seen before a filter, or before one that several queries share, moves them all."""
    net = pk.Network("filters")
    rows = [(3, "a"), (8, "b"), (12, "b"), (21, "b"), (33, "b")]
    shared = net.source("in", pk.memory(rows, schema=SCHEMA, train=1)).where("link = 'a'")
    shared.aggregate({"n": "count(*)"}, size=10, name="counts").output("counts")
    shared.where("ts > 5").aggregate({"n": "count(*)"}, size=10, name="none").output("none")
    marks: list[tuple[int, int, int]] = []
    result = run(
        net,
        on_batch=lambda r: marks.append((r.outputs["counts"], r.marks["counts"].of("ts"), r.marks["none"].of("ts"))),
    )
    assert result["counts"].to_pylist() == [{"ts": 0, "n": 1}]
    assert marks[:4] == [(0, 0, 0), (0, 0, 0), (1, 10, 10), (1, 20, 20)]


def test_an_input_whose_only_shard_is_closed_holds_nobody_back_and_may_come_back(run: Runner) -> None:
    closing = {"progress": pk.ordered(), "overdue": "4 seconds", "when_overdue": "close"}
    steps: list[Step] = [
        (8, {"busy": [8], "quiet": [7]}),
        (11, {"busy": [11]}),
        (12, {"busy": [12]}),  # quiet was last heard of 4 seconds ago: it is closed
        (13, {"busy": [13]}),  # and states 10, for which [0, 10) waits, and no more
        (14, {"quiet": [9, 10]}),  # it comes back: 9 is late
        (15, {"busy": [21], "quiet": [20]}),
        (16, {}),
    ]
    story = tell(run, steps, busy={}, quiet=closing)
    assert story.emitted == [0, 0, 0, 1, 1, 2, 3]
    assert story.windows == [(0, 2), (10, 4), (20, 2)]
    assert story.late == {"busy": [], "quiet": [9]}
    assert story.culprits[1] == {("quiet", "0")}
