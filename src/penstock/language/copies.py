"""Copies of a stream that join an LMerge of a network while it runs, and leave it again (lmerge.md V-B).

```
 left  ─┐                        left  ─┐
        ├─> lmerge 'merged'  ──> right ─┼─> lmerge 'merged': the same box, which goes on with its state
 right ─┘                        third ─┘
```
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.algebra.box import Box, End, Port
from penstock.algebra.naming import did_you_mean
from penstock.algebra.network import Attached, Network
from penstock.algebra.ticks import tick_of, tick_text
from penstock.boxes.lmerge.box import LMerge
from penstock.boxes.lmerge.cases import MEANINGS, carries
from penstock.boxes.requirements import require_name
from penstock.errors import QueryError
from penstock.language.builder import Builder
from penstock.language.stream import Stream

Copy = Callable[..., object]
"""It takes the network, adds an input to it, and returns the stream that is another copy."""
Moment = int | str | dt.datetime | dt.date


@dataclass(frozen=True)
class CopyOrder:
    """What somebody asks for who lets a copy join."""

    copy: Copy
    to: str
    name: str
    from_time: Moment | None = None

    def __post_init__(self) -> None:
        require_name(self.name)
        if not callable(self.copy):
            raise QueryError(f"{self.copy!r} is no copy", expected="a function from a network to a stream")


def join(network: Network, order: CopyOrder) -> Network:
    """A network in which one more copy has joined an LMerge."""
    if any(known.name == order.name for known in network.attached):
        raise QueryError(
            f"'{order.name}' is attached already", network=network.name, hint="detach it, or choose another name"
        )
    merge = merge_named(network, order.to)
    builder = Builder(network.name)
    builder._boxes.extend(network.boxes)
    stream = order.copy(builder)
    fresh = builder._boxes[len(network.boxes) :]
    if not isinstance(stream, Stream) or stream._builder is not builder or any(isinstance(b, End) for b in fresh):
        raise QueryError(
            f"the copy '{order.name}' is no stream of the network",
            network=network.name,
            expected="a function that takes the network, adds an input and returns its stream, without outputs",
            found=type(stream).__name__,
        )
    if not fresh:
        raise QueryError(f"the copy '{order.name}' has no input of its own", network=network.name)
    since: tuple[tuple[str, int], ...] = ()
    text = "beginning"
    if order.from_time is not None:
        tick = tick_of(order.from_time, merge.time_type)
        since, text = ((stream._port.name, tick),), tick_text(tick, merge.time_type)
    told = Attached(order.name, (), text, 1.0, tuple(box.name for box in fresh), (), order.to)
    return _joined(network, told, fresh, stream._port, since)


def leave(network: Network, known: Attached, stable: int) -> Network:
    """A network without a copy that had joined. `stable` is how far the output of the LMerge is stable."""
    merge = merge_named(network, known.to)
    staying = [at for at, port in enumerate(merge.inputs) if port.box.name not in known.boxes]
    names = tuple(merge.input_names[at] for at in staying)
    rest = replace(
        merge,
        inputs=tuple(merge.inputs[at] for at in staying),
        copies=names,
        joining=tuple(each for each in merge.joining if each[0] in names),
    )
    if not rest.joined(stable):
        raise QueryError(
            f"'{known.name}' is the last copy of '{merge.name}' that has all events",
            network=network.name,
            expected="another one that has joined",
            found=f"{', '.join(names) or 'no other copy'}",
            hint="wait until the output has come to the time from which on another copy is complete",
        )
    boxes = tuple(box for box in network.boxes if box.name not in known.boxes or isinstance(box, End))
    others = tuple(each for each in network.attached if each is not known)
    return Network(network.name, _rewired(boxes, {merge.name: rest}), attached=others)


def rejoin(network: Network, known: Attached, before: Network, stable: int) -> Network:
    """A network in which a copy has joined as it had in an earlier version; the network as it is, if it declares this
    copy itself. `stable` is how far the output of the LMerge is stable."""
    fresh = [box for box in before.boxes if box.name in known.boxes and not isinstance(box, End)]
    earlier = merge_named(before, known.to)
    (port,) = (port for port in earlier.inputs if port.box.name in known.boxes)
    since = tuple(each for each in earlier.joining if each[0] == port.name)
    if port.name in merge_named(network, known.to).input_names:
        if any(tick > stable for _, tick in since):
            raise QueryError(
                f"the copy '{known.name}' has not joined '{known.to}' yet, and the network declares it already",
                network=network.name,
                expected=f"an output of '{known.to}' that has come to {known.since}",
                hint="wait until the output has come to the time from which on the copy is complete",
            )
        return network
    taken = {box.name for box in network.boxes}
    if taken & {*known.boxes}:
        raise QueryError(
            f"the copy '{known.name}' has joined '{known.to}', and the network has a box of that name of its own",
            network=network.name,
            found=", ".join(sorted(taken & {*known.boxes})),
            hint=f"give it another name, or detach the copy first: run.detach('{known.name}')",
        )
    return _joined(network, known, fresh, port, since)


def merge_named(network: Network, name: str) -> LMerge:
    """The LMerge of a name."""
    found = {box.name: box for box in network.boxes if isinstance(box, LMerge)}
    if name not in found:
        raise QueryError(
            f"there is no lmerge '{name}'",
            network=network.name,
            found=", ".join(found) or "no lmerge at all",
            hint=did_you_mean(name, list(found)),
        )
    return found[name]


def _joined(
    network: Network, told: Attached, fresh: Sequence[Box], port: Port, since: tuple[tuple[str, int], ...]
) -> Network:
    merge = merge_named(network, told.to)
    larger = replace(
        merge,
        inputs=(*merge.inputs, port),
        copies=(*merge.input_names, port.name),
        joining=(*merge.joining, *since),
    )
    if not merge.declared and not carries(larger.known, merge.case):
        raise QueryError(
            f"'{told.name}' promises too little for the lmerge '{merge.name}'",
            network=network.name,
            expected=MEANINGS[merge.case],
            found=port.properties.words(),
            hint=f"let the input promise it, or declare the lmerge with case='{merge.case}': then it is checked",
        )
    at = next(at for at, box in enumerate(network.boxes) if box.name == merge.name and not isinstance(box, End))
    boxes = (*network.boxes[:at], *fresh, *network.boxes[at:])
    return Network(network.name, _rewired(boxes, {merge.name: larger}), attached=(*network.attached, told))


def _rewired(boxes: Sequence[Box], changed: Mapping[str, Box]) -> tuple[Box, ...]:
    """Boxes in topological order, with some of them changed, and all behind these reading the changed ones."""
    now: dict[str, Box] = {}
    found = []
    for box in boxes:
        mine = box if isinstance(box, End) else changed.get(box.name, box)
        inputs = tuple(Port(now[port.box.name], port.index) for port in mine.inputs)
        if any(new.box is not port.box for new, port in zip(inputs, mine.inputs, strict=True)):
            mine = replace(mine, inputs=inputs)
        found.append(mine)
        if not isinstance(mine, End):
            now[mine.name] = mine
    return tuple(found)
