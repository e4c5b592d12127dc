"""`pk.generator`: network packets made on the spot, the same for everybody who asks with the same seed.

A tuple is a pure function of (seed, link, index): each column of each link has its own counter-based random stream,
drawn in blocks of fixed size. So any task can make any part of the input, in any cut and for any columns, and a replay
gives the same tuples.

Arrival order is index order. Tuple i is due at `i / rate` seconds; its timestamp is that moment, moved back by the skew
of its link and by a random delay of at most `disorder`.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.algebra.ticks import Duration, duration_ticks
from penstock.connectors.connector import Advance, Chunk, Connector, Feed, Journal, Limit, Position, Split, row_bytes
from penstock.connectors.generator.lulls import Lulls, lulls_of
from penstock.errors import InternalError, QueryError

_US: Final = pa.timestamp("us")
_SECOND: Final = 1_000_000
_BLOCK: Final = (
    1 << 16
)  # tuples to a block of the random streams: small enough to stay in cache, large enough to amortise
_SPLIT_ROWS: Final = 1 << 19
_CHUNK_BLOCKS: Final = 4
_DEFAULT_START: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_ONE_LINK: Final = "0"
_SOURCES_NET: Final = 0x0A000000  # 10.0.0.0
_DESTINATIONS_NET: Final = 0xC0A80000  # 192.168.0.0
_WELL_KNOWN_PORTS: Final = np.array([80, 443, 53, 22, 25, 123, 8080, 5060], np.int32)
_EPHEMERAL_PORTS: Final = (49_152, 65_536)
_PACKET_BYTES: Final = (40, 1_501)
# Which random stream a column draws from: numbers are part of the data's definition and never change.
_DELAY, _PAIR, _SOURCE_PORT, _DESTINATION_PORT, _LENGTH = range(5)

_PACKET: Final = (
    ("ts", _US),
    ("srcIP", pa.int64()),
    ("srcPort", pa.int32()),
    ("destIP", pa.int64()),
    ("destPort", pa.int32()),
    ("len", pa.int32()),
)

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Link:
    """One shard of the input: its rate, how far its event time lags behind, when it is silent, and when it ends."""

    name: str
    rate: int
    skew: int
    lulls: Lulls
    rows: int | None

    def due(self, index: Integers) -> Integers:
        """When tuples leave, in microseconds after the start; silences put later tuples off."""
        return self.lulls.delay(index * _SECOND // self.rate)

    def count_until(self, elapsed: int) -> int:
        """How many tuples have left when `elapsed` microseconds have gone by."""
        active = self.lulls.active(elapsed)
        count = max(0, -(-active * self.rate // _SECOND))
        return count if self.rows is None else min(count, self.rows)


@dataclass(frozen=True)
class GeneratorSplit(Split):
    """Tuples `[start, stop)` of a link, whose event time begins at `origin` (microseconds since the epoch)."""

    start: int
    stop: int
    origin: int


@dataclass(frozen=True)
class Generator(Connector):
    """A declared generator of packets."""

    links: tuple[Link, ...]
    groups: int
    disorder: int
    seed: int
    start: int | None
    realtime: bool
    named: bool

    @property
    def bounded(self) -> bool:
        return all(link.rows is not None for link in self.links)

    def schema(self) -> pa.Schema:
        columns = [*_PACKET, ("link", pa.string())] if self.named else list(_PACKET)
        return pa.schema(columns)

    def describe(self) -> str:
        pace = " in real time" if self.realtime else ""
        return f"generator ({len(self.links)} link(s), {sum(link.rate for link in self.links)} tuples/s{pace})"

    def shards(self) -> Sequence[str]:
        return tuple(link.name for link in self.links)

    def open(self, schema: pa.Schema, journal: Journal) -> GeneratorFeed:
        if not schema.equals(self.schema()):
            raise QueryError(
                "a generator makes packets of one schema",
                expected=", ".join(f"{field.name} {field.type}" for field in self.schema()),
                found=", ".join(f"{field.name} {field.type}" for field in schema),
                hint="leave schema= away, and use map() to change columns",
            )
        return GeneratorFeed(self)

    def read(self, split: Split, schema: pa.Schema, columns: Sequence[str]) -> Iterator[Chunk]:
        if not isinstance(split, GeneratorSplit):
            raise InternalError("a split of another connector was given to a generator", found=repr(split))
        number = next(at for at, link in enumerate(self.links) if link.name == split.shard)
        step = _BLOCK * _CHUNK_BLOCKS
        for low in range(split.start - split.start % step, split.stop, step):
            part = _Part(self, number, max(low, split.start), min(low + step, split.stop), split.origin)
            arrays = [part.column(name) for name in columns]
            # A batch of no columns still has its rows: take them from a column that is then left out.
            rows = pa.record_batch([*arrays, pa.nulls(part.stop - part.start)], names=[*columns, ""])
            yield Chunk(rows.select(list(range(len(columns)))))

    def table(self, link: str, start: int, stop: int, clock0: int) -> pa.Table:
        """Tuples `[start, stop)` of a link with all columns."""
        split = GeneratorSplit(link, start, stop - start, start, stop, self.origin(clock0))
        batches = [chunk.tuples for chunk in self.read(split, self.schema(), self.schema().names)]
        return pa.Table.from_batches(batches, self.schema())

    def origin(self, clock0: int) -> int:
        """Where event time begins, in microseconds since the epoch."""
        return clock0 if self.start is None else self.start


@dataclass(frozen=True)
class _Part:
    """Tuples `[start, stop)` of one link, column by column."""

    generator: Generator
    number: int
    start: int
    stop: int
    origin: int

    def column(self, name: str) -> pa.Array:
        if name == "link":
            return pa.repeat(pa.scalar(self.generator.links[self.number].name), self.stop - self.start)
        if name == "ts":
            return pa.array(self._timestamps()).view(_US)
        makers: dict[str, Callable[[], npt.NDArray[Any]]] = {
            "srcIP": self._sources,
            "destIP": self._destinations,
            "srcPort": lambda: self._draw(_SOURCE_PORT, *_EPHEMERAL_PORTS).astype(np.int32),
            "destPort": lambda: _WELL_KNOWN_PORTS[self._draw(_DESTINATION_PORT, 0, len(_WELL_KNOWN_PORTS))],
            "len": lambda: self._draw(_LENGTH, *_PACKET_BYTES).astype(np.int32),
        }
        return pa.array(makers[name]())

    def _timestamps(self) -> Integers:
        link = self.generator.links[self.number]
        times = link.due(np.arange(self.start, self.stop, dtype=np.int64)) + (self.origin - link.skew)
        if self.generator.disorder:
            times -= self._draw(_DELAY, 0, self.generator.disorder + 1)
        return times

    def _sources(self) -> Integers:
        return _SOURCES_NET + self._pairs % math.isqrt(self.generator.groups)

    def _destinations(self) -> Integers:
        return _DESTINATIONS_NET + self._pairs // math.isqrt(self.generator.groups)

    @cached_property
    def _pairs(self) -> Integers:
        """The number of each tuple's (source, destination) pair: both addresses come from it, so pairs are `groups`."""
        return self._draw(_PAIR, 0, self.generator.groups)

    def _draw(self, stream: int, low: int, high: int) -> Integers:
        """Uniform integers in `[low, high)` for these tuples, from the blocks of the stream that hold them."""
        first, last = self.start // _BLOCK, -(-self.stop // _BLOCK)
        drawn = np.empty((last - first) * _BLOCK, np.int64)
        for block in range(first, last):
            key = np.array([self.generator.seed, self.number << 8 | stream], np.uint64)
            words = np.random.Philox(key=key, counter=[0, block, 0, 0]).random_raw(_BLOCK // 2)
            at = (block - first) * _BLOCK
            _scale(words.view(np.uint32), low, high, drawn[at : at + _BLOCK])
        return drawn[self.start - first * _BLOCK : self.stop - first * _BLOCK]


def _scale(words: npt.NDArray[np.uint32], low: int, high: int, out: Integers) -> None:
    """32-bit words to integers in `[low, high)`: multiply and shift, which no division slows down."""
    np.multiply(words, np.uint64(high - low), out=out.view(np.uint64), dtype=np.uint64)
    np.right_shift(out.view(np.uint64), np.uint64(32), out=out.view(np.uint64))
    if low:
        out += low


@dataclass(frozen=True)
class GeneratorFeed(Feed):
    """Positions are `{"at": {link: tuples made}, "clock0": start of event time in microseconds}`."""

    generator: Generator

    def start(self) -> Position:
        return {"at": {link.name: 0 for link in self.generator.links}, "clock0": None}

    def advance(self, position: Position, limit: Limit) -> Advance:
        links, at = self.generator.links, dict(position["at"])
        clock0 = position["clock0"]
        if clock0 is None:
            clock0 = time.time_ns() // 1000 if self.generator.realtime else 0
        width = row_bytes(self.generator.schema(), limit.columns)
        rows = max(1, min(limit.rows, int(limit.bytes / width)))
        horizon = time.time_ns() // 1000 - clock0 if self.generator.realtime else None
        elapsed, left = self._elapsed(at, rows, horizon), rows
        for link in links:
            # Several links, or several tuples of one, may be due in the same moment: some of them come a train later.
            due = min(left, max(0, link.count_until(elapsed) - at[link.name]))
            at[link.name], left = at[link.name] + due, left - due
        ended = self.generator.bounded and all(at[link.name] == link.rows for link in links)
        taken = rows - left
        return Advance({"at": at, "clock0": clock0}, ended=ended, rows=taken, bytes=int(taken * width))

    def _elapsed(self, at: Mapping[str, int], rows: int, horizon: int | None) -> int:
        """The moment up to which links deliver in step, so that together they make about `rows` tuples."""
        links = self.generator.links

        def made(elapsed: int) -> int:
            return sum(max(0, link.count_until(elapsed) - at[link.name]) for link in links)

        # The next tuple to leave, whatever the limit; then as long as the limit allows.
        low = min(
            (
                int(link.due(np.array([at[link.name]]))[0]) + 1
                for link in links
                if link.rows is None or at[link.name] < link.rows
            ),
            default=0,
        )
        if horizon is not None and horizon < low:
            return horizon
        step = _SECOND
        while made(low + step) < rows and step < 2**50:
            step *= 2
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if made(middle) <= rows else (low, middle)
        return low if horizon is None else min(low, horizon)

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        if end["clock0"] is None:
            return []
        origin = self.generator.origin(end["clock0"])
        return [
            GeneratorSplit(link.name, low, high - low, low, high, origin)
            for link in self.generator.links
            for low, high in _cuts(start["at"][link.name], end["at"][link.name])
        ]


def _cuts(start: int, stop: int) -> list[tuple[int, int]]:
    edges = [start, *range(start - start % _SPLIT_ROWS + _SPLIT_ROWS, stop, _SPLIT_ROWS), stop]
    return [(low, high) for low, high in itertools.pairwise(edges) if low < high]


def generator(
    *,
    rate: int | Mapping[str, int] = 100_000,
    groups: int = 1_024,
    disorder: Duration | None = None,
    links: int | Sequence[str] | None = None,
    skew: Duration | Mapping[str, Duration] | None = None,
    lulls: Mapping[str, Any] | None = None,
    rows: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    start: dt.datetime | str | None = None,
    realtime: bool = False,
) -> Generator:
    """Network packets: `rate` tuples per second of event time and link, from `groups` (srcIP, destIP) pairs.

    `rows` (of all links together) or `seconds` bound the input. `disorder` is the largest delay of a tuple, `skew` how
    far a link's event time lags behind, and `lulls` maps a link to `[(start, length), …]` or to a periodic
    `(every, length)`: in a lull the link delivers nothing. `realtime=True` delivers in step with the wall clock.
    """
    named = links is not None
    names = _names(links)
    for label, given in (("rate", rate), ("skew", skew), ("lulls", lulls)):
        unknown = sorted(set(given) - set(names)) if isinstance(given, Mapping) else []
        if unknown:
            raise QueryError(f"{label}= names unknown links {unknown}", expected=f"some of {list(names)}")
    rates = {name: rate.get(name, 0) if isinstance(rate, Mapping) else rate for name in names}
    if any(value < 1 for value in rates.values()):
        raise QueryError("every link needs a rate of at least one tuple per second", found=f"rate={rate!r}")
    if groups < 1 or groups > 2**31:
        raise QueryError("groups must be between 1 and 2**31", found=f"groups={groups}")
    if rows is not None and seconds is not None:
        raise QueryError("both rows= and seconds= bound the input", hint="give one of them")
    if (rows is not None and rows < 0) or (seconds is not None and seconds < 0):
        raise QueryError("a bound cannot be negative", found=f"rows={rows}, seconds={seconds}")
    delay = _length("disorder", disorder)
    if delay >= 2**32:
        raise QueryError("disorder is at most an hour", found=repr(disorder))
    made = []
    for name in names:
        own = skew.get(name) if isinstance(skew, Mapping) else skew
        link = Link(name, rates[name], _length("skew", own), lulls_of((lulls or {}).get(name)), None)
        made.append(link if seconds is None else replace(link, rows=link.count_until(round(seconds * _SECOND))))
    if rows is not None:
        made = _shared(made, rows)
    first = _DEFAULT_START if start is None else dt.datetime.fromisoformat(start) if isinstance(start, str) else start
    first = first if first.tzinfo else first.replace(tzinfo=dt.UTC)
    begins = (
        None
        if realtime and start is None
        else (first - dt.datetime.fromtimestamp(0, dt.UTC)) // dt.timedelta(microseconds=1)
    )
    return Generator(tuple(made), groups, delay, seed % 2**64, begins, realtime, named)


def _names(links: int | Sequence[str] | None) -> tuple[str, ...]:
    if links is None:
        return (_ONE_LINK,)
    names = tuple(f"link{at}" for at in range(links)) if isinstance(links, int) else tuple(links)
    if not names or len(set(names)) != len(names):
        raise QueryError("links must be a number from 1 or different names", found=f"links={links!r}")
    return names


def _length(label: str, value: Duration | None) -> int:
    length = 0 if value is None else duration_ticks(value, _US)
    if length < 0:
        raise QueryError(f"{label} cannot be negative", found=repr(value))
    return length


def _shared(links: list[Link], rows: int) -> list[Link]:
    """A total of `rows`, shared out by rate; what rounding leaves goes to the first links."""
    total = sum(link.rate for link in links)
    counts = [rows * link.rate // total for link in links]
    for at in range(rows - sum(counts)):
        counts[at % len(counts)] += 1
    return [replace(link, rows=count) for link, count in zip(links, counts, strict=True)]
