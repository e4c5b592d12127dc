"""An expression that needs too much memory ends its run with an error of its box, and nothing else."""

from __future__ import annotations

import pytest

import penstock as pk
from penstock.algebra.expressions import kernel

SCHEMA = {"ts": "int64", "k": "string"}
STRING, LIST = "repeat(k, 2000000000)", "range(ts * 100000000)"
CASES = [("local", STRING), ("local", LIST), pytest.param("spark", STRING, marks=pytest.mark.spark)]


@pytest.fixture
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    if name == "spark":
        request.getfixturevalue("spark_ready")
    monkeypatch.setenv("PENSTOCK_KERNEL_MEMORY", "64MB")
    monkeypatch.setattr(kernel, "_kernels", {})
    return name


def _network(**columns: str) -> pk.Network:
    net = pk.Network("large")
    events = net.source("events", pk.memory([(1, "x"), (2, "y"), (30, "z")], schema=SCHEMA))
    values = events.map(ts="ts", **columns, name="blow")
    values.aggregate({"n": "count(*)", "longest": "max(len(v))"}, on="ts", size=10, name="count").output("counts")
    return net


@pytest.mark.parametrize(("engine", "expression"), CASES, indirect=["engine"])
def test_a_value_that_is_too_large_is_an_error_of_its_box(engine: str, expression: str) -> None:
    with pytest.raises(pk.WorldError, match="needs more memory than it may take") as failure:
        _network(v=expression).run(engine)
    assert failure.value.network == "large"
    assert failure.value.box == "blow"
    assert "at most 64 MiB" in str(failure.value)
    assert "PENSTOCK_KERNEL_MEMORY" in str(failure.value)
    counted = _network(v="repeat(k, ts)").run(engine)["counts"].to_pylist()
    assert counted == [{"ts": 0, "n": 2, "longest": 2}, {"ts": 30, "n": 1, "longest": 30}]


@pytest.mark.parametrize("engine", ["local"], indirect=True)
def test_a_constant_that_is_too_large_is_one_too(engine: str) -> None:
    with pytest.raises(pk.WorldError, match="needs more memory than it may take") as failure:
        _network(v="repeat('a', 3000000000)").run(engine)
    assert failure.value.box == "blow"
