"""Who waits for whom, in words and by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.jobs import job_of

import penstock as pk
from penstock.runtime.local import LocalExecutor
from penstock.runtime.result import Result

SCHEMA = {"ts": "int64", "k": "string"}


def _after(net: pk.Network, folder: Path, batches: int) -> Result:
    job = job_of(net, folder)
    executor = LocalExecutor(job)
    for _ in range(batches):
        executor.step()
    return Result(job)


def _input(net: pk.Network, name: str, *seconds: int, **settings: Any) -> pk.Stream:
    script = [element for at in seconds for element in (pk.clock(at), (at, "x"))]
    return net.source(name, pk.memory(script, schema=SCHEMA, train=2), **settings)


def test_a_window_waits_for_the_input_that_is_behind(tmp_path: Path) -> None:
    net = pk.Network("net")
    fast, slow = _input(net, "fast", 5, 25, 45, 65), _input(net, "slow", 1, 3, 7, 9)
    pk.union(fast, slow).aggregate({"n": "count(*)"}, size=10, name="counts").output("counts")
    (found,) = _after(net, tmp_path, 2).waiting()
    assert (found.box, found.culprits) == ("counts", (("slow", "0"),))
    assert str(found) == (
        "aggregate 'counts' holds 4 rows since 1970-01-01 00:00:05 UTC and waits for input 'slow', which stands at 3: "
        "ts at 'union1' must reach 10. A tuple or punctuation beyond that, or the end of the input, releases it; with "
        "a policy for silence (idle=pk.on_demand(...)) 'slow' would not hold it back."
    )


def test_a_slack_says_how_many_tuples_are_wanting(tmp_path: Path) -> None:
    net = pk.Network("net")
    _input(net, "in", 5, 25, 45, 65, progress=pk.slack(3)).aggregate({"n": "count(*)"}, size=10, name="n").output("n")
    (found,) = _after(net, tmp_path, 2).waiting()
    assert "waits for input 'in', whose tuples state nothing yet: a slack of 3 tuples needs 4, and 2 came" in str(found)
    assert "4 tuples or punctuation beyond that, or the end of the input, releases it" in str(found)


def test_both_inputs_are_named_when_both_are_behind(tmp_path: Path) -> None:
    net = pk.Network("net")
    left, right = _input(net, "left", 1, 2, 3), _input(net, "right", 4, 5, 6)
    pk.union(left, right).aggregate({"n": "count(*)"}, size=10, name="counts").output("counts")
    (found,) = _after(net, tmp_path, 1).waiting()
    assert {name for name, _ in found.culprits} == {"left", "right"}


def test_the_shard_that_is_behind_is_named(tmp_path: Path) -> None:
    net = pk.Network("net")
    rows = [(1, "a"), (2, "b"), (30, "a"), (40, "a"), (50, "a"), (60, "b")]
    connector = pk.memory(rows, schema=SCHEMA, train=2, shard_by="k")
    net.source("links", connector).aggregate({"n": "count(*)"}, size=10, name="counts").output("counts")
    (found,) = _after(net, tmp_path, 2).waiting()
    assert found.culprits == (("links", "b"),)
    assert "input 'links', shard 'b', which stands at 2" in found.sentence


def test_a_merge_waits_for_what_may_still_be_older(tmp_path: Path) -> None:
    net = pk.Network("net")
    pk.merge(_input(net, "fast", 5, 25, 45), _input(net, "slow", 1, 3, 7), name="merged").output("out")
    (found,) = [w for w in _after(net, tmp_path, 2).waiting() if w.culprits]
    assert (found.box, found.culprits) == ("merged", (("slow", "0"),))


def test_through_a_map_the_input_is_still_found(tmp_path: Path) -> None:
    net = pk.Network("net")
    minutes = _input(net, "in", 61, 119, 300).map(minute="ts / 60", name="minutes")
    minutes.aggregate({"n": "count(*)"}, on="minute", size=1, name="counts").output("counts")
    (found,) = _after(net, tmp_path, 2).waiting()
    assert found.culprits == (("in", "0"),)
    assert "minute at 'minutes' must reach 2" in found.sentence


@pytest.mark.parametrize("batches", [0, 9])
def test_nothing_waits_before_the_first_tuple_and_after_the_end(batches: int, tmp_path: Path) -> None:
    net = pk.Network("net")
    _input(net, "in", 1, 2).aggregate({"n": "count(*)"}, size=10).output("counts")
    assert _after(net, tmp_path, batches).waiting() == []


@pytest.mark.parametrize(("how", "culprit", "target"), [("left", "slow", 8), ("anti", "slow", 8), ("full", "slow", 8)])
def test_a_tuple_that_may_have_to_leave_alone_waits_for_the_other_side(
    how: str, culprit: str, target: int, tmp_path: Path
) -> None:
    net = pk.Network("net")
    fast, slow = _input(net, "fast", 5, 25, 45), _input(net, "slow", 1, 3, 7)
    fast.join(slow, "l.k = r.k", on=("ts", "ts"), band=(1, 2), how=how, name="pairs").output("pairs")
    found = {w.culprits: str(w) for w in _after(net, tmp_path, 2).waiting() if w.culprits}
    #  5 meets what lies from 4 to 7
    assert set(found) == {((culprit, "0"),)}
    assert f"ts must reach {target}" in found[((culprit, "0"),)]


def test_pairs_leave_at_once_so_an_inner_join_waits_for_nobody(tmp_path: Path) -> None:
    net = pk.Network("net")
    fast, slow = _input(net, "fast", 5, 25, 45), _input(net, "slow", 1, 3, 7)
    fast.join(slow, "l.k = r.k", on=("ts", "ts"), band=(1, 2)).output("pairs")
    assert _after(net, tmp_path, 2).waiting() == []


def test_a_resampled_tuple_waits_until_its_window_is_complete(tmp_path: Path) -> None:
    net = pk.Network("net")
    fast, slow = _input(net, "fast", 5, 25, 45), _input(net, "slow", 1, 3, 7)
    fast.resample(slow, {"n": "count(*)"}, on=("ts", "ts"), size=4, name="resampled").output("out")
    (found,) = _after(net, tmp_path, 2).waiting()
    assert (found.box, found.culprits) == ("resampled", (("slow", "0"),))
    assert "ts must reach 10" in str(found)


def test_a_pair_waits_for_both_times_and_the_link_that_is_behind_is_named(tmp_path: Path) -> None:
    net = pk.Network("net")
    fast, slow = _input(net, "fast", 5, 25, 45), _input(net, "slow", 4, 6, 7)
    pairs = fast.join(slow, "l.k = r.k", on="ts", size=30, name="pairs")
    pairs.aggregate({"n": "count(*)"}, on="r_ts", size=1, by="l_ts", name="counts").output("counts")
    (found,) = _after(net, tmp_path, 1).waiting()
    # (l 5, r 4): r must have passed 4, and l 5; the band alone would ask for 35 of the left.
    assert found.culprits == (("fast", "0"), ("slow", "0"))
    assert "r_ts at 'pairs' must reach 5, jointly with l_ts 6. " in str(found)
    (found,) = _after(net, tmp_path / "later", 2).waiting()
    # (l 25, r 4) is the next window's, and the right link is at 6.
    assert found.culprits == (("fast", "0"),)
    assert "r_ts at 'pairs' must reach 5, jointly with l_ts 26. " in str(found)
