"""What a network holds while it runs, in order and out of order: shared by skew, lull, late and bandjoin.

After every batch the state of all boxes is weighed: the tuples (or partial aggregates) that they keep, and the bytes
that these take up in the state files, which is their size in Arrow. `in hand` are the tuples that the batch itself took
in: they are in memory too while it runs, in both architectures alike. The figures are the peaks over the run.

A benchmark here asks the same question for several values of a parameter. Most put all of them into one network, side
by side, so that one run measures them all: the name of every box and input begins with the value and a dash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
from rich.console import RenderableType
from rich.table import Table

import penstock as pk
from penstock.runtime.board import Record
from penstock.storage.folder import Folder
from penstock.storage.state import State
from penstock_bench.contract import OURS, Clock, Job, Peer, Run, Size, named
from penstock_bench.throughput import CORES
from penstock_bench.traffic import EPOCH_US, SCHEMA, SERVICES, address

IN_ORDER: Final = "in-order"
SECOND_US: Final = 1_000_000
MB: Final = 2**20
BAR: Final = 40

Points = Mapping[str, Mapping[str, float]]
"""What was measured, by the value of the parameter."""


@dataclass(frozen=True)
class Question:
    """A network that asks for all values at once, and what its outputs must hold."""

    net: pk.Network
    expected: Mapping[str, pa.Table]
    """By output."""
    width: int
    """The bytes of a tuple in hand: of the columns that are read."""


@dataclass
class Holding:
    """Called after every batch: keeps the peaks of what is held, by value of the parameter."""

    checkpoint: Path
    width: int
    peaks: dict[str, dict[str, float]] = field(default_factory=dict)
    _taken: dict[str, int] = field(default_factory=dict)

    def __call__(self, record: Record) -> None:
        found: dict[str, dict[str, float]] = {}
        for folder in sorted((self.checkpoint / "state").glob("*/*")):
            for box, (rows, size) in State(Folder(str(folder)), record.batch + 1).sizes().items():
                own = found.setdefault(_value(box), {"rows": 0, "bytes": 0, "in_hand": 0})
                own["rows"] += rows
                own["bytes"] += size
        for name, count in record.inputs.items():
            own = found.setdefault(_value(name), {"rows": 0, "bytes": 0, "in_hand": 0})
            own["in_hand"] += count.taken - self._taken.get(name, 0)
            self._taken[name] = count.taken
        for value, held in found.items():
            held["all_rows"] = held["rows"] + held["in_hand"]
            held["all_bytes"] = held["bytes"] + held["in_hand"] * self.width
            peak = self.peaks.setdefault(value, {})
            peak.update({what: max(amount, peak.get(what, 0)) for what, amount in held.items()})


class HeldBenchmark:
    """A benchmark over a parameter, with the two architectures as peers. Its cases are different queries."""

    name: str
    summary: str
    size: Size
    parameter: str
    """What the values are, for people: its name and unit."""
    cases: Sequence[str]
    growth: Sequence[tuple[str, str]] = ()
    rounds = 1
    """What is held does not differ from run to run."""

    @property
    def peers(self) -> Sequence[Peer]:
        return [peer for case in self.cases for peer in architectures(case)]

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        written(size.rows)  # packets are made in the run's own process, and handed over train by train

    def question(self, case: str, size: Size) -> Question:
        """The network of a case."""
        raise NotImplementedError

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        peer = named(self.peers, job.peer)
        (architecture,) = peer.arguments
        clock.stage("starting")
        warm_up(architecture)
        clock.stage("making packets")
        asked = self.question(peer.case, job.size)
        clock.start()
        result, holding = watched(asked, architecture, job.scratch / "checkpoint")
        clock.stop()
        wrong = difference(result, asked.expected)
        points = {value: holding.peaks[value] for value in holding.peaks}
        return {"points": points, "wrong": wrong, "rows": sum(c.taken for c in result.record().inputs.values())}

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        return detail["wrong"]

    def told(self, results: Mapping[str, Run]) -> dict[str, Any]:
        """What the JSON has besides: by case, architecture and value."""
        held: dict[str, dict[str, Points]] = {}
        for run in results.values():
            architecture = "out-of-order" if run.peer.startswith(OURS) else IN_ORDER
            held.setdefault(run.case, {})[architecture] = run.detail["points"]
        return {"held": held, "aims": {case: self.aims(both) for case, both in held.items() if len(both) == 2}}

    def aims(self, both: Mapping[str, Points]) -> list[dict[str, str]]:
        """How the architectures compare, beside what is aimed at."""
        return []

    def shown(self, found: Mapping[str, Any]) -> list[RenderableType]:
        """A table and bars for every case."""
        parts: list[RenderableType] = []
        for case, both in found["held"].items():
            title = f"{self.name}, {case}" if case else self.name
            parts.append(held_table(title, self.parameter, both))
            parts.append(bars(f"{title}: tuples held", self.parameter, both, "all_rows"))
        aims = Table(title="aims", title_justify="left")
        for heading in ("case", "what", "found", "aim"):
            aims.add_column(heading)
        for case, own in found["aims"].items():
            for aim in own:
                aims.add_row(case, aim["what"], aim["found"], aim["aim"])
        return [*parts, aims] if aims.row_count else parts


def architectures(case: str) -> tuple[Peer, Peer]:
    """The same network, twice."""
    return (
        Peer(OURS, "", "out of order", case=case, arguments=("out-of-order",)),
        Peer(IN_ORDER, "", "the same network in order", case=case, arguments=(IN_ORDER,)),
    )


def watched(asked: Question, architecture: str, checkpoint: Path) -> tuple[pk.Result, Holding]:
    """Run a network to its end on Spark, and weigh what it holds."""
    holding = Holding(checkpoint, asked.width)
    result = asked.net.run(
        master=f"local[{CORES}]", checkpoint=str(checkpoint), architecture=architecture, on_batch=holding
    )
    return result, holding


def warm_up(architecture: str) -> None:
    """Bring the session up, and run one small network of several stages."""
    net = pk.Network("warm-up")
    rows = packets(100, 10, groups=4, seed=1)
    link = net.source("link", pk.memory(rows, train=500), on="ts")
    link.aggregate({"n": "count(*)"}, size="1 second", by=["srcIP"]).output("counts")
    net.run(master=f"local[{CORES}]", architecture=architecture)


def packets(rate: int, seconds: int, *, behind: float = 0, groups: int, seed: int) -> pa.Table:
    """The packets of a link in order of time, evenly spread; `behind` seconds older than those of a link on time."""
    count = rate * seconds
    random = np.random.default_rng([seed, groups])
    source, destination = np.divmod(random.integers(0, groups, count), max(1, int(np.sqrt(groups))))
    columns = [
        EPOCH_US + np.arange(count, dtype=np.int64) * SECOND_US // rate - round(behind * SECOND_US),
        address(source),
        random.integers(1024, 65536, count, dtype=np.int32),
        address(destination),
        SERVICES[random.integers(0, len(SERVICES), count)],
        random.integers(40, 1501, count, dtype=np.int32),
    ]
    arrays = [pa.array(column).cast(kind.type) for column, kind in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def answer(sql: str, **tables: pa.Table) -> pa.Table:
    """What DuckDB says over whole tables."""
    with duckdb.connect(config={"threads": CORES}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(sql).to_arrow_table()


def difference(result: pk.Result, expected: Mapping[str, pa.Table]) -> str | None:
    """How outputs differ from what they must hold, or None when they are equal."""
    for output, want in expected.items():
        got = result[output]
        if not want.num_rows:
            return f"{output}: nothing is expected, so nothing is compared"
        columns = ", ".join(f'"{name}"' for name in got.column_names)
        counts = [
            answer(f"SELECT count(*) AS n FROM (SELECT {columns} FROM {a} EXCEPT ALL SELECT {columns} FROM {b})",
                   got=got, want=want).column("n")[0].as_py()
            for a, b in (("want", "got"), ("got", "want"))
        ]  # fmt: skip
        if any(counts):
            return f"{output}: {counts[0]} results missing or wrong, {counts[1]} that should not be there"
    return None


def held_table(title: str, parameter: str, both: Mapping[str, Points]) -> Table:
    """The peaks, value by value; the share is out of order over in order, with what is in hand."""
    shown = Table(title=f"{title}: peaks of what is held", title_justify="left")
    shown.add_column(parameter, justify="right")
    for architecture in both:
        for what in ("held", "MB", "with batch", "MB"):
            shown.add_column(f"{architecture}\n{what}", justify="right")
    shown.add_column("share", justify="right")
    for value in next(iter(both.values())):
        cells = []
        for points in both.values():
            own = points[value]
            cells += [f"{own['rows']:,.0f}", f"{own['bytes'] / MB:.2f}"]
            cells += [f"{own['all_rows']:,.0f}", f"{own['all_bytes'] / MB:.2f}"]
        shown.add_row(value, *cells, f"{share(both, value):.0%}" if len(both) == 2 else "")
    return shown


def share(both: Mapping[str, Points], value: str, what: str = "all_rows") -> float:
    """What is held out of order, as a share of what is held in order."""
    return both["out-of-order"][value][what] / both[IN_ORDER][value][what]


def grown(points: Points, what: str = "all_rows") -> float:
    """How many times as much is held with the last value as with the first."""
    amounts = [point[what] for point in points.values()]
    return amounts[-1] / amounts[0]


def bars(title: str, parameter: str, both: Mapping[str, Points], what: str, form: str = ",.0f") -> Table:
    """A figure for the terminal: a bar for every value and architecture."""
    most = max(point[what] for points in both.values() for point in points.values()) or 1
    shown = Table(title=title, title_justify="left", box=None, padding=(0, 1))
    shown.add_column(parameter, justify="right")
    for _ in range(3):
        shown.add_column()
    for value in next(iter(both.values())):
        for at, (architecture, points) in enumerate(both.items()):
            amount = points[value][what]
            bar = "█" * max(1, round(BAR * amount / most)) if amount else ""
            shown.add_row("" if at else value, architecture, f"[cyan]{bar}[/]", format(amount, form))
    return shown


def _value(name: str) -> str:
    """The value of the parameter that a box or an input belongs to."""
    return name.partition("-")[0]
