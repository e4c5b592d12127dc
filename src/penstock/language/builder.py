"""The Python language: streams and their methods, which build the frozen boxes of the algebra.

Everything is bound and typed when the box is built, so a wrong column, a type clash or lost progress is refused at
the line that wrote it, naming the box, what exists and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from penstock.algebra.box import Box, Filter, Map, Output, Port, Source, Union
from penstock.algebra.expression import bind, bind_predicate
from penstock.algebra.network import Network as FrozenNetwork
from penstock.algebra.network import lost_progress
from penstock.algebra.schema import SchemaLike, parse_schema
from penstock.algebra.ticks import Duration, can_progress
from penstock.connectors.base import Connector
from penstock.connectors.targets import Results, Target
from penstock.errors import PenstockError, QueryError
from penstock.language.aggregating import aggregate
from penstock.language.checks import refuse_hidden, require_columns, require_name
from penstock.progress.policy import Ordered, Policy

LATE_CHOICES = ("route", "drop", "error")


class Builder:
    """Collects the boxes of one network."""

    def __init__(self, name: str = "network") -> None:
        self.name = name
        self._boxes: list[Box] = []

    def source(
        self,
        name: str,
        connector: Connector,
        *,
        schema: SchemaLike | None = None,
        on: str = "ts",
        timestamps: str = "external",
        progress: Policy | None = None,
        late: str = "route",
    ) -> Stream:
        """An input: its tuples as a stream that makes progress on the attribute `on`."""
        with self._building(name):
            if timestamps != "external":
                raise QueryError(
                    f"timestamps={timestamps!r} is not available",
                    expected="'external': the tuples carry their own progressing attribute",
                )
            if late not in LATE_CHOICES:
                raise QueryError(f"late={late!r} is unknown", expected=f"one of {', '.join(LATE_CHOICES)}")
            tuples = parse_schema(schema) if schema is not None else connector.schema()
            if tuples is None:
                raise QueryError("the schema of this input is not known", hint="give schema={'ts': 'int64', ...}")
            require_columns((on,), tuples)
            refuse_hidden(tuples.names)
            kind = tuples.field(on).type
            if not can_progress(kind):
                raise QueryError(
                    f"'{on}' cannot carry progress",
                    expected="an integer, date or timestamp attribute",
                    found=f"{on} {kind}",
                    hint="choose another attribute with on=",
                )
            policy = progress if progress is not None else Ordered()
            policy.check(kind)
            where = getattr(policy, "where", None)
            if where is not None:
                bind_predicate(where, tuples)
            return self._add(Source(name, (), tuples, on, connector, policy, late))

    @property
    def network(self) -> FrozenNetwork:
        """The network as it stands, checked."""
        frozen = FrozenNetwork(self.name, tuple(self._boxes))
        frozen.check()
        return frozen

    def _add(self, box: Box) -> Stream:
        require_name(box.name)
        # Outputs have names of their own: a stream may leave under the name of its input.
        rivals = [b.name for b in self._boxes if isinstance(b, Output) == isinstance(box, Output)]
        if box.name in rivals:
            raise QueryError(
                f"there is already {'an output' if isinstance(box, Output) else 'a box'} named '{box.name}'",
                found=", ".join(rivals),
                hint="give it another name",
            )
        streams = {p.name: p.box for other in self._boxes for p in _ports(other)}
        taken = [p.name for p in _ports(box) if p.name in streams]
        if taken:
            raise QueryError(
                f"there is already a stream named '{taken[0]}', of the {streams[taken[0]].kind} "
                f"'{streams[taken[0]].name}'",
                hint="give the box another name",
            )
        self._boxes.append(box)
        return Stream(self, Port(box, 0))

    def _fresh(self, kind: str, name: str | None) -> str:
        if name is not None:
            return name
        number = sum(box.kind == kind for box in self._boxes) + 1
        while any(box.name == f"{kind}{number}" for box in self._boxes):
            number += 1
        return f"{kind}{number}"

    @contextmanager
    def _building(self, box: str) -> Iterator[None]:
        try:
            yield
        except PenstockError as error:
            raise error.located(network=self.name, box=box) from error.__cause__


class Stream:
    """What flows from one port: the methods add boxes to its network and return their output streams."""

    def __init__(self, builder: Builder, port: Port) -> None:
        self._builder = builder
        self._port = port

    @property
    def schema(self) -> pa.Schema:
        return self._port.schema

    @property
    def progressing(self) -> tuple[str, ...]:
        """The attributes that this stream makes progress on."""
        return self._port.progressing

    def __repr__(self) -> str:
        columns = ", ".join(f"{f.name} {f.type}" for f in self.schema)
        return f"<stream '{self._port.name}' ({columns}), progress on {', '.join(self.progressing) or 'nothing'}>"

    def filter(self, *predicates: str, name: str | None = None) -> tuple[Stream, ...]:
        """Route every tuple to the stream of the first predicate it satisfies; the last stream takes the rest."""
        box = self._filter(predicates, name, rest=True)
        return tuple(Stream(self._builder, Port(box, i)) for i in range(len(predicates) + 1))

    def where(self, predicate: str, *, name: str | None = None) -> Stream:
        """Only the tuples that satisfy the predicate."""
        return Stream(self._builder, Port(self._filter((predicate,), name, rest=False)))

    def _filter(self, predicates: Sequence[str], name: str | None, *, rest: bool) -> Filter:
        label = self._builder._fresh("filter", name)
        with self._builder._building(label):
            if not predicates:
                raise QueryError("a filter needs at least one predicate", hint="filter('len > 100')")
            bound = tuple(bind_predicate(p, self.schema) for p in predicates)
            box = Filter(label, (self._port,), bound, rest)
            self._builder._add(box)
            return box

    def map(self, *, name: str | None = None, **outputs: str) -> Stream:
        """A stream of new tuples: every attribute is an SQL expression of the old one."""
        label = self._builder._fresh("map", name)
        with self._builder._building(label):
            if not outputs:
                raise QueryError("a map needs at least one output attribute", hint="map(minute='ts / 60')")
            refuse_hidden(tuple(outputs))
            bound = tuple((out, bind(text, self.schema, what=f"attribute '{out}'")) for out, text in outputs.items())
            return self._builder._add(Map(label, (self._port,), bound))

    def aggregate(
        self,
        outputs: Mapping[str, str],
        *,
        size: Duration,
        on: str | None = None,
        advance: Duration | None = None,
        by: Sequence[str] | str = (),
        name: str | None = None,
    ) -> Stream:
        """Aggregates over the windows `[w * advance, w * advance + size)` of `on`, for each group of `by`.

        A window's results leave once, when the low-water mark has passed its end.
        """
        return aggregate(self, outputs, on=on, size=size, advance=advance, by=by, name=name)

    def output(self, name: str, to: Target | None = None) -> Stream:
        """Let the stream leave the network under this name; without `to` its tuples are kept for reading."""
        with self._builder._building(name):
            self._builder._add(Output(name, (self._port,), to if to is not None else Results()))
            return self

    def late(self) -> Stream:
        """The tuples that came too late: for an input, or for a box that is defined on arrival order."""
        port = self._port.box.late_port()
        return Stream(self._builder, Port(self._source("late") if port is None else self._port.box, port or 0))

    def errors(self) -> Stream:
        """The records of an input that could not be taken as tuples, with the reason."""
        return Stream(self._builder, Port(self._source("errors"), Source.ERRORS))

    def _source(self, what: str) -> Source:
        if not isinstance(self._port.box, Source):
            raise QueryError(
                f"only an input has a stream of {what}",
                network=self._builder.name,
                box=self._port.box.name,
                hint=f"call {what}() on what net.source(...) returned",
            )
        return self._port.box

    def only_progressing(self) -> str:
        """The one attribute that this stream makes progress on; refused where there are several or none."""
        if len(self.progressing) == 1:
            return self.progressing[0]
        raise QueryError(
            "say which attribute the windows are on",
            found=f"progress on {', '.join(self.progressing) or 'nothing'}",
            hint="give on=",
        )

    def require_progress(self, attribute: str, what: str) -> None:
        """Refuse an attribute on which the stream makes no progress, and say which box lost it."""
        if attribute in self.progressing:
            return
        box = lost_progress(self._port, attribute)
        lost = f"; box '{box.name}' ({box.describe()}) lost it" if box is not None else ""
        raise QueryError(
            f"{what} on '{attribute}' would never close: the stream makes no progress on it{lost}",
            expected=f"one of {', '.join(self.progressing)}" if self.progressing else "an attribute that progresses",
            found=f"'{attribute}' of stream '{self._port.name}'",
            hint="keep the progressing attribute, or compute it with a monotone expression such as ts / 60 or "
            "date_trunc('minute', ts)",
        )


def union(*streams: Stream, name: str | None = None) -> Stream:
    """All tuples of several streams of one schema, in any order."""
    if len(streams) < 2:
        raise QueryError("a union needs at least two streams", found=str(len(streams)))
    builder = streams[0]._builder
    label = builder._fresh("union", name)
    with builder._building(label):
        if any(s._builder is not builder for s in streams):
            raise QueryError("the streams of a union belong to different networks")
        return builder._add(Union(label, tuple(s._port for s in streams)))


def _ports(box: Box) -> list[Port]:
    return [Port(box, index) for index in range(len(box.ports))]
