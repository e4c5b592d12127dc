"""Which tuples are of no use any more: what merges and readers elsewhere need goes upstream, box by box, to the inputs.

```
 inputs <── the rule of every box, downstream first (Box.useful_from) <── how far merges are, what readers have said
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.box import Box, End, Port, Stateful
from penstock.algebra.floors import NO_FLOORS, Floors, lowest
from penstock.algebra.marks import UNKNOWN, Marks
from penstock.algebra.network import Network
from penstock.algebra.source import Source
from penstock.algebra.ticks import BEGINNING, to_ticks


@dataclass(frozen=True)
class NetworkFloors:
    """The floors of a network, where there are any."""

    inputs: Mapping[str, Floors] = field(default_factory=dict)
    boxes: Mapping[str, Sequence[Floors]] = field(default_factory=dict)
    """By box, for each stream that enters it."""


def floors_of(network: Network, marks: Mapping[str, Marks], heard: Mapping[str, Floors] | None = None) -> NetworkFloors:
    """The floors of inputs and boxes, by the marks of all ports, and by what readers of outputs have said."""
    readers: dict[str, list[Floors | None]] = {}
    inputs: dict[str, Floors] = {}
    boxes: list[tuple[Box, Sequence[Floors]]] = []
    for box in reversed(network.boxes):
        ports = [Port(box, index) for index in range(len(box.ports))]
        behind = [lowest(readers.get(port.name, ())) for port in ports]
        if isinstance(box, Source) and behind[0]:
            rising = {track.attribute for track in box.tracks if not track.descending}
            inputs[box.name] = _known({name: tick for name, tick in behind[0].items() if name in rising})
        reached = [marks.get(port.name, UNKNOWN) for port in ports]
        entering: list[Floors] = []
        for slot, port in enumerate(box.inputs):
            if isinstance(box, End):
                told: Floors | None = (heard or {}).get(box.name, NO_FLOORS)
            else:
                told = box.useful_from(slot, behind, reached)
            readers.setdefault(port.name, []).append(told)
            entering.append(_known(told or NO_FLOORS))
        # Of an output with the name of a box nothing is said: it takes what comes.
        if not isinstance(box, End) and any(entering):
            boxes.append((box, tuple(entering)))
    found = {name: floors for name, floors in inputs.items() if floors}
    return NetworkFloors(found, {box.name: each for box, each in boxes if not _seen_to(box, each, found)})


def floors_of_inputs(
    network: Network, marks: Mapping[str, Marks], heard: Mapping[str, Floors] | None = None
) -> Mapping[str, Floors]:
    """The floors of the inputs that have any."""
    return floors_of(network, marks, heard).inputs


def _known(floors: Floors) -> Floors:
    return {name: tick for name, tick in floors.items() if tick > BEGINNING}


def _seen_to(box: Box, floors: Sequence[Floors], inputs: Mapping[str, Floors]) -> bool:
    """Whether a box has nothing to do for its floors: it keeps no state, and inputs with the same are before it."""
    return not isinstance(box, Stateful) and list(floors) == [inputs.get(port.box.name) for port in box.inputs]


def only_useful(tuples: pa.Table, floors: Floors) -> pa.Table:
    """The tuples that are not below floors. One that has no such time may be of use."""
    for name, floor in floors.items():
        if tuples.num_rows:
            ticks = to_ticks(tuples.column(name), wrap=True)
            lowest_tick = pc.min(ticks).as_py()
            if lowest_tick is not None and lowest_tick < floor:
                tuples = tuples.filter(pc.fill_null(pc.greater_equal(ticks, floor), True))
    return tuples
