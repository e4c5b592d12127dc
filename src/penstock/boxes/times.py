"""The attribute that a box takes for its time: given or the only one, and there; if not, which box left it out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.algebra.box import Box, Port
from penstock.algebra.expressions.kernel import quote
from penstock.algebra.naming import did_you_mean
from penstock.errors import QueryError

if TYPE_CHECKING:
    from penstock.language.stream import Stream


def only_progressing(streams: Sequence[Stream], what: str) -> str:
    """The one attribute that all streams make progress on; refused where there are several or none."""
    common = [a for a in streams[0].progressing if all(a in s.progressing for s in streams)]
    if len(common) == 1:
        return common[0]
    every = " in all streams" if len(streams) > 1 else ""
    falling = [a for a in downwards(streams[0]) if all(a in downwards(s) for s in streams)]
    if falling and not common:
        raise QueryError(
            f"no attribute {what}: '{falling[0]}' progresses downwards, and one that grows is needed",
            found=f"progress downwards on {', '.join(falling)}{every}",
            hint=turning_hint(falling[0]),
        )
    raise QueryError(
        f"say which attribute {what}",
        found=f"progress on {', '.join(common) or 'nothing'}{every}",
        hint=next((hint for s in streams if (hint := left_out(s)) is not None), "give on="),
    )


def require_time(stream: Stream, attribute: str) -> None:
    """Refuse an attribute that is no column of a stream, and say which box left it out."""
    names = stream.schema.names
    if not isinstance(attribute, str) or attribute not in names:
        raise QueryError(
            f"unknown column {attribute!r}",
            expected=f"one of {', '.join(names)}",
            hint=_dropped(stream._port, attribute) or did_you_mean(str(attribute), names),
        )


def left_out(stream: Stream) -> str | None:
    """For a stream that makes no progress at all: what to do about the box that left its time out."""
    port = stream._port
    while not _timed(port) and len(port.box.inputs) == 1:
        before = port.box.inputs[0]
        gone = [name for name in _timed(before) if name not in port.schema.names]
        if gone:
            return _advice(port.box, gone[0])
        port = before
    return None


def _dropped(port: Port, attribute: str) -> str | None:
    """What to do about the box on the way to a port that has left a column out."""
    box = port.box
    if any(attribute in before.schema.names for before in box.inputs) and attribute not in port.schema.names:
        return _advice(box, attribute)
    return next((found for before in box.inputs if (found := _dropped(before, attribute)) is not None), None)


def _advice(box: Box, attribute: str) -> str:
    told = f"box '{box.name}' ({box.describe()}) leaves '{attribute}' out"
    return f"{told}: add {attribute}='{attribute}' to it" if box.kind == "map" else told


def _timed(port: Port) -> tuple[str, ...]:
    return (*port.progressing, *port.shape.falling)


def downwards(stream: Stream) -> list[str]:
    """The attributes on which a stream progresses downwards."""
    return list(stream._port.shape.falling)


def refuse_downwards(stream: Stream, attribute: str, what: str) -> None:
    """Refuse an attribute that decreases, where a box needs one that grows."""
    if attribute in downwards(stream):
        raise QueryError(
            f"{what} needs values that grow, but '{attribute}' progresses downwards",
            found=f"'{attribute}' of stream '{stream._port.name}'",
            hint=turning_hint(attribute),
        )


def turning_hint(attribute: str) -> str:
    """What to do with an attribute that decreases, where another is needed."""
    name = attribute if attribute.isidentifier() else quote(attribute)
    return f"turn it round before, with map(turned='-{name}', ...), and use that"


def decreases(stream: Stream, attribute: str | None) -> str | None:
    """The attribute, if it is one that decreases; without a name, the only one, if nothing else progresses."""
    down = downwards(stream)
    if attribute is None:
        return down[0] if len(down) == 1 and not stream.progressing else None
    return attribute if attribute in down else None
