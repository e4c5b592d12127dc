"""Random networks, small and quick, whose answers do not depend on how they are run."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pyarrow as pa

from penstock.boxes.cleanse.verb import merge
from penstock.boxes.union.verb import union
from penstock.connectors.memory import memory
from penstock.connectors.targets.callback import callback
from penstock.connectors.targets.part_files import jsonl, parquet
from penstock.language.builder import Builder
from penstock.language.stream import Stream
from penstock.plan.compile import compile_network
from penstock.plan.plan import Plan
from penstock.progress.policies.delayed import delayed

SCHEMA: Final = {"ts": "int64", "k": "int64", "v": "int64"}
OUTSIDE: Final = "sim://outside"
SHAPES: Final = ("stateless", "aggregate", "two stages", "union", "join", "merge", "dedupe")


@dataclass(frozen=True)
class Recipe:
    """What a network is made of. It can be built again and again, with other trains."""

    shape: str
    inputs: tuple[tuple[tuple[Any, ...], ...], ...]
    bound: int
    targets: tuple[str, ...]
    """What its outputs are: "kept", "jsonl", "parquet" or "callback"."""
    train: int
    recut: bool
    """Whether every life may cut the inputs in another way."""
    buckets: int
    tasks: int

    def plan(self, train: int, deliver: Any) -> Plan:
        """The network with trains of a length; `deliver` takes (output, batch, table) of callbacks."""
        net = Builder("simulated")
        streams = [
            net.source(f"in{n}", memory(list(rows), schema=SCHEMA, train=train), progress=delayed(self.bound), on="ts")
            for n, rows in enumerate(self.inputs)
        ]
        shaped = _shaped(self.shape, streams)
        for number, kind in enumerate(self.targets):
            _leave(shaped if number == 0 else streams[0], f"out{number}", kind, deliver)
        return compile_network(net.network)


def random_recipe(random: Random) -> Recipe:
    """A network of one or two boxes over one or two short inputs that are out of order and partly broken."""
    shape = random.choice(SHAPES)
    bound = random.choice((0, 2, 5))
    recut = random.random() < 0.5
    several = 2 if shape in ("union", "join", "merge") else 1
    inputs = tuple(_rows(random, bound, breaking=not recut) for _ in range(several))
    kinds = ["kept", "kept", "jsonl", "parquet", "callback"]
    targets = tuple(random.choice(kinds) for _ in range(random.choice((1, 1, 2))))
    return Recipe(
        shape, inputs, bound, targets, random.randint(4, 9), recut, random.choice((1, 2, 2)), random.choice((1, 2))
    )


def _rows(random: Random, bound: int, *, breaking: bool) -> tuple[tuple[Any, ...], ...]:
    """Times that grow, shuffled within the bound; some are NULL, and if they may, some break the promise."""
    rows: list[tuple[Any, ...]] = []
    at = 0
    for _ in range(random.randint(6, 18)):
        at += random.choice((0, 1, 1, 2, 7))
        late = 30 if breaking and random.random() < 0.05 else 0
        time = None if random.random() < 0.04 else at - random.randint(0, bound) - late
        rows.append((time, random.randint(0, 3), random.randint(0, 9)))
    return tuple(rows)


def _shaped(shape: str, streams: list[Stream]) -> Stream:
    first = streams[0]
    by_key = {"n": "count(*)", "total": "sum(v)"}
    match shape:
        case "stateless":
            return first.where("v <> 3").map(ts="ts", k="k", w="v * 2 + 1")
        case "aggregate":
            return first.aggregate(by_key, on="ts", size=5, by=["k"])
        case "two stages":
            counts = first.aggregate(by_key, on="ts", size=4, by=["k"])
            return counts.aggregate({"groups": "count(*)", "total": "sum(total)"}, on="ts", size=8)
        case "union":
            return union(*streams).where("k < 3").aggregate(by_key, on="ts", size=6, advance=3, by=["k"])
        case "join":
            return streams[0].join(streams[1], "l.k = r.k", on=("ts", "ts"), size=3)
        case "merge":
            return merge(*streams)
    return first.dedupe(by=["k", "v"], on="ts")


def _leave(stream: Stream, name: str, kind: str, deliver: Any) -> None:
    match kind:
        case "kept":
            stream.output(name)
        case "jsonl":
            stream.output(name, to=jsonl(f"{OUTSIDE}/{name}"))
        case "parquet":
            stream.output(name, to=parquet(f"{OUTSIDE}/{name}"))
        case "callback":

            def function(table: pa.Table, batch: int) -> None:
                deliver(name, batch, table)

            stream.output(name, to=callback(function))
