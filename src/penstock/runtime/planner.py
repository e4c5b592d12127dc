"""The planner: on the driver, it decides how far the next train reaches, and shares it out to tasks.

```
 Planner.latest(start) ──> offset: positions, issued low-water marks, clock, versions of static tables, tasks
 Planner.assignments(start, end) ──> one Assignment per task
```

Everything that affects the answer is in the offset, so a batch can be read again to the same rows.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.algebra.floors import Floors
from penstock.connectors.connector import Advance, Feed, Position, Split
from penstock.connectors.journal import FileJournal
from penstock.errors import WorldError
from penstock.progress.extremes import NOTHING, Extremes
from penstock.progress.issued import Issued
from penstock.progress.usefulness import NetworkFloors
from penstock.runtime import traces
from penstock.runtime.allotment import Allotment
from penstock.runtime.board import Board, Record
from penstock.runtime.carrying import carried
from penstock.runtime.control import Control
from penstock.runtime.fast_forward import FastForward
from penstock.runtime.feedback import Hearing
from penstock.runtime.history_pace import HistoryPace
from penstock.runtime.history_pieces import HistoryPieces, Reader
from penstock.runtime.job import Job
from penstock.runtime.jobs import Jobs, jobs_of
from penstock.runtime.leaving import Leaving
from penstock.runtime.live_rhythm import LiveRhythm
from penstock.runtime.offsets import InputAt, Left, Offset, Said, Size, Stated, digest, histories_read, intake_offset
from penstock.runtime.silence import Silence, merged
from penstock.runtime.table_versions import TableKeeper
from penstock.storage.sealed import RESTORE

ONLY_SHARD = "0"
_LOOK_SECONDS = 1.0
"""How often tables are looked at when nothing arrives here."""


@dataclass(frozen=True)
class Assignment:
    """What one task of a batch reads."""

    index: int
    splits: tuple[tuple[str, Split], ...]
    issued: Mapping[str, Issued]
    """What each input had stated before this batch: what is below it is late."""
    open: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The shards that hold windows back even before they deliver anything."""
    ended: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The shards that end with this batch."""
    first: int = 0
    """The number, in the batch, of the first split: arrival order goes on from task to task."""
    control: Control = field(default_factory=Control)
    stated: Stated = field(default_factory=dict)
    """What is said in the place of shards that are silent."""
    left: Left = field(default_factory=dict)
    """The shards that leave."""
    said: Said = ()
    known: Mapping[str, Mapping[str, Extremes]] = field(default_factory=dict)
    """What all shards have delivered before, where stages may not have heard of it."""
    version: int = 1
    floors: Mapping[str, Floors] = field(default_factory=dict)
    """The ticks below which tuples of an input are left out."""
    prepared: str | None = None
    """The file with what was read ahead of it, where somebody has."""


class Planner:
    """The driver's side of all inputs of a network, in the version that an offset names."""

    def __init__(
        self, job: Job, jobs: Jobs | None = None, reader: Reader | None = None, *, pauses: bool = False
    ) -> None:
        """`reader` reads long histories ahead; `pauses` says that the run goes on where there is nothing to do now."""
        self._jobs = jobs if jobs is not None else jobs_of(job)
        self._board = Board(job.board)
        self._feeds: dict[str, Feed] = {}
        self._reader, self._pauses, self._numbers = reader, pauses, itertools.count()
        self._rhythm = LiveRhythm()
        self._pieces = HistoryPieces(job.plan, job.version, None, int)
        self._use(job)
        self._planned = self._replays()

    def _use(self, job: Job) -> None:
        """Plan for a version from now on."""
        self.close()
        self._job = job
        self._allotment = Allotment.of(job)
        self._shares = {s.name: s.connector.share for s in job.plan.network.sources if s.connector.catches_up}
        self._pace = HistoryPace(min(self._shares.values(), default=1.0), rhythm=self._rhythm, pauses=self._pauses)
        self._pieces = HistoryPieces(job.plan, job.version, self._reader, lambda: next(self._numbers))
        self._tables = TableKeeper(job)
        self._hearing = Hearing(job)
        self._forward = FastForward(job.plan.network.sources, self._allotment)
        self._silence = Silence(job.plan.network)
        # Where the intake stamps tuples, no two batches read the clock alike: what follows is later.
        self._stamps = any(s.stamped for s in job.plan.network.sources)
        # Who waits for the clock makes the board be read whenever Spark asks; others leave it alone.
        self._leaving = Leaving(job)
        waits = self._silence.watched() or any(getattr(b, "timeout", None) for b in job.plan.network.boxes)
        self._timed = bool(waits) or self._leaving.timed
        # Batches of such inputs are not planned here, so a table that changes makes one by itself.
        self._looks = any(s.connector.planned_elsewhere for s in job.plan.network.sources)
        self._looked = 0.0

    def initial(self) -> Offset:
        inputs = {name: InputAt(feed.start()) for name, feed in self._open().items()}
        return Offset(inputs, self._declared(), self._job.settings.tasks, version=self._job.version)

    def _declared(self) -> dict[str, tuple[str, ...]]:
        # Fixed once: what an input lists later must not change what an earlier batch has waited for.
        return {s.name: tuple(s.connector.shards()) for s in self._job.plan.network.sources}

    def latest(self, start: Offset) -> Offset:
        """The offset of the next batch: `start` itself when no input has anything new."""
        if self._planned and (again := self._planned.pop(digest(start), None)) is not None:
            return again
        changes = self._jobs.has(start.version + 1)
        self._turn_to(start.version + changes)
        feeds, whole = self._open(), start
        if changes:
            start = self._carried(start)
        live = [name for name in feeds if not start.inputs[name].ended]
        if not live and not changes:
            return start
        self._pace.done()
        steps, pieces = self._advance(feeds, {name: start.inputs[name].position for name in live})
        self._rhythm.look(came=any(step.rows for name, step in steps.items() if name not in self._shares))
        inputs = {**start.inputs, **{name: InputAt(step.position, step.ended) for name, step in steps.items()}}
        moved = inputs != start.inputs
        clocks = [step.clock for step in steps.values() if step.clock is not None]
        # A script may bring its own clock; time never goes back, whatever the machine's clock does.
        now = max(start.now + self._stamps, max(clocks) if clocks else time.time_ns() // 1000)
        asked = self._leaving.asked(start.requests)
        looked = self._look_at_tables(start, now)
        changed = looked is not None and looked != start.tables
        if not moved and not asked and not changed and not changes and not self._timed and not start.gone:
            return start
        record = carried(self._record_before(whole), self._job)
        if not record.shards:
            # Before the first batch only the declaration knows of shards: those that do not deliver are silent.
            record = replace(
                record, shards={name: dict.fromkeys(shards, NOTHING) for name, shards in start.shards.items()}
            )
        # What a new merge needs is known once it has run.
        floors = NetworkFloors() if changes else self._hearing.floors(record)
        if self._hearing.used:
            alone = {name: step for name, step in steps.items() if name not in pieces}
            steps |= self._forward.lengthened(feeds, alone, floors.inputs, record)
            inputs |= {name: InputAt(step.position, step.ended) for name, step in steps.items()}
        speaking = {
            (name, split.shard)
            for name in live
            if inputs[name] != start.inputs[name]
            for split in feeds[name].splits(start.inputs[name].position, inputs[name].position)
        }
        beats = self._silence.heartbeats(record, start.beats, speaking, now)
        # The clock of a script stands still while the run is down: a restart changes nothing.
        since = (now if start.began is None else start.began) if clocks else self._leaving.since(now)
        left = self._leaving.decide(record, asked, speaking, now, since)
        woken = record.wake is not None and now >= record.wake
        due = moved or changed or changes or woken or bool(beats) or bool(left) or bool(asked)
        demanded = merged(self._silence.on_demand(record, speaking, now, anyway=due), self._silence.released(record))
        latent = self._silence.latent(inputs, now) if due else {}
        stated = merged(merged(beats, demanded), latent)
        if not due and not stated:
            return start
        last = start.beats
        self._pace.planned(sum(step.rows for name, step in steps.items() if name in self._shares))
        return Offset(
            inputs,
            start.shards,
            self._job.settings.tasks,
            now,
            start.version,
            {s.name: record.issued(s) for s in self._job.plan.network.sources},
            looked if looked is not None else self._tables.current(start.tables, now),
            start.requests + len(asked),
            {**last, **{n: {**last.get(n, {}), **dict.fromkeys(s, now)} for n, s in beats.items()}},
            start.gone or bool(left),
            since if clocks and self._leaving.timed else start.began,
            Size(sum(s.rows for s in steps.values()), sum(s.bytes for s in steps.values())),
            stated,
            _said(beats, demanded, latent),
            left,
            start.starts if changes else {},
            record.shards if changes else {},
            floors.inputs,
            floors.boxes,
            pieces,
        )

    def _advance(
        self, feeds: Mapping[str, Feed], positions: Mapping[str, Position]
    ) -> tuple[dict[str, Advance], dict[str, Sequence[Position]]]:
        """The next step of each input; histories take a share of the train, or pieces that were read ahead."""
        if not positions:
            return {}, {}
        return self._allotment.with_histories(feeds, positions, self._shares, self._pace, self._pieces)

    def _turn_to(self, version: int) -> None:
        if version != self._job.version:
            self._use(self._jobs.at(version))

    def _carried(self, start: Offset) -> Offset:
        """Where the first batch of a new version starts: inputs that stay go on, others begin at their own start."""
        job, feeds, declared = self._job, self._open(), self._declared()
        starts = {name: feed.start() for name, feed in feeds.items() if job.is_new("input", name)}
        stay = [name for name in feeds if name not in starts]
        return replace(
            start,
            inputs={name: InputAt(starts[name]) if name in starts else start.inputs[name] for name in feeds},
            shards={name: declared[name] if name in starts else start.shards[name] for name in feeds},
            version=job.version,
            beats={name: start.beats[name] for name in stay if name in start.beats},
            starts=starts,
        )

    def _replays(self) -> dict[str, Offset]:
        """Batches that had been planned when a run went back behind them: by what the offset before them comes to."""
        known = self._board
        texts = {batch: (known.offset(batch - 1), known.offset(batch)) for batch in known.planned() if batch > 0}
        return {
            digest(intake_offset(before)): intake_offset(text) for before, text in texts.values() if before and text
        }

    def _record_before(self, start: Offset) -> Record:
        """The board's record of the batch that ended at an offset: nothing else says what was stated up to there."""
        newest, wanted = self._board.newest(), digest(start)
        if newest < 0:
            return Record()
        record = self._board.at(newest)
        if record.digest != wanted:
            self._job.check_claim()  # whoever has taken the checkpoint since has gone on
            raise WorldError(
                f"the board's last record, of batch {newest}, belongs to another offset than the next one starts from",
                network=self._job.plan.network.name,
                expected=f"the offset that comes to {wanted}",
                found=f"one that comes to {record.digest}",
                hint=RESTORE,
            )
        return record

    def _look_at_tables(self, start: Offset, now: int) -> dict[str, str] | None:
        """The versions of the tables, if inputs that are planned elsewhere may need them and it is time to look."""
        if not self._looks or (self._looked and time.monotonic() - self._looked < _LOOK_SECONDS):
            return None
        self._looked = time.monotonic()
        return self._tables.current(start.tables, now)

    def assignments(self, start: Offset, end: Offset) -> list[Assignment]:
        """The work between two offsets, shared out evenly in order of arrival."""
        if start == end:
            return []
        self._turn_to(end.version)
        splits: list[tuple[str, Split]] = []
        pieces: list[Assignment] = []
        ended: dict[str, tuple[str, ...]] = {}
        for name, feed in self._open().items():
            after = end.inputs[name]
            before = InputAt(end.starts[name]) if name in end.starts else start.inputs[name]
            if name in end.pieces:
                pieces += self._taken(name, feed, before.position, end)
                continue
            fresh = [(name, split) for split in feed.splits(before.position, after.position)]
            splits += fresh
            if after.ended and not before.ended:
                known = {
                    *end.shards[name],
                    *end.issued.get(name, Issued()).shards,
                    *(s.shard for _, s in fresh),
                }
                ended[name] = tuple(sorted(known)) or (ONLY_SHARD,)
        read = histories_read(self._job.plan.network, end)
        control = Control(end.now, end.tables, digest(start), digest(end), start.version, read, end.box_floors)
        firsts = [0]
        for share in (shares := _share_out(splits, end.tasks)):
            firsts.append(firsts[-1] + len(share))
        first, *others = (
            Assignment(i, tuple(share), end.issued, first=firsts[i], control=control, version=end.version)
            for i, share in enumerate(shares)
        )
        told = replace(first, stated=end.stated, left=end.left, said=end.said, known=end.known)
        parts = [replace(told, open=end.shards, ended=ended), *others]
        for piece in pieces:
            parts.append(replace(piece, index=len(parts), first=firsts[-1], control=control, version=end.version))
            firsts.append(firsts[-1] + len(piece.splits))
        return [replace(part, floors=end.floors) for part in parts] if end.floors else parts

    def _taken(self, name: str, feed: Feed, start: Position, end: Offset) -> Iterator[Assignment]:
        """The pieces of a history that a batch takes. How far out of order a piece is, it tells of itself alone."""
        issued = {name: replace(end.issued.get(name, Issued()), reached={})}
        for at, after in itertools.pairwise((start, *end.pieces[name])):
            splits = tuple((name, split) for split in feed.splits(at, after))
            yield Assignment(0, splits, issued, prepared=self._pieces.path(name, at, after))

    def waits(self, at: Offset) -> bool:
        """Whether something may still come to a run that has come so far, and the run waits for it."""
        return self._pauses and not all(one.ended for one in at.inputs.values())

    def hurry(self) -> None:
        """From now on the run ends where there is nothing to do now: nobody waits for what is read ahead."""
        self._reader, self._pauses = None, False
        self._use(self._job)

    def close(self) -> None:
        self._pieces.close()
        for feed in self._feeds.values():
            feed.close()
        self._feeds = {}

    def _open(self) -> Mapping[str, Feed]:
        if not self._feeds:
            for source in self._job.plan.network.sources:
                folder = self._job.journal(source.name)
                folder.make()
                journal = FileJournal(folder.child("journal.jsonl").path, folder.lasting)
                self._feeds[source.name] = source.connector.asking(self._allotment.columns[source.name]).open(
                    source.delivered, journal
                )
        return self._feeds


def _said(beats: Stated, demanded: Stated, latent: Stated) -> Said:
    kinds = ((traces.HEARTBEAT, beats), (traces.ETS, demanded), (traces.LATENT, latent))
    return tuple(
        (kind, name, shard, marks)
        for kind, stated in kinds
        for name, shards in stated.items()
        for shard, marks in shards.items()
    )


def _share_out(splits: Sequence[tuple[str, Split]], tasks: int) -> list[list[tuple[str, Split]]]:
    """At most `tasks` contiguous shares of about equal size; one empty share when there is nothing to read."""
    total = sum(max(1, s.rows) for _, s in splits)
    shares: list[list[tuple[str, Split]]] = [[]]
    taken = 0
    for name, split in splits:
        if shares[-1] and taken >= total * len(shares) / tasks and len(shares) < tasks:
            shares.append([])
        shares[-1].append((name, split))
        taken += max(1, split.rows)
    return shares
