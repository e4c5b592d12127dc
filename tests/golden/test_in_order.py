"""In-order plans: the same answers as out of order, and every output in order over the whole run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.golden.conftest import Runner
from tests.golden.tables import same

import penstock as pk
from penstock.runtime.board import Record

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}
MAIN = [(t, "xyz"[t % 3], t) for t in (4, 1, 3, 9, 6, 8, 14, 11, 13, 19, 16, 18, 24, 21, 23)]
SIDE = [(t, "xy"[t % 2], -t) for t in range(0, 24, 2)]

OUTPUTS = {
    # output: the attribute that it is in order of
    "tuples": "ts",
    "sliding": "ts",
    "tumbling": "ts",
    "pairs": "l_ts",
    "near": "l_ts",
    "alone": "ts",
    "once": "ts",
    "sampled": "ts",
}


def network() -> pk.Network:
    """Every kind of box, over an input that comes in disorder and one that comes in order."""
    net = pk.Network("orders")
    main = net.source("main", pk.memory(MAIN, schema=SCHEMA, train=6), progress=pk.delayed(3))
    side = net.source("side", pk.memory(SIDE, schema=SCHEMA, train=4))
    links = pk.union(main, side, name="links")
    links.where("v % 5 != 0").output("tuples")
    links.aggregate({"n": "count(*)", "mid": "median(v)"}, size=10, advance=4, by="k", name="slide").output("sliding")
    links.aggregate({"n": "count(*)"}, size=5, by="k", name="tumble").output("tumbling")
    pairs = main.join(side, "l.k = r.k", size=3, name="near")
    pairs.output("pairs")
    pairs.aggregate({"n": "count(*)"}, on="l_ts", size=4, name="near_counts").output("near")
    main.join(side, "l.k = r.k", size=3, how="anti", name="lonely").output("alone")
    links.map(ts="ts / 2", k="k").dedupe(name="first").output("once")
    main.resample(side, {"v": "sum(v)"}, size=2, by="k", name="around").output("sampled")
    return net


def bag(tuples: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in tuples.to_pylist())


def test_every_output_is_in_order_and_has_the_same_tuples(run: Runner) -> None:
    freely, orderly = run(network()), run(network(), architecture="in-order")
    for output, attribute in OUTPUTS.items():
        found = orderly[output]
        assert bag(found) == bag(freely[output]), output
        assert found.num_rows > 2, output
        times = found.column(attribute).to_pylist()
        assert times == sorted(times), output
    disordered = [o for o, a in OUTPUTS.items() if (t := freely[o].column(a).to_pylist()) != sorted(t)]
    assert {"tuples", "pairs"} <= set(disordered), "out of order nothing is held back"
    for box, work in orderly.record().boxes.items():
        assert work.held_rows == 0, box


def test_late_tuples_and_names_are_those_of_the_user(run: Runner) -> None:
    net = pk.Network("late")
    rows = [(1, "x", 1), (9, "x", 2), (2, "x", 3), (12, "x", 4), (None, "x", 5), (25, "y", 6)]
    packets = net.source("in", pk.memory(rows, schema=SCHEMA, train=2), progress=pk.delayed(3))
    packets.aggregate({"n": "count(*)"}, size=10, advance=5, name="counts").output("counts")
    packets.aggregate({"n": "count(*)"}, on="ts", size=10, assuming=pk.order("ts", slack=0), name="strict").output("s")
    result = run(net, architecture="in-order")
    same(
        result["counts"],
        """
        ts  n
        -5  1
         0  2
         5  2
        10  1
        20  1
        25  1
        """,
    )
    same(result.late("in"), "ts k v \n 2 x 3")
    assert result.errors("in").num_rows == 1
    assert result.late("strict").num_rows == 0
    boxes = result.record().boxes
    assert {"counts", "strict", "in.sorted"} <= set(boxes)
    assert boxes["counts"].tuples_in == boxes["counts"].released == 4
    assert result.progress()["counts"][""]["ts"] == float("inf")


def held(architecture: str) -> list[int]:
    """The tuples that all boxes hold after each batch: one input far ahead of the other, then even."""
    net = pk.Network("ahead")
    ahead = net.source("ahead", pk.memory([(t, "x", t) for t in range(40)], schema=SCHEMA, train=10))
    behind = net.source("behind", pk.memory([(t // 10, "y", t) for t in range(400)], schema=SCHEMA, train=50))
    pk.union(ahead, behind).aggregate({"n": "count(*)"}, size=10, name="counts").output("counts")
    found: list[int] = []

    def note(record: Record) -> None:
        found.append(sum(work.held_rows for work in record.boxes.values()))

    net.run("local", buckets=1, tasks=1, architecture=architecture, on_batch=note)
    return found


def test_order_costs_tuples_that_are_held() -> None:
    # After four batches one input is at 39 and the other at 19: 20 tuples and one at the mark wait, or 20 in a Merge.
    freely, orderly = held("out-of-order"), held("in-order")
    assert max(freely) <= 8
    assert max(orderly) >= 20
    assert freely[-1] == orderly[-1] == 0


def test_a_checkpoint_of_another_architecture_is_refused(tmp_path: Path) -> None:
    def run_with(architecture: str) -> pk.Result:
        net = pk.Network("mine")
        source = net.source("in", pk.memory([(1,)], schema={"ts": "int64"}))
        source.aggregate({"n": "count(*)"}, size=10, name="counts").output("o")
        return net.run("local", checkpoint=str(tmp_path / "checkpoint"), architecture=architecture)

    # The plans of this network are alike, but what is asked for is not.
    run_with("in-order")
    with pytest.raises(pk.QueryError, match=r"was made with another architecture") as refused:
        run_with("out-of-order")
    assert (refused.value.expected, refused.value.found) == ("in-order", "out-of-order")
    same(run_with("in-order")["o"], "ts n \n 0 1")


def test_a_run_in_order_can_be_looked_at_without_saying_so(tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoint")
    network().run("local", checkpoint=folder, architecture="in-order")
    assert network().look(folder)["sliding"].num_rows > 0


class InterruptError(Exception):
    pass


@pytest.mark.parametrize("after", [0, 1])
def test_a_run_in_order_goes_on_where_it_was_interrupted(after: int, tmp_path: Path) -> None:
    def interrupt(record: Record) -> None:
        if record.batch == after:
            raise InterruptError

    def go_on(folder: str, **options: Any) -> pk.Result:
        return network().run("local", checkpoint=str(tmp_path / folder), buckets=2, architecture="in-order", **options)

    with pytest.raises(InterruptError):
        go_on("cut", on_batch=interrupt)
    result, whole = go_on("cut"), go_on("whole")
    for output in OUTPUTS:
        assert result[output].equals(whole[output]), output


def test_inputs_with_several_orders_groups_and_low_levels_have_the_same_answers() -> None:
    """Boxes that other rules of the plan put in, and streams that are asked for in two orders."""

    def answers(architecture: str) -> pk.Result:
        net = pk.Network("mixed")
        flows = [(end, end - end % 7, "xy"[end % 2]) for end in range(30)]
        times = {"end": pk.ordered(), "start": pk.delayed(7)}
        schema = {"end": "int64", "start": "int64", "k": "string"}
        calls = net.source("calls", pk.memory(flows, schema=schema, train=7), on="end", progress=times)
        busy = calls.where("k != 'z'", name="busy")
        busy.aggregate({"n": "count(*)"}, on="end", size=10, advance=5, name="ends").output("ends")
        busy.aggregate({"n": "count(*)"}, on="start", size=10, advance=5, name="starts").output("starts")
        clocks = pk.delayed(2, by=["k"])
        devices = net.source("devices", pk.memory(MAIN, schema=SCHEMA, train=4), progress=clocks)
        devices.aggregate({"n": "count(*)"}, on="ts", size=5, by="k", name="by_device").output("devices")
        low = {"flush": "lazy", "table": 2}
        side = net.source("side", pk.memory(SIDE, schema=SCHEMA, train=3))
        side.aggregate({"n": "count(*)"}, on="ts", size=10, advance=5, by="k", name="two", **low).output("two")
        return net.run("local", buckets=2, tasks=2, architecture=architecture)

    freely, orderly = answers("out-of-order"), answers("in-order")
    for output, attribute in {"ends": "end", "starts": "start", "devices": "ts", "two": "ts"}.items():
        found = orderly[output]
        assert bag(found) == bag(freely[output]), output
        assert found.num_rows > 2, output
        times = found.column(attribute).to_pylist()
        assert times == sorted(times), output
