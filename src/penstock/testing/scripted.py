"""Scripts: what every input brings, batch by batch; and the connector that delivers it.

```
 {input: [element, ...]}          ──┐
                                    ├──> for each input its trains ──> Scripted, in the place of its connector
 [{input: [element, ...]}, ...]   ──┘
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, TypeAlias

import pyarrow as pa

from penstock.algebra.source import Source
from penstock.connectors.connector import Advance, Chunk, Connector, Feed, Journal, Limit, Position, Split
from penstock.connectors.memory import ClockElement, Memory, MemorySplit, PunctuationElement, memory, punctuation
from penstock.errors import InternalError, QueryError

_ONLY_SHARD: Final = "0"

Elements: TypeAlias = Sequence[Any]
"""Rows as tuples or dicts, `pk.punctuation(...)`, `pk.clock(...)`, `shard(...)`."""
Batch: TypeAlias = Mapping[str, Elements] | ClockElement
"""What the inputs bring in one batch. A clock alone is a batch in which nothing arrives."""
Script: TypeAlias = Mapping[str, Elements] | Sequence[Batch]
Trains: TypeAlias = list[Elements]
"""What one input brings, batch by batch."""


@dataclass(frozen=True)
class InShard:
    """Elements of one shard of an input."""

    name: str
    elements: tuple[Any, ...]


def shard(name: str, *elements: Any) -> InShard:
    """Rows and punctuation that come from one shard of an input.

    All shards that a script names are known from its beginning: each holds windows back until it has spoken.
    Punctuation that stands outside of a shard speaks for all of them.

    >>> shard("west", (7,), (9,))
    InShard(name='west', elements=((7,), (9,)))
    """
    return InShard(name, elements)


@dataclass(frozen=True)
class Scripted(Connector):
    """A scripted input: a train for every batch, cut as the script says."""

    trains: tuple[tuple[tuple[str, Memory], ...], ...]
    """Of every batch, the shards that speak, and what they say."""
    clocks: tuple[int, ...]
    """What time it is in every batch."""
    declared: pa.Schema
    known: tuple[str, ...]
    """All shards of the script."""
    ends: bool
    """Whether the input ends with the script, or stays open."""

    @property
    def bounded(self) -> bool:
        """A script comes to its end, also if the input stays open there."""
        return True

    def schema(self) -> pa.Schema:
        return self.declared

    def describe(self) -> str:
        return f"a script of {len(self.trains)} trains"

    def shards(self) -> Sequence[str]:
        return self.known

    def open(self, schema: pa.Schema, journal: Journal) -> ScriptedFeed:
        return ScriptedFeed(self)

    def read(self, split: Split, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        if not isinstance(split, ScriptedSplit):
            raise InternalError("a split of another connector was given to a script", found=repr(split))
        part = dict(self.trains[split.train])[split.shard]
        yield from part.read(MemorySplit(_ONLY_SHARD, 0, split.rows, 0, split.rows), schema, columns)


@dataclass(frozen=True)
class ScriptedSplit(Split):
    """What one shard says in one train."""

    train: int


@dataclass(frozen=True)
class ScriptedFeed(Feed):
    """Positions are `{"at": trains taken}`."""

    connector: Scripted

    def start(self) -> Position:
        return {"at": 0}

    def advance(self, position: Position, limit: Limit) -> Advance:
        # The script decides how long a train is, so `limit` has no say in it.
        total = len(self.connector.trains)
        at = min(total, position["at"] + 1)
        clock = self.connector.clocks[max(0, at - 1)]
        rows = sum(split.rows for split in self.splits(position, {"at": at}))
        return Advance({"at": at}, ended=self.connector.ends and at == total, clock=clock, rows=rows)

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        return [
            ScriptedSplit(shard, train, len(said.elements), train)
            for train in range(start["at"], end["at"])
            for shard, said in self.connector.trains[train]
        ]

    def close(self) -> None:
        """Holds nothing."""


def scripted(network: str, sources: Sequence[Source], script: Script, train: int | None, end: bool) -> list[Scripted]:
    """The connectors that stand in the place of those of the inputs."""
    inputs = [source.name for source in sources]
    if isinstance(script, Mapping):
        trains = _cut(network, inputs, script, train)
    elif train is None:
        trains = _listed(network, inputs, script)
    else:
        raise QueryError(
            "train= does not go with a list of batches",
            network=network,
            found=f"train={train}",
            hint="leave it out: every entry of the list is a batch",
        )
    clocks = _clocks(network, trains)
    made = []
    for source in sources:
        try:
            made.append(_connector(source, trains[source.name], clocks, end))
        except QueryError as error:
            raise error.located(network=network, box=source.name) from error.__cause__
    return made


def _cut(network: str, inputs: list[str], script: Mapping[str, Elements], train: int | None) -> dict[str, Trains]:
    """The trains of every input: so many elements each, and as many trains as there are elements for."""
    _check(network, inputs, script)
    silent = [name for name in inputs if name not in script]
    if silent:
        raise QueryError(
            f"the script says nothing of the input '{silent[0]}'",
            network=network,
            expected=f"a list for each of {', '.join(inputs)}",
            hint=f"'{silent[0]}': [] is an input that ends at once",
        )
    if train is not None and train < 1:
        raise QueryError("a train has at least one element", network=network, found=f"train={train}")
    step = train or 1
    return {name: [script[name][at : at + step] for at in range(0, len(script[name]), step)] for name in inputs}


def _listed(network: str, inputs: list[str], batches: Sequence[Batch]) -> dict[str, Trains]:
    """The trains of every input, one for each batch of the list."""
    trains: dict[str, Trains] = {name: [] for name in inputs}
    for batch in batches:
        if not isinstance(batch, Mapping | ClockElement):
            raise QueryError(
                "an entry of the script is no batch",
                network=network,
                expected="{input: [element, ...]}, or pk.clock(...)",
                found=repr(batch),
            )
        brings: Mapping[str, Elements] = batch if isinstance(batch, Mapping) else {inputs[0]: [batch]}
        _check(network, inputs, brings)
        for name in inputs:
            trains[name].append(brings.get(name, ()))
    return trains


def _check(network: str, inputs: list[str], script: Mapping[str, Elements]) -> None:
    for name, elements in script.items():
        if name not in inputs:
            raise QueryError(
                f"the network has no input {name!r}", network=network, expected=f"one of {', '.join(inputs)}"
            )
        if isinstance(elements, str) or not isinstance(elements, Sequence):
            raise QueryError(
                "a script needs a list of elements",
                network=network,
                box=name,
                expected="rows, pk.punctuation(...), pk.clock(...) or shard(...)",
                found=repr(elements),
            )


def _clocks(network: str, trains: Mapping[str, Trains]) -> tuple[int, ...]:
    """What time it is in every batch: the last reading that the script has given."""
    now, clocks = 0, list[int]()
    for batch in zip_longest(*trains.values(), fillvalue=()):
        for reading in [element.reading for train in batch for element in train if isinstance(element, ClockElement)]:
            if reading < now:
                raise QueryError(
                    "the clock of the script goes back",
                    network=network,
                    found=f"{reading / 1e6} s in batch {len(clocks)}, after {now / 1e6} s",
                    hint="give readings that grow",
                )
            now = reading
        clocks.append(now)
    return tuple(clocks) or (now,)


def _connector(source: Source, trains: Trains, clocks: tuple[int, ...], ends: bool) -> Scripted:
    column = source.connector.shard_by if isinstance(source.connector, Memory) else None
    parted = [[piece for element in train for piece in _pieces(source, element, column)] for train in trains]
    named = tuple(dict.fromkeys(name for train in parted for name, _ in train if name is not None))
    known = named or (_ONLY_SHARD,)
    homeless = [e for train in parted for name, e in train if name is None and not isinstance(e, PunctuationElement)]
    if named and homeless:
        raise QueryError(
            "a row of the script does not say of which shard it is",
            expected=f"shard(...) with one of {', '.join(known)}",
            found=repr(homeless[0]),
            hint="where one row is in a shard, all are",
        )
    made = []
    for train in parted:
        said: dict[str, list[Any]] = {}
        for name, element in train:
            for each in known if name is None else (name,):
                said.setdefault(each, []).append(element)
        made.append(tuple((name, memory(elements, schema=source.delivered)) for name, elements in said.items()))
    _check_stated(source, [part for train in made for _, part in train])
    return Scripted(tuple(made), clocks, source.delivered, known, ends)


def _pieces(source: Source, element: Any, column: str | None) -> list[tuple[str | None, Any]]:
    """The elements that one of a script stands for, each with its shard; None is any or all of them."""
    if isinstance(element, ClockElement):
        return []
    if isinstance(element, InShard):
        if any(isinstance(inner, InShard | ClockElement) for inner in element.elements):
            raise QueryError("a shard brings rows and punctuation", found=repr(element))
        return [(element.name, inner) for inner in element.elements]
    if column is None:
        return [(None, element)]
    # The input has shards by a column, so the script has, too.
    if isinstance(element, PunctuationElement):
        stated = dict(element.value)
        named = stated.pop(column, None)
        return [(None if named is None else str(named), punctuation(**stated) if stated else element)]
    index = source.delivered.get_field_index(column)
    if isinstance(element, Mapping):
        return [(str(element.get(column)), element)]
    return [(str(element[index]) if isinstance(element, Sequence) and len(element) > index else "None", element)]


def _check_stated(source: Source, parts: Sequence[Memory]) -> None:
    able = [track.attribute for track in source.tracks]
    stated = [attribute for part in parts for attribute in part.states if attribute not in able]
    if stated:
        raise QueryError(
            f"punctuation in the script states '{stated[0]}', on which the input makes no progress",
            expected=" or ".join(able),
        )
