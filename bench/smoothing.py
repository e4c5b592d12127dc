"""smoothing: experiment G1 of out-of-order processing (oop.md 8.1, Fig. 9), the low-level aggregate of Q4 alone.

Packets in order are counted by address pair and window in a direct-mapped table. Three ways to flush it:

- `in-order`: slow, one old entry for each packet; but all of them at once as soon as two groups of the new window
  collide, because what leaves must be in order;
- `slow`: out of order, one old entry every 160 packets, a window's last ones two windows later at most;
- `lazy`: out of order, only collisions eject old entries, with the same bound.

The number of groups is an eighth, a quarter, a half and all of `--groups` (`--case`), the table has half, once and
twice as many entries. `--rows` are the packets of the largest case, in 4 windows; the others have their share, so that
there are as many packets to a group: 6 in a window, fewer than in the paper (50 and more).

What is measured is the CPU time of every train of packets: in the low level, which is what the paper measured, and in
the whole stage, as the aggregate behind it shares its process here. Costs are those of a typical window: train by
train, the median over all windows but the first, in which the table fills. From them follow the *pause*, the longest
time that one train takes, and the *rate*, the highest one at which a ring buffer of some trains loses nothing
(`ring.py`). *No limit* is the rate if the ring were endless, so that pauses did not matter. State stays in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from penstock_bench.contract import Clock, Job, Peer, Run, Size, named
from penstock_bench.our_smoothing import Load, drive
from penstock_bench.ring import highest_rate

WINDOWS: Final = 4
TRAINS: Final = 768
"""Trains of the largest case: 16,384 packets each, unless told otherwise."""
RINGS: Final = (2, 4, 8)
"""Trains that the ring holds. With two, one fills while one is worked on; in larger ones a pause matters less."""
SHARES: Final = {"eighth": 8, "quarter": 4, "half": 2, "all": 1}
TABLES: Final = {"1/2": 0.5, "1": 1.0, "2": 2.0}
FLUSHES: Final[Mapping[str, Mapping[str, Any]]] = {
    "in-order": {"flush": "in-order", "every": 1},
    "slow": {"flush": "slow", "every": 160, "delay": 2},
    "lazy": {"flush": "lazy", "delay": 2},
}
SUMMARIES: Final = {
    "in-order": "one entry a packet, but all old ones before a new one",
    "slow": "out of order, one old entry every 160 packets",
    "lazy": "out of order, on collision",
}
HALVES: Final = {"low": "low level alone", "stage": "stage, with the high level behind it"}
BAR: Final = 40


class Smoothing:
    """The benchmark."""

    name = "smoothing"
    summary = "flushing a low-level table: the longest pause, and the highest rate that a ring buffer stands"
    size = Size(rows=12_582_912, groups=524_288)
    rounds = 1
    environment: Mapping[str, str] = {"ARROW_DEFAULT_MEMORY_POOL": "mimalloc", "MIMALLOC_PURGE_DELAY": "-1"}
    """Memory that was used once stays: else a burst would pay for fresh pages, as much again as for its own work."""
    peers: Sequence[Peer] = tuple(
        Peer(flush, "penstock_bench.our_smoothing:drive", SUMMARIES[flush], case=case)
        for case in SHARES
        for flush in FLUSHES
    )
    growth: Sequence[tuple[str, str]] = ()

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        written(size.rows)  # packets are drawn as the run goes: the same for every peer

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        peer = named(self.peers, job.peer)
        load = load_of(job.size, peer.case)
        clock.stage("warm-up")
        drive(Load(load.groups, 4 * load.train, 2, load.train), load.groups, **FLUSHES[peer.name])
        clock.start()
        found = {size: drive(load, _entries(load, size), **FLUSHES[peer.name]) for size in TABLES}
        clock.stop()
        return {
            "rows": len(TABLES) * load.window * load.windows,
            "groups": load.groups,
            "train": load.train,
            "wrong": sum(each.wrong for each in found.values()),
            "tables": {
                size: {
                    "entries": _entries(load, size),
                    "low": _summary(each.low, load.train),
                    "stage": _summary(each.stage, load.train),
                    "burst": each.burst,
                    "delay": each.delay,
                }
                for size, each in found.items()
            },
        }

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        return f"{detail['wrong']} counts are not right" if detail["wrong"] else None

    def told(self, results: Mapping[str, Run]) -> dict[str, Any]:
        """What each way to flush reached, by number of groups and size of the table."""
        return {"smoothing": {name: {**run.detail, "case": run.case} for name, run in results.items()}}

    def shown(self, found: Mapping[str, Any]) -> Sequence[RenderableType]:
        told = found["smoothing"]
        return (*(grid(told, half) for half in HALVES), *(figure(told, half) for half in HALVES))


SMOOTHING: Final = Smoothing()


def load_of(size: Size, case: str) -> Load:
    """The packets of a case: its share of the groups, and as many packets to each."""
    share, train = SHARES[case], max(1, size.rows // TRAINS)
    # Whole trains, so that every train costs its full price.
    window = max(1, size.rows // WINDOWS // share // train) * train
    return Load(max(1, size.groups // share), window, WINDOWS, train)


def grid(told: Mapping[str, Any], half: str) -> Table:
    """All numbers, a line for each number of groups, size of the table and way to flush."""
    train = max(each["train"] for each in told.values())
    title = f"{HALVES[half]}: highest rate in M packets/s, by the size of the ring in trains of {train:,} packets"
    shown = Table(title=title, title_justify="left")
    rings = [f"ring {ring}" for ring in RINGS]
    for heading in ("groups", "table", "flush", *rings, "no limit", "pause, ms", "burst", "delay"):
        shown.add_column(heading, justify="left" if heading == "flush" else "right")
    for groups, size, lines in _cells(told):
        for number, (flush, cell) in enumerate(lines):
            shown.add_row(
                *((f"{groups:,}", f"{cell['entries']:,}") if not number else ("", "")),
                flush,
                *(f"{cell[half]['rates'][str(ring)] / 1e6:.2f}" for ring in RINGS),
                f"{cell[half]['unlimited'] / 1e6:.2f}",
                f"{cell[half]['pause_ms']:.1f}",
                f"{cell['burst']:,}",
                f"{cell['delay']:.2f}",
                end_section=number == len(lines) - 1 and size == list(TABLES)[-1],
            )
    return shown


def figure(told: Mapping[str, Any], half: str) -> Text:
    """The highest rates with the smallest ring as bars, as in the paper's Fig. 9."""
    ring = str(RINGS[0])
    most = max(cell[half]["rates"][ring] for _, _, lines in _cells(told) for _, cell in lines)
    title = f"{HALVES[half]}: highest rate without loss, M packets/s, a ring of {ring} trains (x entries to a group)\n"
    text = Text(title, style="bold")
    for groups, size, lines in _cells(told):
        for flush, cell in lines:
            rate = cell[half]["rates"][ring]
            label, bar = f"{groups:>9,}  x {size:<3}  {flush:<8} ", "█" * max(1, round(BAR * rate / most))
            text.append(f"{label} {bar} {rate / 1e6:.2f}\n", style="not bold" if flush != "in-order" else "dim")
    return text


def _summary(costs: Sequence[float], train: int) -> dict[str, Any]:
    # Several windows in a row, as a backlog may last longer than one.
    run = [*costs] * WINDOWS
    return {
        # Keys of JSON are texts.
        "rates": {str(ring): highest_rate(run, train, ring * train) for ring in RINGS},
        "unlimited": train * len(costs) / sum(costs),
        "pause_ms": max(costs) * 1e3,
    }


def _cells(told: Mapping[str, Any]) -> list[tuple[int, str, list[tuple[str, Mapping[str, Any]]]]]:
    """(groups, size of the table, what each way to flush reached), fewest groups first."""
    cases = sorted({each["case"] for each in told.values()}, key=list(SHARES).index)
    found = []
    for case in cases:
        peers = {flush: told[f"{flush}-{case}"] for flush in FLUSHES if f"{flush}-{case}" in told}
        groups = next(iter(peers.values()))["groups"]
        found += [(groups, size, [(flush, peers[flush]["tables"][size]) for flush in peers]) for size in TABLES]
    return found


def _entries(load: Load, size: str) -> int:
    return max(1, int(load.groups * TABLES[size]))
