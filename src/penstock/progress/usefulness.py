"""Which tuples are of no use any more: what merges and readers elsewhere need goes upstream, to the inputs.

```
 inputs <── the rule of every box, downstream first (Box.useful_from) <── how far merges are, what readers have said
```
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.box import End, Port
from penstock.algebra.floors import NO_FLOORS, Floors, lowest
from penstock.algebra.marks import UNKNOWN, Marks
from penstock.algebra.network import Network
from penstock.algebra.source import Source
from penstock.algebra.ticks import BEGINNING


def floors_of_inputs(
    network: Network, marks: Mapping[str, Marks], heard: Mapping[str, Floors] | None = None
) -> dict[str, Floors]:
    """The floors of the inputs that have any, by the marks of all ports, and by what readers of outputs have said."""
    readers: dict[str, list[Floors | None]] = {}
    found: dict[str, Floors] = {}
    for box in reversed(network.boxes):
        ports = [Port(box, index) for index in range(len(box.ports))]
        behind = [lowest(readers.get(port.name, ())) for port in ports]
        if isinstance(box, Source) and behind[0]:
            rising = {track.attribute for track in box.tracks if not track.descending}
            floors = {name: tick for name, tick in behind[0].items() if name in rising and tick > BEGINNING}
            found |= {box.name: floors} if floors else {}
        reached = [marks.get(port.name, UNKNOWN) for port in ports]
        for slot, port in enumerate(box.inputs):
            if isinstance(box, End):
                told: Floors | None = (heard or {}).get(box.name, NO_FLOORS)
            else:
                told = box.useful_from(slot, behind, reached)
            readers.setdefault(port.name, []).append(told)
    return found


def only_useful(source: Source, tuples: pa.Table, floors: Floors) -> pa.Table:
    """The tuples of an input that are not below its floors."""
    for track in source.tracks:
        if track.attribute in floors and tuples.num_rows:
            ticks, floor = track.ticks(tuples.column(track.attribute)), floors[track.attribute]
            if pc.min(ticks).as_py() < floor:
                tuples = tuples.filter(pc.greater_equal(ticks, floor))
    return tuples
