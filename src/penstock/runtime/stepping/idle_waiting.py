"""Boxes that take their inputs in order of time, and so may have to wait: merges, cleanses and joins (ets.md 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.algebra.box import Stateful
from penstock.algebra.hidden import ARRIVED, SEQ
from penstock.algebra.marks import Marks, most
from penstock.algebra.ticks import END
from penstock.runtime.stepping.elements import Buffer, Element, numbered
from penstock.runtime.stepping.nodes import Holding, Outcome, Place


class IdleWaiting(Holding):
    """A box that takes its inputs in order of time, and so may have to wait: TSM registers and rules of ets.md 4."""

    def __init__(
        self, box: Stateful, inputs: Sequence[Buffer], place: Place, assured: Callable[[int], int], relaxed: bool
    ) -> None:
        super().__init__(box, inputs, place)
        self._assured = assured
        """What an input is known to have reached without having said so: latent timestamps are the clock's."""
        self._relaxed = relaxed

    def registers(self) -> list[int]:
        return [buffer.register(self._assured(slot)) for slot, buffer in enumerate(self.inputs)]

    def next_input(self) -> int | None:
        """What is at the smallest register goes, tuples first."""
        if not self._relaxed and self._empty():
            return None
        tau = min(self.registers())
        at_tau = [slot for slot, buffer in enumerate(self.inputs) if buffer.head() == tau]
        return next((s for s in at_tau if not self.inputs[s].elements[0].is_punctuation), next(iter(at_tau), None))

    def blocked(self) -> list[int]:
        if not self._relaxed and self._empty():
            return self._empty()
        registers = self.registers()
        tau = min(registers)
        return [s for s, buffer in enumerate(self.inputs) if registers[s] == tau and buffer.head() != tau]

    def _empty(self) -> list[int]:
        """The inputs that have nothing, and have not ended: nobody waits for more of one that has."""
        registers = self.registers()
        return [s for s, buffer in enumerate(self.inputs) if not buffer.elements and registers[s] != END]

    def unmet(self) -> list[tuple[int, str, int]]:
        """All inputs must reach the smallest tuple that waits."""
        waiting = [b.tuples()[0].tick(str(b.on)) for b in self.inputs if b.tuples()]
        if not waiting:
            return []
        least = min(waiting)
        return [(s, str(self.inputs[s].on), least) for s, mark in enumerate(self.registers()) if mark < least]

    def held(self) -> int:
        return super().held() + sum(len(buffer.tuples()) for buffer in self.inputs)

    def execute(self, now: int) -> Outcome:
        slot = self.next_input()
        if slot is None:
            return Outcome()
        registers = self.registers()
        element = self.inputs[slot].take()
        for number, (buffer, register) in enumerate(zip(self.inputs, registers, strict=True)):
            # Marks of other attributes speak of the whole stream, and part of it is still in the buffer.
            said = Marks({str(buffer.on): register}, ended=register == END)
            self.marks[number] = most([self.marks[number], said])
        return Outcome(slot, element, self._deliver(slot, element, min(registers), now))

    def _deliver(self, slot: int, element: Element, tau: int, now: int) -> list[tuple[int, Element]]:
        """The window join: the tuple meets the window of the other side and joins its own; or punctuation passes."""
        return self._advance(slot, element, now)


class Merging(IdleWaiting):
    """The order-preserving union: what is at the smallest register goes through."""

    def _deliver(self, slot: int, element: Element, tau: int, now: int) -> list[tuple[int, Element]]:
        marks = self.box.progress(0, self.marks).with_rising({**self._others(tau), str(self.inputs[0].on): tau})
        if element.tuple is None:
            return self._leave(0, [], marks, element.stamp)
        needed = self._place.needed[0]
        columns = [name for name in self.box.schema(0).names if name in needed]
        row = numbered(element.tuple.select([*columns, ARRIVED]), self._place.sequence(), SEQ in needed)
        return self._leave(0, [row], marks, element.stamp)

    def _others(self, tau: int) -> dict[str, int]:
        """The marks of other attributes, held back by what is still in the buffers."""
        on, shared = self.inputs[0].on, set.intersection(*(set(port.progressing) for port in self.box.inputs))
        if tau == END:
            return {}
        waiting = [e for buffer in self.inputs for e in buffer.tuples()]
        return {
            a: min(*(b.marks.of(a) for b in self.inputs), *(e.tick(a) for e in waiting), END) for a in shared - {on}
        }
