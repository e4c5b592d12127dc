"""The builder of a network: its inputs, and the boxes that the methods of streams add."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from penstock.algebra.box import Box, Output, Port, Source
from penstock.algebra.expression import bind_predicate
from penstock.algebra.network import Network as FrozenNetwork
from penstock.algebra.schema import SchemaLike, parse_schema
from penstock.algebra.ticks import can_progress
from penstock.connectors.base import Connector
from penstock.errors import PenstockError, QueryError
from penstock.language.checks import refuse_hidden, require_columns, require_name
from penstock.language.stream import Stream
from penstock.progress.policy import Ordered, Policy

LATE_CHOICES = ("route", "drop", "error")
TIMESTAMPS = ("external", "internal", "latent")


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
        """An input: its tuples as a stream that makes progress on the attribute `on`.

        `timestamps` says where `on` comes from: "external", the tuples bring it along; "internal", it is added when
        they arrive, a timestamp[us] of the clock reading that their batch records; "latent", the same, and the input
        states the clock with every batch, so nobody waits for it.
        """
        with self._building(name):
            if timestamps not in TIMESTAMPS:
                raise QueryError(f"timestamps={timestamps!r} is unknown", expected=f"one of {', '.join(TIMESTAMPS)}")
            if late not in LATE_CHOICES:
                raise QueryError(f"late={late!r} is unknown", expected=f"one of {', '.join(LATE_CHOICES)}")
            tuples = parse_schema(schema) if schema is not None else connector.schema()
            if tuples is None:
                raise QueryError("the schema of this input is not known", hint="give schema={'ts': 'int64', ...}")
            if timestamps != "external":
                if on in tuples.names:
                    raise QueryError(
                        f"the tuples have '{on}' already, and {timestamps} timestamps would be added under that name",
                        hint="choose another name with on=, or timestamps='external'",
                    )
                tuples = pa.schema([pa.field(on, pa.timestamp("us")), *tuples])
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
            require_columns(getattr(policy, "groups", ()), tuples)
            where = getattr(policy, "where", None)
            if where is not None:
                bind_predicate(where, tuples)
            return self._add(Source(name, (), tuples, on, connector, policy, late, timestamps))

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


def _ports(box: Box) -> list[Port]:
    return [Port(box, index) for index in range(len(box.ports))]
