"""Streams that can be had once more: those of connection points, and of views that are computed from them.

```
 orders (point) ──> where ──> aggregate ──> view 'per minute', materialize="none"
        │
        └─ its history ──> a copy of where ──> a copy of aggregate ──> whoever reads the view
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from penstock.algebra.box import Box, Output, Port, View
from penstock.algebra.naming import did_you_mean
from penstock.algebra.network import Network
from penstock.algebra.source import Source
from penstock.connectors.points.point_input import PointInput
from penstock.connectors.points.point_target import ConnectionPoint
from penstock.errors import QueryError
from penstock.language.builder import Builder
from penstock.language.stream import Stream
from penstock.progress.policies.punctuated import Punctuated


class Ways:
    """The streams of points and views, with the boxes that a view needs copied into a network that is being built."""

    def __init__(self, builder: Builder, network: Network, name: str, of_point: Callable[[Output], Stream]) -> None:
        self._builder = builder
        self._network = network
        self._name = name
        self._of_point = of_point
        self._points: dict[str, Stream] = {}
        self._copies: dict[str, Box] = {}
        self._kept = {o.inputs[0].name: o for o in reversed(network.outputs) if isinstance(o.target, ConnectionPoint)}

    def of(self, name: str) -> Stream:
        """The stream of a connection point or a view, from what is kept on."""
        found = point_or_view(self._network, name)
        return self._point(found) if isinstance(found, Output) else self._copied(found.inputs[0], name)

    def arc(self, name: str) -> Stream:
        """The stream itself, from now on."""
        return Stream(self._builder, point_or_view(self._network, name).inputs[0])

    def _point(self, point: Output) -> Stream:
        if point.name not in self._points:
            self._points[point.name] = self._of_point(point)
        return self._points[point.name]

    def _copied(self, port: Port, view: str) -> Stream:
        """What flows from a port, computed anew from the connection points before it."""
        if port.name in self._kept:
            return self._point(self._kept[port.name])
        box = port.box
        if isinstance(box, Source):
            raise QueryError(
                f"nothing is kept of the input '{box.name}', from which the view '{view}' would be computed",
                network=self._network.name,
                hint="put a connection point on every way to the view, or let it keep its results: materialize='all'",
            )
        if box.name not in self._copies:
            inputs = tuple(self._copied(before, view)._port for before in box.inputs)
            copy = replace(box, name=f"{self._name} {box.name}", inputs=inputs)
            self._builder._add(copy)
            self._copies[box.name] = copy
        return Stream(self._builder, Port(self._copies[box.name], port.index))


def point_or_view(network: Network, name: str) -> Output | View:
    """The connection point, or the view, of a name."""
    points = [output for output in network.outputs if isinstance(output.target, ConnectionPoint)]
    known: Mapping[str, Output | View] = {
        **{box.name: box for box in network.boxes if isinstance(box, View)},
        **{output.name: output for output in points},
    }
    if name not in known:
        raise QueryError(
            f"the network has no connection point or view '{name}'",
            network=network.name,
            found=", ".join(known) or "none at all",
            hint=did_you_mean(name, known) or "declare one with stream.connection_point('name')",
        )
    return known[name]


def points_of(network: Network, name: str) -> list[Output]:
    """The connection points that a point or view is read from: itself, or those before it."""
    found = point_or_view(network, name)
    if isinstance(found, Output):
        return [found]
    kept = {o.inputs[0].name: o for o in reversed(network.outputs) if isinstance(o.target, ConnectionPoint)}
    points: dict[str, Output] = {}
    waiting = [found.inputs[0]]
    while waiting:
        port = waiting.pop()
        if port.name in kept:
            points[kept[port.name].name] = kept[port.name]
        else:
            waiting.extend(port.box.inputs)
    return list(points.values())


def history_source(name: str, point: Output, connector: PointInput) -> Source:
    """A connection point as an input, which makes progress as the stream did there."""
    arc = point.inputs[0]
    shape = arc.shape
    # Those that decrease are whole numbers: of others nobody can be told.
    numbers = [name for name in shape.falling if pa.types.is_signed_integer(arc.schema.field(name).type)]
    down = [name for name in numbers if name not in shape.rising]
    tracks = {name: Punctuated(descending=name in down) for name in (*shape.rising, *down)}
    if not tracks:
        raise QueryError(
            f"the stream at '{point.name}' makes no progress, so its history cannot be a stream once more",
            hint="attach since='now', or read the table of the point itself",
        )
    (on, policy), *also = tracks.items()
    pairs = tuple(shape.joint[0]), tuple(shape.joint[1])
    return Source(name, (), arc.schema, on, connector, policy, "route", "external", tuple(also), pairs=pairs)
