"""The methods of streams that lead to temporal streams and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.algebra.ticks import Duration
from penstock.boxes.as_facts.verb import as_facts
from penstock.boxes.as_open_close.verb import as_open_close
from penstock.boxes.as_temporal.verb import as_temporal

if TYPE_CHECKING:
    from penstock.language.stream import Stream


class TemporalMethods:
    """A part of `Stream`."""

    def as_temporal(self, *, start: str | None = None, end: Duration | None = None, name: str | None = None) -> Stream:
        """A temporal stream: every tuple is an event that is inserted once.

        `start` is an attribute that the stream makes progress on, and may be left out if there is only one; it becomes
        `vs`. `end` is when events end: a length such as "1 minute" (a number, if `start` is one), or an SQL expression;
        without it they have no end. An `end` that is a column becomes `ve`. All other columns are the payload.
        """
        return as_temporal(cast("Stream", self), start=start, end=end, name=name)

    def as_facts(self, *, name: str | None = None) -> Stream:
        """An ordinary stream of the events of a temporal one: each leaves once, with `vs`, `ve` and its payload.

        It leaves when it is fully frozen, so that nothing can change it any more; when the stream ends, those leave
        that have no end. The stream makes progress on `vs`: an event that is still open holds it back.
        """
        return as_facts(cast("Stream", self), name)

    def as_open_close(self, *, name: str | None = None) -> Stream:
        """An ordinary stream of what begins and ends: rows of kind "open" and "close", their time `at`, the payload.

        An insert opens an event, and closes it if it has an end. An adjust closes it once more: at its start, if it is
        removed; at NULL, if it shall have no end. The stream makes progress on `sync`. It says the same as the temporal
        one if there is one event of a payload at a time; `pk.temporal(..., form="open-close")` reads it.
        """
        return as_open_close(cast("Stream", self), name)
