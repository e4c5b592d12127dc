"""`play`: run a network on a script, and what has come out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from penstock.algebra.box import Box, Output, Port
from penstock.algebra.marks import UNKNOWN
from penstock.algebra.network import Network as FrozenNetwork
from penstock.algebra.source import Source
from penstock.algebra.ticks import BEGINNING, END, from_ticks
from penstock.api import Network
from penstock.connectors.memory import PunctuationElement
from penstock.connectors.targets.kept_results import Results
from penstock.errors import QueryError
from penstock.plan.plan import OUT_OF_ORDER
from penstock.runtime.board import Record
from penstock.runtime.result import Result, TupleElement
from penstock.testing.scripted import Script, Scripted, scripted


def play(
    network: Network,
    script: Script,
    *,
    train: int | None = None,
    end: bool = True,
    engine: str = "local",
    buckets: int = 0,
    architecture: str = OUT_OF_ORDER,
) -> Played:
    """Run a network on a script in the place of its inputs.

    The script is `{input: elements}`. Then every batch takes `train` elements of each input, one if not given, and an
    input ends with its last element. Or the script is a list of batches: each is `{input: elements}`, or a
    `pk.clock(...)` for a batch in which nothing arrives. Then all inputs end with the last batch.

    Elements are rows (tuples or dicts), `pk.punctuation(...)`, `pk.clock(...)`, and `shard(name, ...)`. The clock
    stands at the beginning of 1970 until the script moves it.

    With `end=False` the inputs stay open at the end of the script: one sees what has left up to there, and who waits.
    `engine="spark"` plays the same on Spark.
    """
    frozen = network.network
    connectors = scripted(frozen.name, frozen.sources, script, train, end)
    staged = _Staged(_rewired(frozen, {s.name: c for s, c in zip(frozen.sources, connectors, strict=True)}))
    records: list[Record] = []
    outcome = staged.run(engine, buckets=buckets, architecture=architecture, on_batch=records.append)
    return Played(staged.network, outcome, tuple(records))


@dataclass(frozen=True)
class Played:
    """What has come out of a network on a script."""

    network: FrozenNetwork
    result: Result
    """All that a run gives, such as `result.waiting()`."""
    records: tuple[Record, ...]
    """The board's record of every batch."""

    def __getitem__(self, output: str) -> pa.Table:
        """The tuples of an output, in the order in which they left."""
        return self.result[output]

    def late(self, name: str) -> pa.Table:
        """The late tuples of an input, or of a box that is defined on arrival order."""
        return self.result.late(name)

    def errors(self, name: str) -> pa.Table:
        """The records that an input or a map has refused, with the reason."""
        return self.result.errors(name)

    def elements(self, output: str) -> list[TupleElement | PunctuationElement]:
        """The tuples and the punctuation of an output, in the order in which they left."""
        return self.result.elements(output)

    def batches(self, output: str) -> list[list[dict[str, Any]]]:
        """For every batch, the rows that left by an output in it."""
        rows = self[output].to_pylist()
        ends = [record.outputs.get(output, 0) for record in self.records]
        return [rows[start:stop] for start, stop in zip([0, *ends], ends, strict=False)]

    def marks(self, stream: str, on: str | None = None) -> list[Any]:
        """The low-water mark of a stream after every batch; `-inf` where nothing is known yet, `inf` at the end.

        A stream has the name of the box that it leaves. `on` is the attribute; it may be left out where only one makes
        progress.
        """
        ports = {port.name: port for box in self.network.boxes for port in _ports(box)}
        if stream not in ports:
            raise self._refused(f"there is no stream '{stream}'", expected=f"one of {', '.join(ports)}")
        able = ports[stream].progressing
        if on is None and len(able) > 1:
            raise self._refused(f"'{stream}' makes progress on {len(able)} attributes", f"on= one of {', '.join(able)}")
        attribute = on if on is not None else next(iter(able), None)
        if attribute is None or attribute not in able:
            lost = f" on '{attribute}'" if attribute is not None else ""
            raise self._refused(f"'{stream}' makes no progress{lost}", ", ".join(able) or "a stream that does")
        kind = ports[stream].schema.field(attribute).type
        return [_value(record.marks.get(stream, UNKNOWN).of(attribute), kind) for record in self.records]

    def _refused(self, what: str, expected: str) -> QueryError:
        return QueryError(what, network=self.network.name, expected=expected)


class _Staged(Network):
    """A network whose boxes are given."""

    def __init__(self, frozen: FrozenNetwork) -> None:
        super().__init__(frozen.name)
        self._frozen = frozen

    @property
    def network(self) -> FrozenNetwork:
        return self._frozen


def _rewired(frozen: FrozenNetwork, connectors: dict[str, Scripted]) -> FrozenNetwork:
    """The same boxes behind other inputs, with outputs that keep what comes."""
    boxes: list[Box] = []
    made: dict[str, Port] = {}
    for box in frozen.boxes:
        new: Box
        if isinstance(box, Source):
            new = replace(box, connector=connectors[box.name])
        else:
            new = replace(box, inputs=tuple(made[port.name] for port in box.inputs))
        if isinstance(new, Output):
            new = replace(new, target=Results())
        boxes.append(new)
        made.update({Port(box, i).name: Port(new, i) for i in range(len(box.ports))})
    return replace(frozen, boxes=tuple(boxes))


def _ports(box: Box) -> list[Port]:
    return [Port(box, index) for index in range(len(box.ports))]


def _value(tick: int, kind: pa.DataType) -> Any:
    if tick in (BEGINNING, END):
        return math.inf if tick == END else -math.inf
    return from_ticks(pa.array([tick], pa.int64()), kind)[0].as_py()
