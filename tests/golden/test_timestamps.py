"""Timestamps that the intake gives (ets.md, section 5): internal ones, and latent ones for which nobody waits."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from tests.golden.conftest import Runner

import penstock as pk

SCHEMA = {"k": "string"}


def _at(second: float) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=second)


def _script(*trains: tuple[float, str]) -> list[Any]:
    return [element for second, k in trains for element in (pk.clock(second), (k,))]


def _input(net: pk.Network, name: str, script: list[Any], timestamps: str) -> pk.Stream:
    return net.source(name, pk.memory(script, schema=SCHEMA, train=2), timestamps=timestamps)


@pytest.mark.parametrize("timestamps", ["internal", "latent"])
def test_tuples_are_stamped_with_the_clock_of_their_batch(timestamps: str, run: Runner) -> None:
    net = pk.Network("stamps")
    stream = _input(net, "in", _script((1, "a"), (4, "b"), (12, "a"), (13, "c")), timestamps)
    stream.output("tuples")
    stream.aggregate({"n": "count(*)"}, on="ts", size="10 seconds").output("counts")
    result = run(net)
    assert result["tuples"].to_pylist() == [
        {"ts": _at(second), "k": k} for second, k in ((1, "a"), (4, "b"), (12, "a"), (13, "c"))
    ]
    assert [(e["ts"], e["n"]) for e in result.elements("counts") if isinstance(e, dict)] == [(_at(0), 2), (_at(10), 2)]


def test_no_two_batches_read_the_clock_alike(run: Runner) -> None:
    net = pk.Network("stamps")
    _input(net, "in", [pk.clock(1), ("a",), ("b",), ("c",)], "internal").output("tuples")
    stamps = run(net)["tuples"]["ts"].to_pylist()
    assert stamps == [_at(1), _at(1.000001), _at(1.000001)]


def test_a_merge_waits_for_an_input_with_internal_timestamps_but_not_for_a_latent_one(run: Runner) -> None:
    batches: dict[str, list[int]] = {}
    for timestamps in ("internal", "latent"):
        net = pk.Network("merge")
        busy = _script((1, "a"), (2, "b"), (3, "c"), (4, "d"))
        # The other one delivers once, and then has nothing but the time to tell.
        quiet = [pk.clock(1), ("q",), *(pk.clock(second) for second in (2, 2, 3, 3, 4, 4))]
        pk.merge(_input(net, "busy", busy, timestamps), _input(net, "quiet", quiet, timestamps)).output("out")
        left: list[int] = []
        run(net, on_batch=lambda record, left=left: left.append(record.outputs["out"]))
        batches[timestamps] = left
    assert batches["latent"] == [2, 3, 4, 5]
    assert batches["internal"] == [2, 2, 2, 5]
