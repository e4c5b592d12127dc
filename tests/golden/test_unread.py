"""Boxes that nobody reads are not run, and a box of which no column is needed is run all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.golden.conftest import Runner

import penstock as pk

SCHEMA = {"ts": "int64", "k": "string", "v": "int64"}
ROWS = [(1, "a", 1), (2, "b", 2), (3, "a", 3), (4, "b", 4)]

Shape = Callable[[pk.Stream, pk.Stream], pk.Stream]
SHAPES: dict[str, tuple[Shape, str, int]] = {
    "cleanse": (lambda s, _: s.cleanse(), "v + 1", 4),
    "bsort": (lambda s, _: s.bsort(slack=1), "v + 1", 4),
    "join": (lambda s, o: s.join(o, "l.k = r.k", size=5), "l_v + 1", 8),
    "semi": (lambda s, o: s.join(o, "l.k = r.k", size=5, how="semi"), "v + 1", 4),
    "merge": (lambda s, o: pk.merge(s, o), "v + 1", 8),
    "union": (lambda s, o: pk.union(s, o), "v + 1", 8),
    "aggregate": (lambda s, _: s.aggregate({"v": "sum(v)"}, size=2, by="k"), "v + 1", 4),
    "resample": (lambda s, o: s.resample(o, {"v": "avg(v)"}, size=5), "v + 1", 4),
}


def _inputs(net: pk.Network) -> tuple[pk.Stream, pk.Stream]:
    one, two = (net.source(name, pk.memory(ROWS, schema=SCHEMA, train=2)) for name in ("one", "two"))
    return one, two


@pytest.mark.parametrize("architecture", ["out-of-order", "in-order"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_map_that_nobody_reads_does_not_end_the_run(shape: str, architecture: str) -> None:
    net = pk.Network("unread")
    one, two = _inputs(net)
    make, text, _ = SHAPES[shape]
    make(one, two).map(x=text)
    one.output("taken")
    result = net.run(engine="local", architecture=architecture)
    assert result["taken"].num_rows == 4
    assert set(result.record().boxes) <= {"one.sorted"}


@pytest.mark.parametrize("architecture", ["out-of-order", "in-order"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_map_of_which_no_attribute_is_needed_still_counts(shape: str, architecture: str) -> None:
    """Windows of tuples need to know how many there are, and nothing else of them."""
    net = pk.Network("counted")
    make, text, number = SHAPES[shape]
    mapped = make(*_inputs(net)).map(x=text)
    mapped.aggregate({"n": "count(*)"}, on=pk.TUPLE_NUMBER, size=1).output("counts")
    assert net.run(engine="local", architecture=architecture)["counts"].num_rows == number


def test_dead_branches_leave_the_rest_as_it_is(run: Runner, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.parquet"
    pq.write_table(pa.table({"k": ["a"], "site": ["cern"]}), hosts)
    net = pk.Network("unread")
    one, two = _inputs(net)
    one.cleanse(name="dead sort").map(x="v + 1", name="dead map")
    one.join(two, "l.k = r.k", size=5, name="dead join").map(x="l_v + 1").where("x > 1")
    one.join(pk.table(str(hosts)), "l.k = r.k", name="dead lookup").map(site="site")
    small, _ = one.filter("v < 3", name="sizes")
    small.aggregate({"n": "count(*)"}, size=10, name="live").output("counts")
    result = run(net)
    assert result["counts"].to_pylist() == [{"ts": 0, "n": 2}]
    assert set(result.record().boxes) == {"sizes", "live"}
    # An input is read and counted, whoever reads it.
    assert result.record().inputs["two"].taken == 4
