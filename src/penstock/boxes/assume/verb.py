"""Assume, as the Python language builds it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.algebra.order import Order
from penstock.boxes.assume.box import Assume
from penstock.boxes.requirements import order_keys
from penstock.boxes.times import refuse_downwards
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def assume(stream: Stream, order: Order, name: str | None = None) -> Stream:
    """The tuples that arrive in the order given; those that do not are in the late stream of the box."""
    builder = stream._builder
    label = builder._fresh("assume", name)
    with builder._building(label):
        if not isinstance(order, Order):
            raise QueryError(
                "that is no order specification", expected="pk.order(on=, slack=0, by=())", found=repr(order)
            )
        keys = order_keys(order.on, order.by, stream.schema)
        refuse_downwards(stream, order.on, "assuming=")
        return builder._add(Assume(label, (stream._port,), replace(order, by=keys)))
