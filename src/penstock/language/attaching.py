"""Queries that are attached to a network while it runs: the network with them, and without them again.

```
 orders ──> orders connection point          history of 'orders' ─┐
                │ (arc)                                           ├─> seam ──> what the query says ──> its outputs
                └─────────────────────────────────────────────────┘
```
"""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.algebra.box import Box, End, Output, Port
from penstock.algebra.expressions.binding import bind_predicate
from penstock.algebra.naming import did_you_mean
from penstock.algebra.network import Attached, Network
from penstock.algebra.source import Source, Track
from penstock.algebra.ticks import BEGINNING, END, Duration, duration_ticks, tick_of
from penstock.boxes.filter.box import Filter
from penstock.boxes.requirements import require_name
from penstock.boxes.seam.box import Seam
from penstock.connectors.points.keeping import EVERYTHING
from penstock.connectors.points.point_history import PIECE_ROWS, SHARE, PointHistory
from penstock.connectors.points.point_target import ConnectionPoint
from penstock.errors import QueryError
from penstock.language.builder import Builder
from penstock.language.copies import leave, rejoin
from penstock.language.kept_streams import Ways, history_source, point_or_view, points_of
from penstock.language.stream import Stream
from penstock.storage.folder import Folder

Query = Callable[..., object]
"""A query: it takes the streams of its connection points, and ends in outputs."""
Since = Duration | dt.datetime | dt.date

BEGINNING_WORD: Final = "beginning"
NOW_WORD: Final = "now"
SINCE: Final = f"'{BEGINNING_WORD}', '{NOW_WORD}', a length of time such as '1 hour', or a datetime"


@dataclass(frozen=True)
class Order:
    """What somebody asks for who attaches a query."""

    query: Query
    at: Sequence[str]
    name: str
    since: Since = BEGINNING_WORD
    share: float = SHARE

    def __post_init__(self) -> None:
        require_name(self.name)
        if not self.at:
            raise QueryError("a query is attached at one connection point at least", hint="at='orders'")
        if isinstance(self.share, bool) or not 0 < self.share <= 1:
            raise QueryError("a share is more than 0 and at most 1", found=f"share={self.share!r}")
        if not callable(self.query):
            raise QueryError(f"{self.query!r} is no query", expected="a function from streams to outputs")


def query_name(query: Query) -> str:
    """What a query is called that nobody gives a name: as its function is."""
    name = getattr(query, "__name__", "")
    if not name or name == "<lambda>":
        raise QueryError("the query has no name", hint="give it one with name='...'")
    return str(name)


def attach(network: Network, order: Order, place: Callable[[Output], Folder], marks: Mapping[str, int]) -> Network:
    """A network with a query attached.

    `place` is where a connection point lies, `marks` how far the attributes of each point's arc have come, by the name
    of the point: for those that `since=` counts back from.
    """
    if any(known.name == order.name for known in network.attached):
        raise QueryError(
            f"a query '{order.name}' is attached already",
            network=network.name,
            hint="detach it, or choose another name",
        )
    builder = Builder(network.name)
    builder._boxes.extend(network.boxes)
    ways = Ways(builder, network, order.name, lambda point: past_and_arc(builder, order, point, place, marks))
    _refuse_part_of_lives(network, order)
    live = order.since == NOW_WORD
    streams = [ways.arc(name) if live else ways.of(name) for name in order.at]
    _check_arguments(order)
    try:
        order.query(*streams)
    except TypeError as error:
        raise QueryError(f"the query '{order.name}' cannot be built", found=f"TypeError: {error}") from error
    fresh = builder._boxes[len(network.boxes) :]
    outputs = tuple(box.name for box in fresh if isinstance(box, End))
    if not any(isinstance(box, Output) for box in fresh):
        raise QueryError(
            f"the query '{order.name}' has no output", network=network.name, hint="end its stream with .output('name')"
        )
    others = [box.name for box in fresh if isinstance(box, Source) and not box.connector.catches_up]
    if others:
        raise QueryError(
            f"the query '{order.name}' has an input of its own, '{others[0]}'",
            network=network.name,
            expected="streams of connection points alone",
            hint="add the input to the application, and change the run with it",
        )
    boxes = tuple(box.name for box in fresh if not isinstance(box, End))
    told = Attached(order.name, tuple(order.at), _since_text(order.since), order.share, boxes, outputs)
    return Network(network.name, tuple(builder._boxes), attached=(*network.attached, told))


def _refuse_part_of_lives(network: Network, order: Order) -> None:
    """Refuse a temporal stream from a moment on: its elements would speak of events that the query has never seen."""
    temporal = [name for name in order.at if point_or_view(network, name).inputs[0].temporal]
    if temporal and order.since != BEGINNING_WORD:
        raise QueryError(
            f"'{temporal[0]}' is a temporal stream, whose elements adjust earlier events",
            network=network.name,
            expected=f"since='{BEGINNING_WORD}'",
            found=f"since={order.since!r}",
        )
    for point in [point for name in temporal for point in points_of(network, name)]:
        if isinstance(point.target, ConnectionPoint) and point.target.keep != EVERYTHING:
            raise QueryError(
                f"'{point.name}' is a temporal stream, and its point does not keep all of its elements",
                network=network.name,
                found=f"a point that keeps {point.target.keep.describe()}",
                hint="attach to a point without keep=",
            )


def detach(network: Network, name: str, stable: int = BEGINNING) -> Network:
    """A network without an attached query; refused while another one reads what it keeps. Of a copy that leaves an
    LMerge, `stable` is how far the output of that is stable."""
    known = next((each for each in network.attached if each.name == name), None)
    if known is None:
        names = [each.name for each in network.attached]
        raise QueryError(
            f"no query '{name}' is attached",
            network=network.name,
            found=", ".join(names) or "no attached query at all",
            hint=did_you_mean(name, names),
        )
    if known.to:
        return leave(network, known, stable)
    readers = [each.name for each in network.attached if {*each.at} & {*known.outputs}]
    if readers:
        raise QueryError(
            f"'{readers[0]}' is attached to a connection point of '{name}'",
            network=network.name,
            hint=f"detach '{readers[0]}' first",
        )
    rest = tuple(box for box in network.boxes if not _belongs(box, known))
    return Network(network.name, rest, attached=tuple(each for each in network.attached if each is not known))


def grafted(
    base: Network, before: Network | None, place: Callable[[Output], Folder], stable: Callable[[Attached], int]
) -> Network:
    """A network with all queries that were attached to an earlier version of it, and all copies that had joined.
    `stable` tells how far the output is stable of the LMerge that a copy has joined."""
    if before is None:
        return base
    network = base
    for known in before.attached:
        if known.to:
            network = rejoin(network, known, before, stable(known))
            continue
        network = _graft(network, known, [box for box in before.boxes if _belongs(box, known)], place)
    return network


def _graft(network: Network, known: Attached, boxes: Sequence[Box], place: Callable[[Output], Folder]) -> Network:
    builder = Builder(network.name)
    builder._boxes.extend(network.boxes)
    for name in known.at:
        point_or_view(network, name)  # refused, if it is gone
    found = {box.name: box for box in network.boxes if not isinstance(box, End)}
    for box in boxes:
        inputs = tuple(_rebound(port, found, known, network) for port in box.inputs)
        new = replace(box, inputs=inputs) if inputs else box
        if isinstance(new, Source) and isinstance(new.connector, PointHistory):
            (point,) = points_of(network, new.connector.point)
            folder = place(point)
            new = replace(new, connector=replace(new.connector, folder=folder))
        builder._add(new)
        if not isinstance(new, End):
            found[new.name] = new
    return Network(network.name, tuple(builder._boxes), attached=(*network.attached, known))


def _rebound(port: Port, found: Mapping[str, Box], known: Attached, network: Network) -> Port:
    box = found.get(port.box.name)
    if box is None or port.index >= len(box.ports) or Port(box, port.index).schema != port.schema:
        what = "is gone" if box is None else "has other columns"
        raise QueryError(
            f"the query '{known.name}' is attached to the stream '{port.name}', which {what}",
            network=network.name,
            hint=f"leave the stream as it was, or detach the query first: run.detach('{known.name}')",
        )
    return Port(box, port.index)


def _belongs(box: Box, known: Attached) -> bool:
    return box.name in (known.outputs if isinstance(box, End) else known.boxes)


def _since_text(since: Since) -> str:
    return since if isinstance(since, str) else str(since)


def _check_arguments(order: Order) -> None:
    """Refuse a function that takes another number of streams than there are connection points."""
    try:
        inspect.signature(order.query).bind(*order.at)
    except TypeError as error:
        raise QueryError(
            f"the query '{order.name}' takes other arguments than its connection points",
            expected=f"a function of {len(order.at)}: {', '.join(order.at)}",
            found=str(inspect.signature(order.query)),
        ) from error
    except ValueError:
        return  # nobody knows what it takes


def past_and_arc(
    builder: Builder, order: Order, point: Output, place: Callable[[Output], Folder], marks: Mapping[str, int]
) -> Stream:
    """The stream of a connection point: its history since a moment, and then its arc."""
    arc, label = point.inputs[0], f"{order.name} {point.name}"
    connector = PointHistory(place(point), point=point.name, share=order.share, piece_rows=PIECE_ROWS)
    history = history_source(f"{label} past", point, connector)
    stream = builder._add(history)
    least = _least(order.since, history.tracks[0], marks.get(point.name, BEGINNING))
    if least is not None:
        bound = "<=" if history.tracks[0].descending else ">="
        predicate = bind_predicate(f'"{history.on}" {bound} {least}', arc.schema)
        stream = builder._add(Filter(f"{label} since", (stream._port,), (predicate,), False))
    return builder._add(Seam(f"{label} seam", (stream._port, arc), history.name))


def _least(since: Since, track: Track, mark: int) -> str | None:
    """The least value that is wanted of a progressing attribute, or the largest of one that decreases, as it is written
    in SQL; None for any."""
    on, kind = track.attribute, track.kind
    if since == BEGINNING_WORD:
        return None
    if isinstance(since, dt.datetime | dt.date):
        tick = tick_of(since, kind)
    else:
        try:
            length = duration_ticks(since, kind)
        except QueryError as error:
            raise QueryError(f"since={since!r} says nothing on '{on}'", expected=SINCE, found=str(kind)) from error
        if length < 0:
            raise QueryError("history lies behind, not ahead", found=f"since={since!r}")
        if mark in (BEGINNING, END):
            return None  # nothing is known to have passed, or all has: what is held is all there is
        tick = max(mark - length, BEGINNING + 1)
    text = track.text(tick)
    return text if text.lstrip("-").isdigit() else f"timestamp '{text}'"
