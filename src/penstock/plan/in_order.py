"""The network as an in-order system would run it: streams are kept in order, and order costs buffers (oop.md 2, 5).

```
 out of order                               in order
 input ─────────────> box                   input ──> cleanse ─────────> box      unless it arrives in one order
 union ─────────────> box                   merge ─────────────────────> box
 join ──────────────> box                   join ───> cleanse ─────────> box
 aggregate, sliding ─> box                  buffered aggregate ────────> box
```

A stream is in order when it is one sequence: what leaves the buckets of a box with keys is several, so it is sorted,
too. Every box says in which order it wants its inputs (its `on`); boxes without an opinion take their streams as they
come. Boxes that are defined on arrival (BSort, `assuming=`, timeouts, tuple numbers) want the order of arrival, which a
sort would destroy: what they read is left alone. A stateless box that is wanted in two orders is there twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.algebra.box import Box, Output, Port, Stateful
from penstock.algebra.network import Network
from penstock.algebra.order import ANY, ARRIVAL
from penstock.algebra.source import Source
from penstock.boxes.cleanse.box import Cleanse, Merge
from penstock.boxes.union.box import Union
from penstock.errors import QueryError
from penstock.plan.plan import IN_ORDER, Plan, fresh_name


def in_order(plan: Plan) -> Plan:
    if plan.architecture != IN_ORDER:
        return plan
    temporal = [port.name for box in plan.network.boxes for port in _ports(box) if port.temporal]
    if temporal:
        raise QueryError(
            "an in-order system sorts its streams, and an adjust must not come before its insert",
            network=plan.network.name,
            found=f"'{temporal[0]}', a temporal stream",
            hint="leave architecture= out",
        )
    return replace(plan, network=_Rewriting(plan.network).done())


class _Rewriting:
    """First the orders that are wanted of every port, consumers first; then the boxes that provide them."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._wanted: dict[str, dict[str, None]] = {}
        self._given: dict[tuple[str, str], Port] = {}
        self._built: list[Box] = []
        self._names = {p.name for b in network.boxes for p in _ports(b)} | {b.name for b in network.boxes}

    def done(self) -> Network:
        for box in reversed(self._network.boxes):
            for order in self._orders(box):
                for slot, port in enumerate(box.inputs):
                    self._wanted.setdefault(port.name, {})[_upstream(box, slot, order)] = None
        for box in self._network.boxes:
            self._build(box)
        return replace(self._network, boxes=tuple(self._built))

    def _orders(self, box: Box) -> Sequence[str]:
        """The orders that are wanted of a box: those of all its ports, for a stateless one."""
        if isinstance(box, Output | Stateful):
            return (ANY,)
        wanted = dict.fromkeys(order for port in _ports(box) for order in self._wanted.get(port.name, ()))
        firm = [order for order in wanted if order not in (ANY, ARRIVAL)]
        if ARRIVAL in wanted:
            # Last, so that what is in order has the name that the user gave the box.
            firm.append(ARRIVAL)
        if firm:
            return firm
        # Nobody minds: in an in-order system a stream is in order by default.
        return Port(box).progressing[:1] or (ANY,)

    def _build(self, box: Box) -> None:
        match box:
            case Output():
                self._built.append(replace(box, inputs=self._inputs(box, ANY)))
            case Source() | Stateful():
                self._build_producer(box)
            case _:
                for order in self._orders(box):
                    self._build_stateless(box, order)

    def _build_producer(self, box: Source | Stateful) -> None:
        """A box where streams begin: the first that can put them in order."""
        made = replace(box, inputs=self._inputs(box, ANY))
        made = made.in_order() if isinstance(made, Stateful) else made
        self._built.append(made)
        for port in _ports(box):
            mine, default = Port(made, port.index), port.progressing[:1]
            for order in self._wanted.get(port.name, ()):
                on = order
                # In-order systems know no other join output than one in order.
                if order == ANY or (order == ARRIVAL and isinstance(box, Stateful) and box.sorts_always):
                    on = default[0] if default else ARRIVAL
                settled = on == ARRIVAL or (port.index == 0 and _in_order(made, on))
                self._given[port.name, order] = mine if settled else self._sorted(port, mine, on)

    def _sorted(self, port: Port, mine: Port, on: str) -> Port:
        known = self._given.get((port.name, on))
        if known is not None:
            return known
        others = any(isinstance(b, Cleanse) and b.inputs[0].name == mine.name for b in self._built)
        cleanse = Cleanse(fresh_name(f"{port.name}.sorted" + (f".{on}" if others else ""), self._names), (mine,), on)
        self._built.append(cleanse)
        self._given[port.name, on] = Port(cleanse)
        return Port(cleanse)

    def _build_stateless(self, box: Box, order: str) -> None:
        inputs, alike = self._inputs(box, order), self._alike(box)
        merged = isinstance(box, Union) and order not in (ARRIVAL, ANY)
        reads = [p.name for p in inputs]
        made = None if merged else next((b for b in alike if type(b) is type(box) and _reads(b) == reads), None)
        if made is None:
            own = f"{box.name}.{'arriving' if order == ARRIVAL else order}"
            name = box.name if not alike else fresh_name(own, self._names)
            made = Merge(name, inputs, order) if merged else replace(box, name=name, inputs=inputs)
            self._built.append(made)
        for port in _ports(box):
            self._given[port.name, order] = Port(made, port.index)

    def _alike(self, box: Box) -> list[Box]:
        """What has been built in the place of a stateless box."""
        given = {id(p.box): p.box for (name, _), p in self._given.items() if name in {q.name for q in _ports(box)}}
        return list(given.values())

    def _inputs(self, box: Box, order: str) -> tuple[Port, ...]:
        return tuple(self._at(port, _upstream(box, slot, order)) for slot, port in enumerate(box.inputs))

    def _at(self, port: Port, order: str) -> Port:
        if (port.name, order) in self._given:
            return self._given[port.name, order]
        return next(given for (name, _), given in self._given.items() if name == port.name)


def _upstream(box: Box, slot: int, order: str) -> str:
    """The order in which a box wants an input, so that it can give what is wanted of it."""
    kept = order in (ARRIVAL, ANY) and not isinstance(box, Output | Stateful)
    return order if kept else box.order_before(slot, order)


def _in_order(box: Source | Stateful, on: str) -> bool:
    """Whether what leaves a box is one sequence in order of an attribute."""
    return box.arrives_in_order(on) if isinstance(box, Source) else box.leaves_in_order(on)


def _reads(box: Box) -> list[str]:
    return [p.name for p in box.inputs]


def _ports(box: Box) -> list[Port]:
    return [Port(box, index) for index in range(len(box.ports))]
