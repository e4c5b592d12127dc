"""The pieces of long histories that are read ahead, as the planner sees them.

```
 position of the history ──> piece ──> piece ──> piece ──> ... as far as the table reaches
                             done      done      ordered
                             └─ a batch takes what is done
```

A batch of a run takes pieces that a reader beside the run has reduced already (`runtime/reading_ahead.py`). So a long
history costs the run little more than what its stages do with it, and live results hardly wait. Where pieces begin and
end is in the offset of the batch that takes them. Who reads them, and when, changes nothing.

Light to load: the process that plans batches needs it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from penstock.algebra.box import Output, Port, Stateful, Stateless
from penstock.algebra.hidden import SEQ
from penstock.algebra.source import Source
from penstock.boxes.seam.box import ARC, Seam
from penstock.boxes.table_join.box import TableJoin
from penstock.connectors.connector import Advance, Feed, Limit, Position, Split
from penstock.plan.plan import Plan

_SHORTEST: Final = 16
"""What is so many times shorter than the longest piece is read by the run itself."""
_MOST_BYTES: Final = 256 * 1024 * 1024
_AHEAD: Final = 3
"""So many pieces are ordered, or done and not taken yet."""
WORTH: Final = 2
"""Stages must have so many times fewer rows to work on than a piece has: else it is not worth being read ahead."""
LOOK_SECONDS: Final = 0.2
"""How often it is looked whether the table has grown by a piece."""


class Reader(Protocol):
    """Who reads pieces."""

    def order(self, number: int, version: int, splits: Sequence[tuple[str, Split]], share: float) -> None:
        """Have a piece read, as the version of the network does it, by as many as the share has of the cores."""

    def done(self, number: int) -> Done | None:
        """What has become of a piece; None as long as nobody knows."""

    def path(self, number: int) -> str:
        """The file to which a piece is read."""

    def forget(self, number: int) -> None:
        """Nobody needs the piece any more."""

    def rest(self) -> None:
        """Nothing is ordered at the moment: what it takes to read may go, until something is ordered again."""


@dataclass(frozen=True)
class Done:
    """A piece that was read, or could not be read ahead."""

    rows: int = 0
    """The rows that the stages have to work on."""
    bytes: int = 0
    failed: bool = False


@dataclass(frozen=True)
class Piece:
    """A piece of a history."""

    number: int
    start: Position
    end: Position
    rows: int


@dataclass
class _Ahead:
    """The pieces of one history that are ordered or done, in their order."""

    share: float
    most: int
    """The rows of the longest piece."""
    limit: int
    """The rows of the next one."""
    pieces: list[Piece] = field(default_factory=list)
    given_up: bool = False
    looked: float = float("-inf")

    @property
    def least(self) -> int:
        return max(1, self.most // _SHORTEST)


def can_be_read_ahead(plan: Plan, source: Source) -> bool:
    """Whether what is read of a history goes to boxes that hold something, and depends on its tuples alone."""
    waiting, seen = [Port(source)], set[str]()
    if SEQ in plan.columns.get(source.name, ()):
        return False
    if source.group_marks and plan.network.consumers(Port(source, Source.MARKS)):
        return False  # marks of groups have no time of arrival but that of their batch
    while waiting:
        port = waiting.pop()
        for arc in plan.network.consumers(port):
            box = arc.consumer
            if isinstance(box, Stateful) or box.name in seen:
                continue
            if isinstance(box, Output | TableJoin) or (isinstance(box, Seam) and arc.slot == ARC):
                return False
            if not isinstance(box, Stateless):
                return False
            seen.add(box.name)
            waiting += [Port(box, index) for index in range(len(box.ports)) if box.delivers(index)]
    return True


class HistoryPieces:
    """The pieces of all histories of a version of a network."""

    def __init__(self, plan: Plan, version: int, reader: Reader | None, numbers: Callable[[], int]) -> None:
        self._version = version
        self._reader = reader
        self._numbers = numbers
        self._ahead = {
            source.name: _Ahead(source.connector.share, most, most)
            for source in plan.network.sources
            if reader is not None and (most := source.connector.piece_rows) and can_be_read_ahead(plan, source)
        }

    def reads(self, name: str, feed: Feed, position: Position, columns: tuple[str, ...], fitting: int | None) -> bool:
        """Whether what follows in a history is read ahead; what is missing is ordered. `fitting` are the rows that the
        stages may get from one piece, if somebody knows."""
        ahead = self._ahead.get(name)
        if ahead is None or ahead.given_up or self._reader is None:
            return False
        self._drop_before(ahead, position)
        self._judge(ahead, fitting)
        while not ahead.given_up and len(ahead.pieces) < _AHEAD and time.monotonic() - ahead.looked >= LOOK_SECONDS:
            at = ahead.pieces[-1].end if ahead.pieces else position
            step = feed.advance(at, Limit(ahead.limit, _MOST_BYTES, columns))
            if step.rows < ahead.least:
                ahead.looked = time.monotonic()
                break
            piece = Piece(self._numbers(), at, step.position, step.rows)
            splits = [(name, split) for split in feed.splits(at, piece.end)]
            self._reader.order(piece.number, self._version, splits, ahead.share)
            ahead.pieces.append(piece)
        if not any(each.pieces for each in self._ahead.values()):
            self._reader.rest()
        return bool(ahead.pieces)

    def _drop_before(self, ahead: _Ahead, position: Position) -> None:
        """Forget pieces that have been taken; all of them if the run has gone another way."""
        here = next((at for at, piece in enumerate(ahead.pieces) if piece.start == position), len(ahead.pieces))
        for piece in ahead.pieces[:here]:
            self._forget(piece)
        del ahead.pieces[:here]

    def _judge(self, ahead: _Ahead, fitting: int | None) -> None:
        """Give up what is not worth it, and fit the length of pieces to what the stages may get."""
        assert self._reader is not None
        for piece in ahead.pieces:
            done = self._reader.done(piece.number)
            if done is None:
                continue
            if done.failed or done.rows * WORTH > piece.rows:
                self._give_up(ahead)
                return
            if fitting is not None and done.rows > 2 * fitting:
                ahead.limit = max(ahead.least, min(ahead.limit, piece.rows // 2))
            elif fitting is not None and done.rows < fitting:
                ahead.limit = min(ahead.most, max(ahead.limit, 2 * piece.rows))

    def _give_up(self, ahead: _Ahead) -> None:
        ahead.given_up = True
        for piece in ahead.pieces:
            self._forget(piece)
        ahead.pieces.clear()

    def _forget(self, piece: Piece) -> None:
        assert self._reader is not None
        self._reader.forget(piece.number)

    def ready(self, name: str, most: int) -> tuple[Advance, Sequence[Position]] | None:
        """The next step of a history by pieces that are done, and where each of them ends: the first, and those that
        bring the stages no more than so many rows together; None if the first is not done."""
        assert self._reader is not None
        taken, rows, size = list[Piece](), 0, 0
        for piece in self._ahead[name].pieces:
            done = self._reader.done(piece.number)
            if done is None or (taken and rows + done.rows > most):
                break
            taken.append(piece)
            rows, size = rows + done.rows, size + done.bytes
        if not taken:
            return None
        return Advance(taken[-1].end, rows=rows, bytes=size), [piece.end for piece in taken]

    def path(self, name: str, start: Position, end: Position) -> str | None:
        """The file with what was read of a piece; None if nobody has read it."""
        pieces = self._ahead[name].pieces if name in self._ahead else []
        found = next((piece for piece in pieces if (piece.start, piece.end) == (start, end)), None)
        return None if found is None or self._reader is None else self._reader.path(found.number)

    def close(self) -> None:
        """Forget all pieces."""
        for ahead in self._ahead.values():
            self._give_up(ahead)
        if self._reader is not None:
            self._reader.rest()
