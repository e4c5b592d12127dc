"""The builder of a network: its inputs, and the boxes that the methods of streams add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from penstock.algebra.box import Box, End, Port
from penstock.algebra.expressions.binding import bind_predicate
from penstock.algebra.network import Network as FrozenNetwork
from penstock.algebra.schema import SchemaLike, parse_schema, plain_schema
from penstock.algebra.source import NO_SIDES, Pairs, Source
from penstock.algebra.ticks import can_progress
from penstock.boxes.open_close.box import OpenClose
from penstock.boxes.requirements import key_columns, refuse_hidden, require_columns, require_name, require_ticks
from penstock.connectors.connector import Connector
from penstock.connectors.tables.pushed_table import PushedTable
from penstock.connectors.tables.static_table import StaticTable
from penstock.connectors.temporal.element_input import TemporalInput
from penstock.connectors.temporal.open_close_input import OpenCloseInput
from penstock.connectors.temporal.temporal_rows import TemporalRows
from penstock.errors import PenstockError, QueryError
from penstock.language.stream import Stream
from penstock.language.temporal_inputs import temporal_on
from penstock.progress.idle import Span, span_ns
from penstock.progress.policies.ordered import Ordered
from penstock.progress.policies.punctuated import Punctuated
from penstock.progress.policy import Policy

LATE_CHOICES = ("route", "drop", "error")
TIMESTAMPS = ("external", "internal", "latent")
DEFAULT_ON = "ts"
OVERDUE_CHOICES = ("report", "close")


class Builder:
    """Collects the boxes of one network."""

    def __init__(self, name: str = "network") -> None:
        self.name = name
        self._boxes: list[Box] = []

    def source(
        self,
        name: str,
        connector: Connector | StaticTable,
        *,
        schema: SchemaLike | None = None,
        on: str | None = None,
        timestamps: str = "external",
        progress: Policy | Mapping[str, Policy] | None = None,
        late: str = "route",
        overdue: Span | None = None,
        when_overdue: str = "report",
    ) -> Stream:
        """An input: its tuples as a stream that makes progress on the attribute `on`.

        `progress` is how, or `{attribute: how, ...}` for an input that makes progress on several; then `on` need not be
        given. Without it, an input whose data is punctuated, such as a Delta table that a network has written, goes by
        that; any other is taken to be ordered. `late` says what becomes of tuples that break that promise: "route",
        they go to the late stream; "drop", they are counted; "error", the run stops.

        `timestamps` says where `on` comes from: "external", the tuples bring it along; "internal", it is added when
        they arrive, a timestamp[us] of the clock reading that their batch records; "latent", the same, and the input
        states the clock with every batch, so nobody waits for it.

        A shard that has brought nothing for as long as `overdue` (such as "30 seconds") counts as failed until it does
        again: `run.failures()` tells. `when_overdue="close"` also closes it then, so that nobody waits for it; if it
        comes back, it goes on from where the input stands.
        """
        with self._building(name):
            if timestamps not in TIMESTAMPS:
                raise QueryError(f"timestamps={timestamps!r} is unknown", expected=f"one of {', '.join(TIMESTAMPS)}")
            if late not in LATE_CHOICES:
                raise QueryError(f"late={late!r} is unknown", expected=f"one of {', '.join(LATE_CHOICES)}")
            if isinstance(connector, StaticTable):
                connector = PushedTable(connector)
            if not isinstance(connector, Connector):
                raise QueryError(f"{connector!r} is no input", expected="pk.files(...), pk.memory(...), ...")
            tuples = parse_schema(schema) if schema is not None else connector.schema()
            if tuples is None:
                raise QueryError("the schema of this input is not known", hint="give schema={'ts': 'int64', ...}")
            tuples = plain_schema(tuples)
            elements = None
            if isinstance(connector, TemporalRows):
                connector, tuples = connector.shaped(tuples)
                on = temporal_on(on, timestamps, progress)
                key_columns(connector.payload, tuples, "the payload")
                elements = connector.properties if isinstance(connector, TemporalInput) else None
            says, punctuated = connector.states, connector.punctuated
            if progress is None and timestamps == "external" and punctuated:
                on = on or (DEFAULT_ON if DEFAULT_ON in says else says[0])
                # It speaks of all attributes on which the stream made progress where it was written.
                heard = [name for name in says if name in tuples.names and can_progress(tuples.field(name).type)]
                down = connector.falling
                progress = {name: Punctuated(descending=name in down) for name in heard} if on in heard else None
            assumed = progress is None
            if on is None:
                on = next(iter(progress), "ts") if isinstance(progress, Mapping) else _default(tuples, timestamps)
            if timestamps != "external":
                if on in tuples.names:
                    raise QueryError(
                        f"the tuples have '{on}' already, and {timestamps} timestamps would be added under that name",
                        hint="choose another name with on=, or timestamps='external'",
                    )
                tuples = pa.schema([pa.field(on, pa.timestamp("us")), *tuples])
            refuse_hidden(tuples.names)
            first, *others = _tracks(on, progress, tuples)
            if timestamps == "external":
                connector = connector.in_order_of(first[0], descending=first[1].descending)
            source = Source(
                name,
                (),
                tuples,
                first[0],
                connector,
                first[1],
                late,
                timestamps,
                tuple(others),
                _overdue(overdue, when_overdue),
                when_overdue == "close",
                assumed=assumed,
                elements=elements,
                freezes=isinstance(connector, TemporalRows),
            )
            source = replace(source, pairs=stated_pairs(source), group_marks=stated_groups(source))
            stated = [a for a in says if a not in {t.attribute for t in source.tracks}]
            if stated and not punctuated:
                raise QueryError(
                    f"punctuation in the data states '{stated[0]}', on which the input makes no progress",
                    expected=" or ".join(t.attribute for t in source.tracks),
                    hint="declare it with progress={...}",
                )
            stream = self._add(source)
            if isinstance(connector, OpenCloseInput):
                return self._add(OpenClose(f"{name}.events", (stream._port,), name, connector.properties))
            return stream

    @property
    def network(self) -> FrozenNetwork:
        """The network as it stands, checked."""
        frozen = FrozenNetwork(self.name, tuple(self._boxes))
        frozen.check()
        return frozen

    def _add(self, box: Box) -> Stream:
        require_name(box.name)
        # Outputs have names of their own: a stream may leave under the name of its input.
        leaves = isinstance(box, End)
        rivals = [b.name for b in self._boxes if isinstance(b, End) == leaves]
        if box.name in rivals:
            raise QueryError(
                f"there is already {'an output' if leaves else 'a box'} named '{box.name}'",
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
        _refuse_elements(box)
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


def _refuse_elements(box: Box) -> None:
    """Refuse a temporal stream where a box would take its elements for facts."""
    if box.takes_temporal:
        return
    for port in box.inputs:
        if port.temporal:
            raise QueryError(
                f"a {box.kind} takes no temporal stream: it cannot revise what it has made of events",
                expected="a stream whose tuples never change",
                found=f"'{port.name}', whose elements insert and adjust events",
            )


def _default(tuples: pa.Schema, timestamps: str) -> str:
    """The attribute that is meant without on=; refused where tuples do not have it."""
    if timestamps != "external" or DEFAULT_ON in tuples.names:
        return DEFAULT_ON
    able = [field.name for field in tuples if can_progress(field.type)]
    # The hint is to be copied: a time is meant more often than a number.
    first = next((name for name in able if not pa.types.is_integer(tuples.field(name).type)), next(iter(able), None))
    raise QueryError(
        f"say on which attribute the input makes progress: it has no '{DEFAULT_ON}', which is meant without on=",
        expected=f"on= one of {', '.join(able)} (integers, dates and timestamps)"
        if able
        else "an integer, date or timestamp attribute",
        found=", ".join(f"{field.name} {field.type}" for field in tuples),
        hint=f"net.source(..., on='{first}')"
        if first is not None
        else "declare one of them as such with schema={...}, or let tuples have the time of their arrival: "
        "timestamps='internal'",
    )


def _tracks(on: str, progress: Policy | Mapping[str, Policy] | None, tuples: pa.Schema) -> list[tuple[str, Policy]]:
    """The progressing attributes of an input and how they progress, `on` first, checked."""
    given = dict(progress) if isinstance(progress, Mapping) else {on: Ordered() if progress is None else progress}
    if not given:
        raise QueryError("progress={} names no attribute", hint="leave progress= out, or give {attribute: how}")
    if on not in given:
        raise QueryError(f"on={on!r} has no progress", expected=f"one of {', '.join(map(str, given))}")
    require_columns(tuple(given), tuples)
    for attribute, policy in given.items():
        hint = "choose another attribute with on="
        if pa.types.is_string(tuples.field(attribute).type):
            hint += f"; if its texts are times, give schema= with {attribute} as a timestamp"
            hint += ", and timestamp_formats= where they are not in ISO 8601"
        require_ticks(attribute, tuples, "cannot carry progress", hint)
        if not isinstance(policy, Policy):
            raise QueryError(f"{policy!r} is no progress policy", expected="pk.ordered(), pk.delayed(...), ...")
        policy.check(tuples.field(attribute).type)
        key_columns(policy.groups, tuples)
        if policy.where is not None:
            bind_predicate(policy.where, tuples)
    if len(given) > 1 and any(policy.groups for policy in given.values()):
        raise QueryError("group-wise progress goes with one progressing attribute", found=", ".join(given))
    return [(on, given[on]), *((a, policy) for a, policy in given.items() if a != on)]


def stated_pairs(source: Source) -> Pairs:
    """The sides of joint punctuation in the data of an input, as far as it goes by punctuation on them."""
    heard = {t.attribute for t in source.tracks if isinstance(t.policy, Punctuated) and not t.descending}
    left, right = (tuple(name for name in side if name in heard) for side in source.connector.pairs)
    return (left, right) if left and right else NO_SIDES


def stated_groups(source: Source) -> tuple[str, ...]:
    """The groups of which the data of an input states marks, if it goes by punctuation and has the same types."""
    known = source.connector.group_marks
    if known is None or known[0] != source.on or not isinstance(source.policy, Punctuated):
        return ()
    (on, groups), found = known, source.connector.schema() or pa.schema([])
    alike = all(
        name in source.tuples.names and name in found.names and source.tuples.field(name).type == found.field(name).type
        for name in (on, *groups)
    )
    return groups if alike and source.policy.where is None else ()


def _overdue(limit: Span | None, when_overdue: str) -> int | None:
    """After how many microseconds of silence a shard has failed."""
    if when_overdue not in OVERDUE_CHOICES:
        raise QueryError(f"{when_overdue=} is unknown", expected=f"one of {', '.join(OVERDUE_CHOICES)}")
    if limit is None:
        if when_overdue == "close":
            raise QueryError("when_overdue='close' without a time", hint="say when with overdue='30 seconds'")
        return None
    if span_ns(limit) < 1000:
        raise QueryError("overdue= must be a positive length of time", found=repr(limit))
    return span_ns(limit) // 1000
