"""Stepping by the rules of ets.md: which box runs next, and why; who waits; and what an enabling timestamp changes."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.runtime.stepping.step import BACKTRACK, CLOCK, ENCORE, FORWARD, ON_DEMAND, Step

SCHEMA = {"ts": "int64", "k": "string"}


def chosen(steps: list[Step]) -> list[tuple[str, str]]:
    return [(step.box, step.rule) for step in steps]


def rows(stepper: Any, output: str = "out") -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in stepper.output(output).to_pylist()]


def path() -> pk.Network:
    """Figure 2: a source, two boxes, a sink."""
    net = pk.Network("path")
    source = net.source("source", pk.memory([], schema=SCHEMA))
    source.where("ts > 0", name="Q1").map(ts="ts", k="upper(k)", name="Q2").output("out")
    return net


def union(policy: Any = None, **options: Any) -> pk.Network:
    """Figure 4: a union of two sources, with a filter behind each."""
    net = pk.Network("union")
    schema = {"k": "string"} if options else SCHEMA
    left, right = (net.source(name, pk.memory([], schema=schema), progress=policy, **options) for name in ("A", "B"))
    pk.merge(left.where("k <> 'x'", name="Q1"), right.where("k <> 'x'", name="Q2"), name="U").output("out")
    return net


def direct(policy: Any = None) -> pk.Network:
    """A union of two sources with nothing in between, as in section 4.1."""
    net = pk.Network("direct")
    pk.merge(*(net.source(name, pk.memory([], schema=SCHEMA), progress=policy) for name in "AB"), name="U").output(
        "out"
    )
    return net


def test_a_simple_path_goes_forward_and_backtracks_for_the_next_tuple() -> None:
    stepper = path().stepper()
    stepper.feed("source", (1, "a"), (2, "b"))
    assert chosen(stepper.run()) == [("Q1", FORWARD), ("Q2", FORWARD), ("Q1", BACKTRACK), ("Q2", FORWARD)]
    assert rows(stepper) == [(1, "A"), (2, "B")]
    assert stepper.step() is None


def test_a_box_goes_on_with_its_input_while_it_gives_nothing() -> None:
    stepper = path().stepper()
    stepper.feed("source", (0, "a"), (-1, "b"), (3, "c"))
    # Time must not go back: -1 is late. What the filter drops moves nobody on.
    assert chosen(stepper.run()) == [("Q1", FORWARD), ("Q1", ENCORE), ("Q2", FORWARD)]
    assert stepper.late("source").to_pylist() == [{"ts": -1, "k": "b"}]


def test_the_last_box_before_the_sink_takes_all_its_input() -> None:
    net = pk.Network("last")
    source = net.source("source", pk.memory([], schema=SCHEMA))
    source.where("true", name="Q1").output("out")
    stepper = net.stepper()
    stepper.feed("source", (1, "a"), (2, "b"), (3, "c"))
    assert chosen(stepper.run()) == [("Q1", FORWARD), ("Q1", ENCORE), ("Q1", ENCORE)]


def test_a_union_backtracks_to_the_predecessor_that_feeds_the_empty_buffer() -> None:
    """
    A  1 4        U needs B first, then takes 1; for what follows it goes back to A, then to B
    B  2 9
    """
    stepper = union().stepper()
    stepper.feed("A", (1, "a"), (4, "c"))
    stepper.feed("B", (2, "b"), (9, "d"))
    steps = stepper.run()
    assert chosen(steps) == [
        ("Q1", FORWARD),  # 1
        ("U", FORWARD),  #      waits for Q2
        ("Q2", BACKTRACK),  # 2
        ("U", FORWARD),  #      1 leaves; the register of Q1 is 1, and nothing is there
        ("Q1", BACKTRACK),  # 4
        ("U", FORWARD),  #      2 leaves
        ("Q2", BACKTRACK),  # 9
        ("U", FORWARD),  #      4 leaves; then A has nothing more
    ]
    assert steps[1].waits_for == ("Q2",)
    assert steps[1].took is None
    assert [step.tsm for step in steps if step.box == "U"] == [
        {"Q1": "1", "Q2": "-"},
        {"Q1": "1", "Q2": "2"},
        {"Q1": "4", "Q2": "2"},
        {"Q1": "4", "Q2": "9"},
    ]
    assert rows(stepper) == [(1, "a"), (2, "b"), (4, "c")]
    assert stepper.queues() == {"A -> Q1": 0, "B -> Q2": 0, "Q1 -> U": 0, "Q2 -> U": 1}
    assert stepper.tsm("U") == {"Q1": 4, "Q2": 9}


def test_simultaneous_tuples_are_held_back_without_time_stamp_memory_and_not_with_it() -> None:
    """Section 4.1: A has one tuple of time 1, B three; the rules of Fig. 1 leave some of them behind."""
    fed = {"A": [(1, "a")], "B": [(1, "b"), (1, "c"), (1, "d")]}
    found = {}
    for relaxed in (False, True):
        stepper = direct().stepper(relaxed=relaxed)
        for name, given in fed.items():
            stepper.feed(name, *given)
        stepper.run()
        found[relaxed] = rows(stepper)
        assert stepper.queues()["B -> U"] == (0 if relaxed else 3)
    assert found == {False: [(1, "a")], True: [(1, "a"), (1, "b"), (1, "c"), (1, "d")]}


def test_a_simultaneous_tuple_that_comes_after_the_others_have_left_does_not_wait() -> None:
    stepper = direct().stepper()
    stepper.feed("A", (1, "a"))
    stepper.feed("B", (1, "b"))
    stepper.run()
    assert stepper.tsm("U") == {"A": 1, "B": 1}
    stepper.feed("B", (1, "c"))
    assert chosen(stepper.run()) == [("U", FORWARD)]
    stepper.feed("A", (2, "d"))
    assert stepper.run() == []
    assert rows(stepper) == [(1, "a"), (1, "b"), (1, "c")]
    assert stepper.held("U") == 1


def test_idle_waiting_without_enabling_timestamps_lets_the_queue_grow() -> None:
    stepper = union().stepper()
    for ts in range(20):
        stepper.feed("A", (ts, "a"))
        stepper.run()
        assert stepper.queues()["Q1 -> U"] == ts + 1
    assert rows(stepper) == []
    assert stepper.tsm("U") == {"Q1": 0, "Q2": -math.inf}
    stepper.feed("B", (19, "b"))
    stepper.run()
    assert len(rows(stepper)) == 21
    assert stepper.held("U") == 0


def test_an_enabling_timestamp_is_generated_when_backtracking_reaches_an_empty_source() -> None:
    stepper = union(pk.on_demand(unit="s")).stepper()
    stepper.at(10)
    stepper.feed("A", (8, "a"), (9, "b"))
    steps = stepper.run()
    assert chosen(steps) == [
        ("Q1", FORWARD),  # 8
        ("U", FORWARD),  #      waits for Q2
        ("B", ON_DEMAND),  #    states the clock
        ("Q2", FORWARD),
        ("U", FORWARD),  #      8 leaves
        ("Q1", BACKTRACK),  # 9
        ("U", FORWARD),  #      9 leaves, with no further timestamp
    ]
    assert steps[2].gave == (("B", "[ts >= 10]"),)
    assert rows(stepper) == [(8, "a"), (9, "b")]


def test_with_enabling_timestamps_the_queue_does_not_grow() -> None:
    stepper = union(pk.on_demand(unit="s")).stepper()
    asked = 0
    for now in range(1, 21):
        stepper.at(now)
        stepper.feed("A", (now, "a"))
        asked += sum(step.rule == ON_DEMAND for step in stepper.run())
        assert stepper.held("U") == 0
    assert len(rows(stepper)) == asked == 20


def test_none_is_generated_when_nothing_waits_or_would_go_on() -> None:
    stepper = union(pk.on_demand(skew="5 s", unit="s")).stepper()
    for now in (1, 5, 9):
        stepper.at(now)
        assert stepper.run() == []
    stepper.feed("A", (8, "a"))
    # At 9 the silent input could state 4 only: that releases nothing.
    assert ON_DEMAND not in [step.rule for step in stepper.run()]
    stepper.at(13)
    assert chosen(stepper.run()) == [("B", ON_DEMAND), ("Q2", FORWARD), ("U", FORWARD), ("U", ENCORE)]
    assert rows(stepper) == [(8, "a")]


def test_an_external_timestamp_is_the_last_value_and_the_time_since_minus_the_skew() -> None:
    stepper = union(pk.on_demand(skew="2 s", unit="s")).stepper()
    stepper.at(100)
    stepper.feed("B", (50, "b"))
    stepper.at(110)
    stepper.feed("A", (55, "a"))
    (asked,) = [step for step in stepper.run() if step.rule == ON_DEMAND]
    assert asked.gave == (("B", "[ts >= 58]"),)
    assert rows(stepper) == [(50, "b"), (55, "a")]


def test_a_source_whose_tuples_a_filter_has_dropped_is_asked_all_the_same() -> None:
    stepper = union(pk.on_demand(unit="s")).stepper()
    stepper.at(9)
    stepper.feed("B", (9, "x"))
    stepper.feed("A", (7, "a"))
    stepper.run()
    assert rows(stepper) == [(7, "a")]


def test_internal_timestamps_are_the_clock_and_so_is_the_enabling_one() -> None:
    stepper = union(pk.on_demand(), timestamps="internal").stepper()
    stepper.at(3)
    stepper.feed("A", ("a",))
    (asked,) = [step for step in stepper.run() if step.rule == ON_DEMAND]
    assert asked.gave == (("B", "[ts >= 1970-01-01 00:00:03.000000]"),)
    assert rows(stepper) == [(dt.datetime(1970, 1, 1, 0, 0, 3), "a")]


def test_nobody_waits_for_latent_timestamps() -> None:
    stepper = union(timestamps="latent").stepper()
    for now in (1, 2, 3):
        stepper.at(now)
        stepper.feed("A", ("a",))
        assert chosen(stepper.run()) == [("Q1", FORWARD), ("U", FORWARD)]
    assert len(rows(stepper)) == 3


def test_a_heartbeat_arrives_when_the_clock_has_come_to_it() -> None:
    stepper = union(pk.heartbeat(every="10 s", unit="s")).stepper()
    stepper.at(1)
    stepper.feed("A", (1, "a"))
    stepper.at(9)
    stepper.run()
    assert rows(stepper) == []
    stepper.at(11)
    stepper.run()
    assert rows(stepper) == [(1, "a")]


def test_punctuation_passes_boxes_through_their_expressions_and_ends_at_the_sink() -> None:
    net = pk.Network("map")
    source = net.source("in", pk.memory([], schema=SCHEMA))
    source.map(minute="ts / 60", k="k", name="minutes").where("k = 'a'", name="some").output("out")
    stepper = net.stepper()
    stepper.feed("in", pk.punctuation(ts=130))
    first, second = stepper.run()
    assert (first.took, first.gave) == ("[ts >= 130]", (("minutes", "[minute >= 2]"),))
    assert second.gave == (("some", "[minute >= 2]"),)
    assert rows(stepper) == []
    # What repeats itself is not said again.
    stepper.feed("in", pk.punctuation(ts=140))
    (again,) = stepper.run()
    assert again.gave == ()


def join(how: str = "inner") -> pk.Network:
    net = pk.Network("join")
    left, right = (net.source(name, pk.memory([], schema=SCHEMA)) for name in "AB")
    left.join(right, "l.k = r.k", on="ts", band=(3, 3), how=how, name="J").output("out")
    return net


def test_a_window_join_takes_its_inputs_in_order_of_time() -> None:
    """
    A  1a    5a          each meets the window of the other side, of 3 ticks
    B     2a    4b
    """
    stepper = join().stepper()
    stepper.feed("A", (1, "a"), (5, "a"))
    stepper.feed("B", (2, "a"), (4, "b"))
    steps = stepper.run()
    assert [(s.took, s.took_from, s.tsm) for s in steps] == [
        ("(1, a)", "A", {"A": "1", "B": "2"}),
        ("(2, a)", "B", {"A": "5", "B": "2"}),
        ("(4, b)", "B", {"A": "5", "B": "4"}),
    ]
    # A tuple that finds no partner leaves punctuation behind, for boxes further on.
    assert [s.gave for s in steps] == [
        (("J", "[l_ts >= -1, r_ts >= -2]"),),
        (("J", "(1, a, 2, a)"),),
        (("J", "[l_ts >= 1, r_ts >= 2]"),),
    ]
    assert rows(stepper) == [(1, "a", 2, "a")]
    # Of A the tuple 5 waits in its buffer, and 1 in its window: B is at 4, and may still bring a partner of that time.
    assert stepper.held("J") == 4
    stepper.feed("B", pk.punctuation(ts=5))
    stepper.run()
    assert stepper.held("J") == 3
    stepper.end()
    stepper.run()
    assert rows(stepper) == [(1, "a", 2, "a"), (5, "a", 2, "a")]
    assert stepper.held("J") == 0


def test_punctuation_alone_passes_a_window_join_and_purges_it() -> None:
    stepper = join("left").stepper()
    stepper.feed("A", (1, "a"), pk.punctuation(ts=9))
    stepper.feed("B", pk.punctuation(ts=9))
    steps = stepper.run()
    assert [step.took for step in steps] == ["(1, a)", "[ts >= 9]", "[ts >= 9]"]
    assert steps[1].gave == (("J", "[l_ts >= 6]"),)
    assert steps[2].gave == ()
    assert rows(stepper) == [(1, "a", None, None)]


def test_a_disordered_input_is_put_in_order_in_the_buffer_of_the_box_that_needs_it() -> None:
    stepper = direct(pk.delayed(3)).stepper()
    stepper.feed("A", (5, "a"), (3, "b"), (7, "c"))
    stepper.feed("B", (9, "d"))
    stepper.run()
    assert rows(stepper) == [(3, "b")]
    # The register is the low-water mark where that is below the next tuple: 7 - 3.
    assert stepper.tsm("U") == {"A": 4, "B": 6}
    stepper.end()
    stepper.run()
    assert rows(stepper) == [(3, "b"), (5, "a"), (7, "c"), (9, "d")]


def test_other_attributes_progress_through_a_merge_as_far_as_what_waits_lets_them() -> None:
    net = pk.Network("others")
    inputs = [
        net.source(name, pk.memory([], schema=SCHEMA)).map(ts="ts", minute="ts / 60", name=f"M{name}") for name in "AB"
    ]
    pk.merge(*inputs, on="ts", name="U").where("true", name="Q").output("out")
    stepper = net.stepper()
    stepper.feed("A", (70, "a"), (130, "b"), (190, "c"))
    stepper.feed("B", pk.punctuation(ts=250))
    stepper.feed("A", pk.punctuation(ts=240))
    steps = stepper.run()
    assert rows(stepper) == [(70, 1), (130, 2), (190, 3)]
    assert (
        next(s.took for s in steps if s.box == "Q" and s.took is not None and s.took[0] == "[")
        == "[ts >= 240, minute >= 4]"
    )


def test_windows_close_as_tuples_and_timestamps_come() -> None:
    net = pk.Network("windows")
    source = net.source("in", pk.memory([], schema=SCHEMA), progress=pk.on_demand(unit="s"))
    source.aggregate({"n": "count(*)"}, size=10, name="count").output("out")
    stepper = net.stepper()
    stepper.at(1)
    stepper.feed("in", (1, "a"), (4, "b"))
    assert chosen(stepper.run()) == [("count", FORWARD), ("count", ENCORE)]
    assert stepper.held("count") > 0
    stepper.at(6)
    assert stepper.run() == []
    # The last value was 4, at 1: at 7 it is 10, and the window is over.
    stepper.at(7)
    assert chosen(stepper.run()) == [("in", ON_DEMAND), ("count", FORWARD)]
    assert rows(stepper) == [(0, 2)]
    assert stepper.held("count") == 0


def test_a_box_that_has_asked_for_the_clock_runs_when_it_has_come() -> None:
    net = pk.Network("timeout")
    source = net.source("in", pk.memory([], schema=SCHEMA))
    source.aggregate({"n": "count(*)"}, size=10, timeout="5 s", name="count").output("out")
    stepper = net.stepper()
    stepper.at(1)
    stepper.feed("in", (1, "a"))
    stepper.run()
    stepper.at(7)
    assert chosen(stepper.run()) == [("count", CLOCK)]
    assert rows(stepper) == [(0, 1)]


def test_a_stream_that_is_split_feeds_all_its_boxes() -> None:
    net = pk.Network("split")
    source = net.source("in", pk.memory([], schema=SCHEMA))
    odd, even = source.filter("ts % 2 = 1", name="parity")
    odd.map(ts="ts", name="M1").output("odd")
    even.map(ts="ts", name="M2").output("even")
    source.map(ts="ts", name="M3").output("all")
    stepper = net.stepper()
    stepper.feed("in", (1, "a"), (2, "b"))
    stepper.run()
    assert (rows(stepper, "odd"), rows(stepper, "even"), rows(stepper, "all")) == ([(1,)], [(2,)], [(1,), (2,)])
    assert set(stepper.queues().values()) == {0}


def test_a_step_reads_as_one_line() -> None:
    stepper = union().stepper()
    stepper.feed("A", (1, "a"))
    stepper.feed("B", (2, "x"))
    lines = [str(step) for step in stepper]
    assert lines == [
        "   1  Forward    Q1            (1, a) -> (1, a)  |  queued B -> Q2: 1, Q1 -> U: 1",
        "   2  Forward    U             waits for Q2  |  TSM Q1=1 Q2=-  |  queued B -> Q2: 1, Q1 -> U: 1",
        "   3  Backtrack  Q2            (2, x) -> nothing  |  queued Q1 -> U: 1",
    ]


def test_a_script_is_pulled_element_by_element_with_its_clock() -> None:
    net = pk.Network("script")
    script = [pk.clock(5), (1, "a"), pk.punctuation(ts=3), (4, "b")]
    left = net.source("A", pk.memory(script, schema=SCHEMA, train=4))
    right = net.source("B", pk.memory([(2, "c")], schema=SCHEMA), progress=pk.on_demand(unit="s"))
    pk.merge(left, right, name="U").output("out")
    stepper = net.stepper()
    assert stepper.run(limit=2) == []
    steps = stepper.run(inputs=True)
    assert [step.took for step in steps if step.took] == ["(1, a)", "(2, c)", "[ts >= 3]", "(4, b)", "[end]", "[end]"]
    assert rows(stepper) == [(1, "a"), (2, "c"), (4, "b")]
    assert not stepper.pull()


def test_what_does_not_fit_is_refused_where_it_is_fed() -> None:
    stepper = union().stepper()
    with pytest.raises(pk.QueryError, match=r"there is no input 'C'(.|\n)*one of A, B"):
        stepper.feed("C", (1, "a"))
    with pytest.raises(pk.QueryError, match=r"states 'k', which the input makes no progress on"):
        stepper.feed("A", pk.punctuation(k=1))
    with pytest.raises(pk.QueryError, match=r"there is no output 'none'(.|\n)*one of out"):
        stepper.output("none")
    with pytest.raises(pk.QueryError, match=r"'Q1' has no TSM registers(.|\n)*one of U"):
        stepper.tsm("Q1")
    stepper.feed("A", (None, "a"), ("x", "y"))
    reasons = stepper.output("A!errors")["reason"].to_pylist()
    assert reasons[0] == "ts is NULL: a tuple must have its progressing attribute"
    assert len(reasons) == 2
    stepper.end("A")
    with pytest.raises(pk.QueryError, match="the input 'A' has ended"):
        stepper.feed("A", (1, "a"))


def test_a_failure_says_in_which_box_it_happened() -> None:
    net = pk.Network("failing")
    net.source("in", pk.memory([], schema=SCHEMA)).map(ts="ts", n="k::BIGINT", name="number").output("out")
    stepper = net.stepper()
    stepper.feed("in", (1, "one"))
    with pytest.raises(pk.PenstockError, match="network 'failing', box 'number'"):
        stepper.run()


def every_box(folder: Path) -> pk.Network:
    pq.write_table(pa.table({"k": ["a", "b"], "name": ["A", "B"]}), folder / "names.parquet")
    schema = {**SCHEMA, "v": "int64"}
    ticks = [1, 3, 2, 5, 4, 9, 8, 14, 13, 20]
    left = [(ts, "ab"[n % 3 % 2], n) for n, ts in enumerate(ticks)]
    right = [(2, "a", 10), (6, "b", 20), (7, "a", 30), (12, "b", 40), (18, "a", 50)]
    net = pk.Network("all")
    s = net.source("s", pk.memory(left, schema=schema, train=3), progress=pk.delayed(2))
    t = net.source("t", pk.memory(right, schema=schema, train=2))
    s.bsort(on="ts", slack=1).output("bsort")
    s.dedupe(by="k", on="ts").output("dedupe")
    s.cleanse().output("cleanse")
    s.aggregate({"n": "count(*)", "m": "median(v)"}, size=10, advance=5, by="k").output("sliding")
    s.aggregate({"n": "sum(v)"}, on=pk.TUPLE_NUMBER, size=3).output("row windows")
    s.aggregate({"n": "count(*)"}, size=5, on="ts", assuming=pk.order("ts", slack=2)).output("assuming")
    s.join(pk.table(str(folder / "names.parquet")), "l.k = r.k").output("lookup")
    s.resample(t, {"x": "avg(v)"}, on=("ts", "ts"), size=5).output("resample")
    for how in ("inner", "left", "right", "full", "semi", "anti"):
        s.join(t, "l.k = r.k", on="ts", band=(3, 3), how=how).output(how)
    s.join(t, "l.v < r.v", on="ts", band=(1, 2)).output("no equality")
    pk.union(s, t).aggregate({"n": "count(*)"}, size=4).output("union")
    return net


@pytest.mark.parametrize("architecture", ["out-of-order", "in-order"])
def test_every_box_can_be_stepped_and_gives_what_it_gives_in_a_run(architecture: str, tmp_path: Path) -> None:
    net = every_box(tmp_path)
    wanted = net.run(engine="local", buckets=2, tasks=1, architecture=architecture)
    stepper = net.stepper(architecture=architecture)
    stepper.run(inputs=True)
    assert set(stepper.queues().values()) == {0}
    for name in wanted.outputs():
        found, expected = (Counter(map(str, t.to_pylist())) for t in (stepper.output(name), wanted[name]))
        assert expected, name
        assert found == expected, name


def agree(net: pk.Network, *outputs: str, **options: Any) -> Any:
    """Step a network over what its inputs bring, to its end: it must give what a run gives."""
    wanted = net.run(engine="local", buckets=1, tasks=1, architecture=options.get("architecture", "out-of-order"))
    stepper = net.stepper(**options)
    stepper.run(inputs=True)
    assert not any(stepper.queues().values())
    for output in outputs:
        assert Counter(rows(stepper, output)) == Counter(tuple(row.values()) for row in wanted[output].to_pylist())
        assert wanted[output].num_rows
    return stepper


BOTH = pytest.mark.parametrize("relaxed", [True, False])


@BOTH
@pytest.mark.parametrize("architecture", ["out-of-order", "in-order"])
def test_the_end_passes_merges_and_joins_behind_windows(architecture: str, relaxed: bool) -> None:
    net = pk.Network("windows")
    source = net.source("source", pk.memory([(1, "a"), (6, "b"), (7, "a")], schema=SCHEMA, train=1))
    counts = source.aggregate({"n": "count(*)"}, size=5, by="k", name="counts")
    both = pk.merge(counts.where("n > 0"), counts.where("k = 'a'"), name="both")
    both.aggregate({"n": "count(*)"}, size=5, name="again").output("merged")
    pairs = counts.join(counts, "l.k = r.k", on="ts", size=5, name="pairs")
    pairs.aggregate({"n": "count(*)"}, on="l_ts", size=5, name="paired").output("joined")
    agree(net, "merged", "joined", architecture=architecture, relaxed=relaxed)


def devices(name: str, net: pk.Network, *given: Any) -> pk.Stream:
    """An input on which every device makes progress of its own."""
    return net.source(name, pk.memory(given, schema=SCHEMA, train=1), progress=pk.ordered(by="k"))


@BOTH
def test_marks_of_groups_do_not_overtake_tuples_that_wait_in_a_join(relaxed: bool) -> None:
    net = pk.Network("devices")
    left = devices("left", net, (1, "b"), (1, "a"), (4, "a"), (30, "a"), (31, "a"))
    right = devices("right", net, (1, "b"), (2, "a"), (5, "a"), (30, "a"), (31, "a"))
    pairs = left.join(right, "l.k = r.k", on="ts", size=3, name="pairs")
    pairs.aggregate({"n": "count(*)"}, on="l_ts", size=5, by="l_k", name="counts").output("out")
    stepper = agree(net, "out", relaxed=relaxed)
    assert set(rows(stepper)) == {(0, "b", 1), (0, "a", 3), (30, "a", 4)}


def test_a_group_is_let_go_by_its_own_mark_and_those_of_other_streams() -> None:
    net = pk.Network("devices")
    one, other = devices("one", net), net.source("other", pk.memory([], schema=SCHEMA))
    both = pk.union(one.where("k <> 'x'"), other, name="both")
    both.aggregate({"n": "count(*)"}, on="ts", size=5, by="k", name="counts").output("out")
    stepper = net.stepper()
    stepper.feed("one", (1, "b"), (1, "a"), (7, "a"))
    stepper.feed("other", (2, "a"), (7, "c"))
    stepper.run()
    # Of the other stream a tuple says as much as punctuation would.
    assert rows(stepper) == [(0, "a", 2)]


def test_joint_punctuation_lets_groups_go_before_the_band_does() -> None:
    net = pk.Network("joint")
    left, right = (net.source(name, pk.memory([], schema=SCHEMA)) for name in ("left", "right"))
    pairs = left.join(right, "l.k = r.k", on="ts", band=(100, 100), name="pairs")
    pairs.aggregate({"n": "count(*)"}, on="l_ts", size=5, by="r_ts", name="counts").output("out")
    stepper = net.stepper()
    stepper.feed("left", (1, "a"), (9, "a"))
    stepper.feed("right", (2, "a"), (9, "b"))
    stepper.run()
    # Whatever follows has left ts >= 9 or right ts >= 9.
    assert rows(stepper) == [(0, 2, 1)]
    stepper.end()
    stepper.run()
    assert rows(stepper) == [(0, 2, 1), (5, 2, 1)]


def test_without_time_stamp_memory_a_disordered_input_still_is_merged_in_order() -> None:
    net = pk.Network("delayed")
    left = net.source("left", pk.memory([(9, "a"), (4, "b"), (20, "c")], schema=SCHEMA), progress=pk.delayed(6))
    right = net.source("right", pk.memory([(5, "d"), (30, "e")], schema=SCHEMA), progress=pk.delayed(6))
    merged = pk.merge(left, right, name="U")
    merged.output("out")
    merged.aggregate({"n": "count(*)"}, size=3, name="counts").output("counts")
    stepper = agree(net, "out", "counts", relaxed=False)
    assert [ts for ts, _ in rows(stepper)] == [4, 5, 9, 20, 30]


def test_where_arrival_counts_tuples_go_in_the_order_in_which_they_came() -> None:
    net = pk.Network("arrival")
    first, second = (net.source(n, pk.memory(given, schema=SCHEMA, train=1)) for n, given in (
        ("first", [(1, "a"), (2, "b")]), ("second", [(1, "c"), (2, "d")]),
    ))  # fmt: skip
    # Another box is before it, and waits for the second input: that one is asked before the first is done.
    pk.merge(first, second, name="U").output("merged")
    both = pk.union(second, first.map(ts="ts", k="k", name="slow"), name="both")
    both.aggregate({"k": "min(k)"}, on=pk.TUPLE_NUMBER, size=1, name="numbered").output("out")
    stepper = agree(net, "merged", "out")
    assert rows(stepper, "out") == [(1, "a"), (2, "c"), (3, "b"), (4, "d")]


def test_an_input_that_delivers_is_not_silent() -> None:
    net = pk.Network("beats")
    beat = pk.heartbeat("1 second", "0 seconds", unit="s")
    net.source("times", pk.memory([pk.clock(1), pk.clock(9), pk.clock(20)], schema=SCHEMA, train=1)).output("times")
    given = pk.memory([(1, "a"), (5, "b"), pk.punctuation(ts=6), (7, "c")], schema=SCHEMA, train=1)
    net.source("source", given, progress=pk.ordered(idle=beat)).output("out")
    # The clock has come to 9, and by itself that says nothing of an input whose next element is there.
    assert rows(agree(net, "out")) == [(1, "a"), (5, "b"), (7, "c")]


def test_a_tuple_that_is_refused_or_late_is_told_as_in_a_run() -> None:
    net = pk.Network("rejects")
    given = [(5, "a"), (None, "b"), (3, "c"), ("x", "d")]
    source = net.source("source", pk.memory(given, schema=SCHEMA, train=1))
    source.output("out")
    stepper, wanted = agree(net, "out"), net.run(engine="local")
    assert stepper.errors("source").to_pylist() == wanted.errors("source").to_pylist()
    assert stepper.errors("source").num_rows == 2
    assert stepper.late("source").to_pylist() == wanted.late("source").to_pylist() == [{"ts": 3, "k": "c"}]
    strict = pk.Network("strict")
    strict.source("source", pk.memory([(5, "a"), (3, "c")], schema=SCHEMA, train=1), late="error").output("out")
    texts = []
    for run in (lambda: strict.run(engine="local"), lambda: strict.stepper().run(inputs=True)):
        with pytest.raises(pk.WorldError) as raised:
            run()
        texts.append(str(raised.value))
    assert "1 late tuple" in texts[0]
    assert texts[0] == texts[1]


def test_a_step_says_by_which_port_a_tuple_has_left() -> None:
    net = pk.Network("late")
    devices("source", net, (5, "a"), (3, "a")).output("out")
    passed, late = [str(step) for step in net.stepper().run(inputs=True) if step.took in ("(5, a)", "(3, a)")][:2]
    assert "(5, a) -> (5, a)" in passed
    assert "(3, a) -> source.groups.late(3, a)" in late


def test_punctuation_of_a_number_that_decreases_says_that_no_more_follows() -> None:
    net = pk.Network("countdown")
    schema = {"left": "int64", "k": "string"}
    source = net.source("source", pk.memory([], schema=schema), on="left", progress=pk.ordered(descending=True))
    source.where("k <> 'x'", name="Q").output("out")
    stepper = net.stepper()
    stepper.feed("source", pk.punctuation(left=7))
    assert "[left <= 7] -> [left <= 7]" in str(stepper.step())
