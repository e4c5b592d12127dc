"""What a benchmark is, and what a run of it leaves behind.

A benchmark names its peers, prepares data once, and is then asked, in a process of its own for every run, to put one
peer to work on that data. The parent samples that process's memory, and checks what came out. Where processes differ by
more than peers do, the peers of a round share one and take turns in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

OURS: Final = "penstock"
"""The peer that the ratios are about."""


@dataclass(frozen=True)
class Size:
    """How much work a benchmark does."""

    rows: int
    groups: int


@dataclass(frozen=True)
class Peer:
    """Someone who does the same work. Its engine, `module:Class`, is loaded only in the process that runs it."""

    name: str
    engine: str
    summary: str
    sees_end: bool = True
    """Whether the end of the input closes the windows still open. A native Spark query leaves them in its state."""
    case: str = ""
    """Which variant of the query it answers, where the benchmark has several. Peers compare within a case."""
    arguments: Sequence[Any] = ()
    """What its engine is made with."""
    profiles: bool = False
    """Whether it is ours once more, to find out where the time goes: it runs with --profile alone."""

    @property
    def label(self) -> str:
        """Its name among the results."""
        return labelled(self.name, self.case)

    def load(self) -> Any:
        module, _, name = self.engine.partition(":")
        return getattr(import_module(module), name)(*self.arguments)


def labelled(name: str, case: str) -> str:
    return f"{name}-{case}" if case else name


def named(peers: Sequence[Peer], label: str) -> Peer:
    """The peer of that label."""
    return next(peer for peer in peers if peer.label == label)


class Clock(Protocol):
    """What a running peer tells the parent: the timed part lies between `start` and `stop`."""

    def stage(self, name: str) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True)
class Turn:
    """When a run is due."""

    round: int
    """From 1; every round begins with fresh processes."""
    peer: str
    """The peer's label."""
    number: int = 1
    """Which of the peer's turns in the process of the round: from 1; turn 0 is a warm-up, and does not count."""


@dataclass(frozen=True)
class Job:
    """One run: a peer on prepared data, in a fresh process tree, or in one that peers of the same round share."""

    bench: str
    peer: str
    """The peer's label."""
    size: Size
    data: Path
    scratch: Path


@dataclass(frozen=True)
class Run:
    """One measured run. `detail` is what the benchmark itself has to say beyond time and memory."""

    peer: str
    """The peer's label."""
    rows: int
    seconds: float
    peak_pss_mb: float
    correct: bool
    detail: Mapping[str, Any] = field(default_factory=dict)
    case: str = ""
    round: int = 1
    turn: int = 1
    """As in `Turn`: with 0 it warmed up, and its time does not count."""
    failure: str = ""
    """Why there is no answer, if there is none: then nothing was measured."""

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.seconds


class Benchmark(Protocol):
    """One experiment.

    Some have more: `rounds`, how often peers take turns unless the user says otherwise; `usual_cases`, the cases that
    run unless the user names others; `turns`, how many turns each takes within a process that all peers of a round
    share; `environment`, variables for the processes of its peers; `patience`, how many seconds a process may take: a
    run that takes longer, or fails, is then told as one without an answer, and the others go on; `prepare_cases`, to
    write only what some cases need; `told(results)`, what the JSON has besides, and `shown(found)`, what people see of
    it, in the place of the plain table if `matrix` is set.
    """

    name: str
    summary: str
    size: Size
    """What is run when the user gives no other size."""
    peers: Sequence[Peer]
    growth: Sequence[tuple[str, str]]
    """Pairs of labels: how much longer the first takes than the second is worth telling."""

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        """Write the data, and what a right answer is; `written` hears of rows as they are done."""

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        """Put the job's peer to work (in the job's own process); returns the run's detail."""

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        """What is wrong with the result of a run, or None when it is right."""
