"""Streams and their methods: the Python language, which builds the frozen boxes of the algebra.

Everything is bound and typed when the box is built, so a wrong column, a type clash or lost progress is refused at
the line that wrote it, naming the box, what exists and what to do.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.algebra.box import Output, Port
from penstock.algebra.expressions.python_functions import WindowFunction
from penstock.algebra.network import lost_progress
from penstock.algebra.order import Order
from penstock.algebra.ticks import Duration
from penstock.boxes.aggregate.verb import aggregate
from penstock.boxes.bsort.verb import bsort
from penstock.boxes.cleanse.verb import cleanse
from penstock.boxes.dedupe.verb import dedupe
from penstock.boxes.filter.verb import filter_box
from penstock.boxes.join.verb import join
from penstock.boxes.lifetimes import require_temporal
from penstock.boxes.map.verb import map_stream
from penstock.boxes.resample.verb import resample
from penstock.boxes.table_join.verb import join_table
from penstock.boxes.temporal_join.verb import join_temporal
from penstock.boxes.times import downwards, only_progressing, refuse_downwards
from penstock.boxes.top.verb import top
from penstock.connectors.points.keeping import Keep
from penstock.connectors.points.point_target import GRACE
from penstock.connectors.tables.static_table import StaticTable
from penstock.connectors.targets.kept_results import Results, results
from penstock.connectors.targets.target import Target
from penstock.errors import QueryError
from penstock.language.point import point_target, view_box
from penstock.language.side_streams import errors_port, late_port
from penstock.language.temporal_methods import TemporalMethods
from penstock.storage.sizes import Size

if TYPE_CHECKING:
    from penstock.language.builder import Builder


class Stream(TemporalMethods):
    """What flows from one port: the methods add boxes to its network and return their output streams."""

    def __init__(self, builder: Builder, port: Port) -> None:
        self._builder = builder
        self._port = port

    @property
    def schema(self) -> pa.Schema:
        return self._port.schema

    @property
    def progressing(self) -> tuple[str, ...]:
        """The attributes that this stream makes progress on."""
        return self._port.progressing

    def __repr__(self) -> str:
        columns = ", ".join(f"{f.name} {f.type}" for f in self.schema)
        along = ", ".join((*self.progressing, *(f"{attribute} (descending)" for attribute in downwards(self))))
        return f"<stream '{self._port.name}' ({columns}), progress on {along or 'nothing'}>"

    def filter(self, *predicates: str, name: str | None = None) -> tuple[Stream, ...]:
        """Route every tuple to the stream of the first predicate it satisfies; the last stream takes the rest."""
        box = filter_box(self, predicates, name, rest=True)
        return tuple(Stream(self._builder, Port(box, i)) for i in range(len(predicates) + 1))

    def where(self, predicate: str, *, name: str | None = None) -> Stream:
        """Only the tuples that satisfy the predicate."""
        return Stream(self._builder, Port(filter_box(self, (predicate,), name, rest=False)))

    def map(self, *, name: str | None = None, **outputs: str) -> Stream:
        """A stream of new tuples: every attribute is an SQL expression of the old one."""
        return map_stream(self, outputs, name)

    def aggregate(
        self,
        outputs: Mapping[str, str | WindowFunction] | WindowFunction,
        *,
        size: Duration,
        on: str | None = None,
        advance: Duration | None = None,
        by: Sequence[str] | str = (),
        assuming: Order | None = None,
        timeout: str | dt.timedelta | None = None,
        origin: str = "epoch",
        emit: str = "final",
        partial: bool = False,
        flush: str | None = None,
        table: int | None = None,
        every: int | None = None,
        delay: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """Aggregates over the windows `[start, start + size)` of `on`, for each group of `by`.

        A result has the start of its window under the name of `on`, the attributes of `by` (one or several), and the
        `outputs`: SQL aggregates such as 'count(*)' and Python functions (`pk.window_function`) by name, or one such
        function that returns several attributes. Results leave once. A window without tuples has none.

        `on` may be left out if the stream makes progress on one attribute only. With `on=pk.TUPLE_NUMBER` windows are
        of `size` tuples, in order of arrival in each group; they are full or do not leave, unless `partial=True` lets
        the rest go at the end of the input.

        Windows start at every multiple of `advance` (of `size` without it; tuple numbers start at 1). With
        `origin="first"` they start at the first value of their group and every `advance` from there, and the origin of
        every group is kept for good: the smallest value; of an attribute that decreases, the largest, and windows go
        down. An `advance` that is a predicate opens a window at the value of each tuple for which it holds, one for
        each such value and group.

        A window leaves when the low-water mark of the stream has reached its end. `assuming=pk.order(on, slack, by)`
        deduces that from arrival instead, and needs no progress: when more than `slack` tuples of the order's group
        are beyond it. The order's `by` must be among those of the windows. A tuple with more than `slack` larger ones
        of its group before it is out of order, and goes to the late stream, `late()`; so does one without a value.

        With `emit="speculative"` results leave early, in every batch, as a temporal stream: events of windows and
        groups, valid while the window lasts. New tuples that change a result remove its event and insert another.

        With a `timeout` such as "5 seconds" a window leaves early when its first tuple in the group has arrived that
        long ago. Tuples that come later, and belong to no other window that is open, go to the late stream.

        With `flush` the aggregate has a low level with a table of `table` entries in every bucket (65,536), which lives
        across batches, and spreads the work of window ends: entries of complete windows leave "at-once"; "slow", one
        for `every` tuples that arrive (160); "lazy", when another group takes their place; or "in-order", slow (1)
        but all before one of a later window. Slow and lazy may delay a result by up to `delay` windows (2). Final
        results are the same. Outputs that keep values whole, such as a median, are refused.

        `name` names the box.
        """
        return aggregate(
            self,
            outputs,
            on=on,
            size=size,
            advance=advance,
            by=by,
            assuming=assuming,
            timeout=timeout,
            origin=origin,
            emit=emit,
            partial=partial,
            flush=flush,
            table=table,
            every=every,
            delay=delay,
            name=name,
        )

    def bsort(
        self, *, on: str | None = None, slack: int, by: Sequence[str] | str = (), name: str | None = None
    ) -> Stream:
        """The same tuples, sorted on `on` as far as a buffer of `slack` + 1 tuples for each group of `by` can.

        `on` is an integer, date or timestamp attribute; without it, the one that the stream makes progress on. Each
        arrival that fills the buffer of its group lets the tuple with the smallest value go, the earliest of equal
        ones; NULL is the smallest. At the end of the input the buffers leave. `by` is one attribute or several, and
        `name` names the box. No tuple is lost; how well the result is sorted depends on the order of arrival.
        """
        return bsort(self, on=on, slack=slack, by=by, name=name)

    def cleanse(self, *, on: str | None = None, by: Sequence[str] | str = (), name: str | None = None) -> Stream:
        """The same tuples in order of `on` (in each group of `by`): they leave when the low-water mark reaches them.

        `on` is an attribute that the stream makes progress on, and may be left out if there is only one. Tuples with
        equal values leave as they arrived. With `by`, one attribute or several, groups are sorted each on its own and
        share out the work. `name` names the box.
        """
        return cleanse(self, on=on, by=by, name=name)

    def dedupe(
        self, *, by: Sequence[str] | str | None = None, on: str | None = None, name: str | None = None
    ) -> Stream:
        """Only the first of all tuples that agree in `on` and `by` (in all attributes, unless `by` is given).

        It passes as soon as it arrives. `on` is an attribute that the stream makes progress on, and may be left out if
        there is only one: a tuple is remembered until the low-water mark has passed its value. `by` is one attribute
        or several, or `()` for none; NULLs are equal to each other. `name` names the box.
        """
        return dedupe(self, by=by, on=on, name=name)

    def join(
        self,
        other: Stream | StaticTable,
        predicate: str | None = None,
        *,
        on: tuple[str, str] | str | None = None,
        size: Duration | None = None,
        band: tuple[Duration, Duration] | None = None,
        how: str = "inner",
        names: tuple[str, str] = ("l", "r"),
        progress: str = "pair",
        assuming: tuple[Order | None, Order | None] | None = None,
        name: str | None = None,
    ) -> Stream:
        """Pairs of tuples of two streams that are near each other in time, and for which the predicate holds.

        In the predicate this stream is `l` and the other is `r`, or what `names` calls them: 'l.k = r.k'. Columns whose
        names collide come out as `l_k` and `r_k`, the others keep their names. `name` names the box.

        `on` says by which progressing attribute of each stream time is measured, ("A", "B") or one name for both; it
        may be left out where each stream has only one. `size` is the largest distance between the two, in either
        direction; `band=(before, after)` means `l.A - before <= r.B <= l.A + after`, where one of them may be negative.
        Neither is needed where the predicate says l.A = r.B.

        `how` is "inner"; "left", "right" or "full", where tuples of that side that find no partner leave with NULLs
        once none can come any more; "semi", tuples of this stream at their first partner, as they came; or "anti",
        those that find none.

        `progress` says on what the results make progress: "pair", both attributes; "left" or "right", one of them;
        "min" or "max", an added attribute with the smaller or greater of the two, named like both if they share a name.
        An attribute that may be NULL makes no progress. `assuming` is how each stream is expected to arrive, a pair of
        `pk.order(...)` or None: tuples that are out of order go to the late streams of the boxes `<name>.left` and
        `<name>.right`.

        With a table (`pk.table(...)`) in place of the other stream, `how` is "inner", "left", "semi" or "anti", and
        there is no window: `on`, `size`, `band`, `progress` and `assuming` are left out.

        Events of two temporal streams are paired while both are valid; pairs are revised as the events are. `how` is
        "inner", and there is no window. Elements that adjust what is not there go to `errors()`.
        """
        window = {"on": on, "size": size, "band": band, "assuming": assuming}
        window["progress"] = None if progress == "pair" else progress
        if isinstance(other, Stream) and (self._port.temporal or other._port.temporal):
            return join_temporal(self, other, predicate, window=window, how=how, names=names, name=name)
        if isinstance(other, StaticTable):
            return join_table(self, other, predicate, window=window, how=how, names=names, name=name)
        return join(
            self,
            other,
            predicate,
            on=on,
            size=size,
            band=band,
            how=how,
            names=names,
            progress=progress,
            assuming=assuming,
            name=name,
        )

    def resample(
        self,
        other: Stream,
        outputs: Mapping[str, str],
        *,
        size: Duration,
        on: tuple[str, str] | str | None = None,
        by: Sequence[str] | str = (),
        assuming: Order | None = None,
        name: str | None = None,
    ) -> Stream:
        """For every tuple of this stream, values interpolated from the tuples of `other` that are near it in time.

        Each tuple t of this stream gets one result for every group of `by`, attributes of `other`, that has tuples u
        with `|t.A - u.B| <= size`: the group, A, and the `outputs`. These are SQL aggregates over those tuples, as in
        `aggregate`. Columns of `other` go by their names (or `r.x`), those of t as `l.x`, so that weights can depend
        on the distance: "sum(pos / (1.0 + abs(l.ts - r.ts))) / sum(1 / (1.0 + abs(l.ts - r.ts)))".

        `on` names A, of this stream, and B, of the other: ("A", "B") or one name for both. It may be left out where
        each stream makes progress on only one. `name` names the box.

        A result leaves once, when its window is complete: when the low-water mark of `other` has passed `A + size`.
        With `assuming`, `pk.order(B, slack, by)` with the same `by`, also when the group's own tuples show it:
        more than `slack` of them are beyond `A + size`. Results then leave in the order in which they are complete,
        and tuples further out of order than `slack` go to the late stream. Then B need not progress, but tuples of this
        stream are kept until the end of `other` if it does not.
        """
        return resample(self, other, outputs, on=on, size=size, by=by, assuming=assuming, name=name)

    def top(
        self,
        n: int,
        *,
        by: str,
        size: Duration,
        on: str | None = None,
        advance: Duration | None = None,
        groups: Sequence[str] | str = (),
        ascending: bool = False,
        name: str | None = None,
    ) -> Stream:
        """The `n` tuples with the largest value of `by`, in the windows `[start, start + size)` of `on` and each group.

        `by` is an SQL expression; with `ascending=True` the smallest are wanted. Of equal ones the tuple with the
        smaller `on` comes first, then the one that arrived first. Tuples without a value come last in either case.

        A result is a tuple as it was, behind the start of its window (`window`) and its place in it (`rank`, from 1).
        Windows start at every multiple of `advance` (of `size` without it); results leave once, when the low-water
        mark of the stream has reached the end of their window. `on` may be left out if the stream makes progress on
        one attribute only. `groups` is one attribute or several. `name` names the box.
        """
        return top(self, n, by=by, size=size, on=on, advance=advance, groups=groups, ascending=ascending, name=name)

    def output(self, name: str, to: Target | None = None, *, keep: Size | None = None) -> Stream:
        """Let the stream leave the network under this name; without `to` its tuples are kept for reading: the newest
        `keep` bytes of them, such as "1 GB", if that is given."""
        with self._builder._building(name):
            if to is not None and keep is not None:
                raise QueryError("keep= is for tuples that are kept as results", found="to= beside keep=")
            if to is not None and to.revises:
                require_temporal(self._port, "pk.current(...)")
            kept = Results() if keep is None else results(keep)
            self._builder._add(Output(name, (self._port,), to if to is not None else kept))
            return self

    def connection_point(
        self,
        name: str,
        *,
        keep: Keep | Duration | None = None,
        key: Sequence[str] | str = (),
        path: str | None = None,
        grace: str = GRACE,
    ) -> Stream:
        """Remember what passes here, in a Delta table; the stream goes on as it was.

        The table is `<checkpoint>/points/<name>`, or at `path`. `pk.connection_point(place)` reads it as an input: the
        same tuples in the same order, with their QoS timestamps and punctuation.

        `keep` is how much is kept: a time such as "2 hours" behind the low-water mark, a number of rows, bytes such as
        "10 GB", or `pk.keep(...)`; everything without it. `key` is the storage key: one attribute or several by which
        tuples lie together, so that who looks for few values reads little. Files that have left are deleted
        after `grace`: who reads the point may be that far behind.
        """
        with self._builder._building(name):
            self._builder._add(Output(name, (self._port,), point_target(self._port, name, keep, key, path, grace)))
            return self

    def view(
        self,
        name: str,
        *,
        materialize: str = "all",
        keep: Keep | Duration | None = None,
        key: Sequence[str] | str = (),
        path: str | None = None,
    ) -> Stream:
        """Name what flows here for those who may want it later: `run.read(name)`, `run.attach(..., at=name)`.

        With `materialize="all"` results are computed and kept; with "some" the last of them, as much as `keep` says;
        with "none" nothing is computed until somebody asks, and then from what connection points before it hold.
        `key` and `path` are those of `connection_point`. The stream goes on as it was.
        """
        with self._builder._building(name):
            self._builder._add(view_box(self._port, name, materialize, keep, key, path))
            return self

    def late(self) -> Stream:
        """The tuples that came too late: for an input, or for a box that is defined on arrival order."""
        return Stream(self._builder, late_port(self._port.box, self._builder.name))

    def errors(self) -> Stream:
        """What an input could not take as tuples, or a map that computes times or an lmerge has refused, and why."""
        return Stream(self._builder, errors_port(self._port.box, self._builder.name))

    def only_progressing(self) -> str:
        """The one attribute that this stream makes progress on; refused where there are several or none."""
        return only_progressing((self,), "the windows are on")

    def require_progress(self, attribute: str, what: str, fate: str = "never close") -> None:
        """Refuse an attribute on which the stream makes no progress, and say which box lost it."""
        if attribute in self.progressing:
            return
        refuse_downwards(self, attribute, what)
        box = lost_progress(self._port, attribute)
        lost = f"; box '{box.name}' ({box.describe()}) lost it" if box is not None else ""
        raise QueryError(
            f"{what} on '{attribute}' would {fate}: the stream makes no progress on it{lost}",
            expected=f"one of {', '.join(self.progressing)}" if self.progressing else "an attribute that progresses",
            found=f"'{attribute}' of stream '{self._port.name}'",
            hint="keep the progressing attribute, or compute it with a monotone expression such as ts / 60 or "
            "date_trunc('minute', ts)",
        )
