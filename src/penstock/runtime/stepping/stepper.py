"""Stepping through a network by hand, one element and one box at a time, in one process and without Spark."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.algebra.box import Box, Port
from penstock.algebra.ticks import BEGINNING, END, from_ticks, tick_text
from penstock.connectors.memory import ClockElement, clock
from penstock.errors import PenstockError, QueryError
from penstock.plan.keep_rejects import errors_output, late_output
from penstock.plan.plan import Plan
from penstock.runtime.stepping.elements import Buffer
from penstock.runtime.stepping.idle_waiting import IdleWaiting
from penstock.runtime.stepping.nodes import Node, Outcome
from penstock.runtime.stepping.rules import Rules
from penstock.runtime.stepping.source import Arrivals, SourceNode
from penstock.runtime.stepping.step import CLOCK, ON_DEMAND, Step
from penstock.runtime.stepping.wiring import Wiring, input_names


class Stepper:
    """A network that is stepped through. `net.stepper()` makes one.

    With `relaxed=False` boxes that merge or join streams wait until all their inputs have elements.
    """

    def __init__(self, plan: Plan, *, relaxed: bool = True) -> None:
        self._wiring = Wiring(plan, relaxed=relaxed)
        self._rules = Rules(self._wiring)
        self._scripted = False
        self._steps = 0
        self._current: Node | SourceNode | None = None
        self._produced: set[str] = set()
        """The buffers that the last step has put something into."""

    def feed(self, source: str, *elements: Any, shard: str | None = None) -> None:
        """Give an input rows (tuples or dicts), `pk.punctuation(...)`, or `pk.clock(...)`: they wait in its buffer."""
        node = self._source(source)
        if node.ended:
            raise QueryError(f"the input '{source}' has ended", network=self._wiring.network.name)
        for element in elements:
            if isinstance(element, ClockElement):
                self.at(element)
            else:
                self._arrive(node.element(element, shard, self._wiring.now, self._wiring.arrivals))

    def end(self, source: str | None = None) -> None:
        """Say that nothing will follow: from one input, or from all."""
        for node in [self._source(source)] if source is not None else self._wiring.sources.values():
            self._arrive(node.end())

    def at(self, now: dt.datetime | str | float | ClockElement) -> None:
        """Set the clock: a time, or seconds since the epoch. It never goes back. Heartbeats that are due arrive."""
        self._scripted = True
        self._move_clock((now if isinstance(now, ClockElement) else clock(now)).reading)

    def pull(self) -> bool:
        """Take the next train from the connector of every input (of a script, the next element); whether there was any.

        A script brings its own clock along; without any, and unless `at` was called, the machine's clock counts.
        """
        sources = self._wiring.sources
        steps = {name: step for name, node in sources.items() if (step := node.advance()) is not None}
        clocks = [step.clock for step in steps.values() if step.clock is not None]
        if clocks or (steps and not self._scripted):
            speaking = {name: sources[name].speaking(step) for name, step in steps.items()}
            self._move_clock(max(clocks) if clocks else time.time_ns() // 1000, speaking)
        for name, step in steps.items():
            self._arrive(sources[name].pull(step, self._wiring.now, self._wiring.arrivals))
        return bool(steps)

    def step(self) -> Step | None:
        """Run one box on one element; None when nothing can move."""
        choice = self._rules.choose(self._current, self._produced)
        self._produced = set()
        if choice is None:
            self._current = None
            return None
        self._current, rule = choice
        self._steps += 1
        node = self._current
        if isinstance(node, SourceNode):
            stated = node.state_on_demand(self._wiring.now)
            gave = [(port.index, replace(element, stamp=self._wiring.number())) for port, element in stated]
            return self._told(node.box, ON_DEMAND, Outcome(gave=gave))
        waits = () if rule == CLOCK or node.more() else tuple(input_names(node.box)[slot] for slot in node.blocked())
        registers = self._texts(node, node.registers())
        try:
            done = node.execute(self._wiring.now)
        except PenstockError as error:
            raise error.located(network=self._wiring.network.name, box=node.box.name) from error.__cause__
        return self._told(node.box, rule, done, registers, waits)

    def run(self, limit: int | None = None, *, inputs: bool = False) -> list[Step]:
        """Step until nothing can move, or `limit` steps are done. With `inputs`, connectors are read to their end."""
        found: list[Step] = []
        while limit is None or len(found) < limit:
            step = self.step()
            if step is not None:
                found.append(step)
            elif not inputs or not self.pull():
                break
        return found

    def __iter__(self) -> Iterator[Step]:
        """The steps, one by one, until nothing can move."""
        while (step := self.step()) is not None:
            yield step

    def output(self, name: str) -> pa.Table:
        """The tuples that have left by an output so far, in order."""
        outputs = {output.name: output for output in self._wiring.network.outputs}
        if name not in outputs:
            raise QueryError(
                f"there is no output '{name}'",
                network=self._wiring.network.name,
                expected=f"one of {', '.join(n for n in outputs if '!' not in n)}",
            )
        return pa.concat_tables([outputs[name].schema(0).empty_table(), *self._wiring.left[name]])

    def late(self, name: str) -> pa.Table:
        """The late tuples of an input, or of a box that is defined on arrival order."""
        return self.output(late_output(name))

    def errors(self, name: str) -> pa.Table:
        """The records of an input that could not be taken as tuples, with the reason."""
        return self.output(errors_output(name))

    def queues(self) -> dict[str, int]:
        """How many elements are in the buffer of each arc, by `producer -> consumer`."""
        return self._wiring.lengths()

    def tsm(self, box: str) -> dict[str, Any]:
        """The time-stamp memory of a merge or join: by input, the value below which nothing will come from it."""
        node = self._wiring.nodes.get(box)
        if not isinstance(node, IdleWaiting):
            known = [name for name, other in self._wiring.nodes.items() if isinstance(other, IdleWaiting)]
            raise QueryError(f"'{box}' has no TSM registers", expected=f"one of {', '.join(known) or 'none here'}")
        values = [_value(r, _kind(b)) for r, b in zip(node.registers(), node.inputs, strict=True)]
        return dict(zip(input_names(node.box), values, strict=True))

    def held(self, box: str) -> int:
        """The tuples that a box holds: in its state and, of a merge or join, in its buffers."""
        if box not in self._wiring.nodes:
            raise QueryError(f"there is no box '{box}'", expected=f"one of {', '.join(self._wiring.nodes)}")
        return self._wiring.nodes[box].held()

    def _move_clock(self, now: int, speaking: Mapping[str, Collection[str]] | None = None) -> None:
        self._wiring.now = max(self._wiring.now, now)
        for name, node in self._wiring.sources.items():
            # Who is about to deliver is not silent: what it brings is judged by what it has said before.
            self._arrive(node.beat(self._wiring.now, (speaking or {}).get(name, ())))

    def _arrive(self, arrivals: Arrivals) -> None:
        try:
            for port, element in arrivals:
                self._wiring.arrive(port, element)
        except PenstockError as error:
            raise error.located(network=self._wiring.network.name) from error.__cause__

    def _told(
        self, box: Box, rule: str, done: Outcome, tsm: Mapping[str, str] | None = None, waits: tuple[str, ...] = ()
    ) -> Step:
        """Pass on what a box has given, and tell what happened."""
        for port, element in done.gave:
            self._produced.update(self._wiring.put(Port(box, port), element))
        gave = tuple((Port(box, port).name, element.text(box.schema(port))) for port, element in done.gave)
        took, source = None, None
        if done.took is not None and done.slot is not None:
            took, source = done.took.text(box.inputs[done.slot].schema), input_names(box)[done.slot]
        return Step(self._steps, box.name, rule, took, source, gave, tsm or {}, self.queues(), waits)

    def _texts(self, node: Node, registers: list[int]) -> dict[str, str]:
        """TSM registers as people read them; there are none but those of merges and joins."""
        names = input_names(node.box)
        words = {BEGINNING: "-", END: "end"}
        return {
            name: words.get(register) or tick_text(register, _kind(buffer))
            for name, register, buffer in zip(names, registers, node.inputs, strict=False)
        }

    def _source(self, name: str) -> SourceNode:
        if name not in self._wiring.sources:
            raise QueryError(
                f"there is no input '{name}'",
                network=self._wiring.network.name,
                expected=f"one of {', '.join(self._wiring.sources)}",
            )
        return self._wiring.sources[name]


def _kind(buffer: Buffer) -> pa.DataType:
    return buffer.arc.port.schema.field(buffer.on).type


def _value(tick: int, kind: pa.DataType) -> Any:
    if tick in (BEGINNING, END):
        return math.inf if tick == END else -math.inf
    return from_ticks(pa.array([tick], pa.int64()), kind)[0].as_py()
