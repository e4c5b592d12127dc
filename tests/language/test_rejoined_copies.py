"""Copies that have joined an LMerge, and a network that comes after: it has them, or declares them itself."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as pk
from penstock.algebra.network import Network
from penstock.language.copies import CopyOrder, join, rejoin

SCHEMA = {"ts": "int64", "k": "string"}


def copy(net: Any, name: str) -> pk.Stream:
    source: pk.Stream = net.source(name, pk.memory([(1, "x")], schema=SCHEMA), progress=pk.ordered())
    return source


def network(*names: str, beside: str = "") -> Network:
    net = pk.Network("merging")
    pk.lmerge(*(copy(net, name) for name in names), case="R3", name="merged").output("all")
    if beside:
        copy(net, beside).output(beside)
    return net.network


def joined(from_time: int | None = 10) -> Network:
    return join(network("old"), CopyOrder(lambda net: copy(net, "new"), "merged", "joining", from_time))


def inputs(found: Network) -> list[str]:
    return next([port.name for port in box.inputs] for box in found.boxes if box.name == "merged")


def again(after: Network, before: Network, stable: int) -> Network:
    return rejoin(after, before.attached[0], before, stable)


def test_a_copy_is_there_in_the_network_that_follows() -> None:
    found = again(network("other"), joined(), 0)
    assert inputs(found) == ["other", "new"]
    assert [known.name for known in found.attached] == ["joining"]
    assert next(box.joining for box in found.boxes if box.name == "merged") == (("new", 10),)  # type: ignore[attr-defined]


def test_a_copy_that_the_network_declares_itself_is_attached_no_more() -> None:
    declared = network("new")
    assert again(declared, joined(), 10) is declared
    assert again(declared, joined(None), -(2**63)) is declared


def test_a_network_cannot_declare_a_copy_that_has_not_joined() -> None:
    with pytest.raises(pk.QueryError, match="has not joined 'merged' yet") as refused:
        again(network("new"), joined(), 9)
    assert "has come to 10" in str(refused.value)


def test_another_box_cannot_have_the_name_of_a_copy() -> None:
    with pytest.raises(pk.QueryError, match="has a box of that name of its own"):
        again(network("old", beside="new"), joined(), 10)
