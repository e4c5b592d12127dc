"""LMerge, as the Python language builds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.algebra.temporal.elements import SYNC
from penstock.boxes.lmerge.box import LMerge, known_of
from penstock.boxes.lmerge.cases import MEANINGS, simplest
from penstock.boxes.lmerge.policy import DEFAULT, MergePolicy, merge_policy
from penstock.boxes.requirements import refuse_different
from penstock.boxes.times import only_progressing, require_time
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def lmerge(
    *streams: Stream,
    on: str | None = None,
    case: str | None = None,
    policy: MergePolicy | str | None = None,
    feedback: bool = False,
    name: str | None = None,
) -> Stream:
    """Copies of one stream as one stream, complete and without duplicates, as far as the furthest of them.

    The copies may be in any order, revise their events in other ways, and be behind each other. They are all temporal,
    or all ordinary: then an event is a tuple, begins at the attribute `on` that all make progress on, and never ends.
    `case` is "R0" to "R4" or "R3-"; without it the simplest is taken that what is known of the inputs allows. A case
    that is given is a promise: elements that break it leave by `errors()`. `policy` is `pk.merge_policy(...)`, or just
    when to insert, such as "eager". With `feedback` the inputs of the network leave out what is of no use to it any
    more, before any box sees it.
    """
    if not streams:
        raise QueryError("a logical merge needs one stream at least", hint="others may join it later")
    builder = streams[0]._builder
    label = builder._fresh("lmerge", name)
    with builder._building(label):
        if any(s._builder is not builder for s in streams):
            raise QueryError("the streams of an lmerge belong to different networks")
        if case is not None and case not in MEANINGS:
            raise QueryError(f"case={case!r} is unknown", expected=f"one of {', '.join(MEANINGS)}")
        if isinstance(policy, str):
            policy = merge_policy(insert=policy)
        if policy is not None and not isinstance(policy, MergePolicy):
            raise QueryError(f"{policy!r} is no policy of an lmerge", expected="pk.merge_policy(...)")
        ports = tuple(s._port for s in streams)
        refuse_different(ports, "logical merge")
        temporal = all(port.temporal for port in ports)
        if temporal and on not in (None, SYNC):
            raise QueryError("temporal streams are merged on their own time", found=f"on={on!r}", hint="leave on= out")
        attribute = SYNC if temporal else on if on is not None else only_progressing(streams, "to merge on")
        require_time(streams[0], attribute)
        for stream in streams:
            stream.require_progress(attribute, "an lmerge", "never let go of what it holds")
        told = policy or DEFAULT
        chosen = case or simplest(known_of(ports, attribute), at_once=told.at_once)
        names = tuple(port.name for port in ports)
        return builder._add(LMerge(label, ports, attribute, chosen, case is not None, told, names, feedback=feedback))
