"""lmerge: copies of a temporal stream as one (lmerge.md VI, Fig. 2 to 7), the operators alone, and one case on Spark.

Events are those of section VI-B: an integer from 0 to 400 and a text of 1000 bytes, gaps of up to 20 s, a twentieth of
all events active at a time. Every copy has its own disorder, revisions and stable points. `--rows` are the events,
`--groups` is the largest number of inputs.

- `ordered` (Fig. 2 and 3): copies in order, over the number of inputs. `small`: the same with texts of 16 bytes.
- `disorder`: 20% of the elements come late.
- `output` (Fig. 4): the adjusts that leave, over disorder; three inputs, as in all that follow.
- `lag` (Fig. 5): two of three copies are behind, by 0 to 5 s of 5,000 elements.
- `stable` (Fig. 6): 0.001% to 1% of the elements are stable points.
- `properties` (Fig. 7): half of the elements late, 36% adjusts: R3 against putting every copy in order first (C+R1).
- `spark`: two copies in Parquet files, through a network to another one; facts, not elements.

A copy brings trains of 4,096 elements (65,536 small ones) and says behind each how far it is stable. Time is that of
the operator alone, on what lies in memory. *MB* are the Arrow bytes that it holds between two batches, at most. Every
answer is compared with the events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table

from penstock_bench.contract import Clock, Job, Peer, Run, Size, named
from penstock_bench.our_lmerge import CLEANSED, drive, loads, warmed
from penstock_bench.our_lmerge_network import merged_files, write_copies

MB: Final = 2**20
SPARK: Final = "spark"
ALGORITHMS: Final[Mapping[str, Sequence[str]]] = {
    "ordered": ("R0", "R1", "R2", "R3", "R3-", "R4"),
    "small": ("R0", "R1", "R2", "R3", "R4"),
    "disorder": ("R3", "R3-", "R4"),
    "output": ("R3",),
    "lag": ("R3", "R4"),
    "stable": ("R0", "R1", "R2", "R3", "R4"),
    "properties": ("R3", "R3-", CLEANSED),
    SPARK: ("R0", "R3"),
}
PARAMETERS: Final = {"output": "disorder", "lag": "lag", "stable": "stable points"}
"""What a case is over, where it is not the number of inputs."""
SUMMARIES: Final = {
    "R0": "strictly ordered inserts",
    "R1": "ordered inserts, ties in one order",
    "R2": "ordered inserts, ties in any order",
    "R3": "one event for each time and payload, payloads once",
    "R3-": "the same, an index for each input",
    "R4": "anything",
    CLEANSED: "each copy put in order, then R1",
}


class LMergeBenchmark:
    """The benchmark."""

    name = "lmerge"
    summary = "copies of one stream as one: memory and elements/s over inputs, disorder, lag and stable points"
    size = Size(rows=200_000, groups=10)
    rounds = 1
    peers: Sequence[Peer] = tuple(
        Peer(algorithm, "penstock_bench.our_lmerge:drive", SUMMARIES[algorithm], case=case)
        for case, algorithms in ALGORITHMS.items()
        for algorithm in algorithms
    )
    growth: Sequence[tuple[str, str]] = ()

    def prepare(self, size: Size, data: Path, written: Callable[[int], None]) -> None:
        write_copies(size.rows, data)
        written(size.rows)  # elements are drawn as the run goes: the same for every peer

    def work(self, job: Job, clock: Clock) -> Mapping[str, Any]:
        peer = named(self.peers, job.peer)
        clock.stage("warm-up")
        if peer.case == SPARK:
            merged_files(peer.name, job.data, job.scratch / "warm-up")
            clock.start()
            rows, wrong = merged_files(peer.name, job.data, job.scratch / "out")
            clock.stop()
            return {"rows": rows, "wrong": wrong}
        chosen = loads(peer.case, job.size.rows, job.size.groups)
        warmed(next(iter(chosen.values())), peer.name)
        clock.start()
        found = {value: drive(load, peer.name) for value, load in chosen.items()}
        clock.stop()
        return {
            "rows": sum(each.elements for each in found.values()),
            "points": {value: each.told() for value, each in found.items()},
            "wrong": next((f"{value}: {each.wrong}" for value, each in found.items() if each.wrong), ""),
        }

    def check(self, job: Job, detail: Mapping[str, Any]) -> str | None:
        return detail["wrong"] or None

    def told(self, results: Mapping[str, Run]) -> dict[str, Any]:
        """What every algorithm reached, by case and parameter; and what was aimed at."""
        cases: dict[str, dict[str, Any]] = {}
        for run in results.values():
            name = run.peer.removesuffix(f"-{run.case}")
            points = run.detail.get("points") or {"2": {"rate": run.detail["rows"] / run.seconds}}
            cases.setdefault(run.case, {})[name] = points
        return {"lmerge": cases, "aims": aims(cases)}

    def shown(self, found: Mapping[str, Any]) -> Sequence[RenderableType]:
        return (*(grid(case, own) for case, own in found["lmerge"].items()), aims_table(found["aims"]))


LMERGE: Final = LMergeBenchmark()


def grid(case: str, algorithms: Mapping[str, Any]) -> Table:
    """All numbers of a case, a line for each value of its parameter."""
    shown = Table(title=f"{case}: M elements/s, and MB held at most", title_justify="left")
    shown.add_column(PARAMETERS.get(case, "inputs"), justify="right")
    for name in algorithms:
        shown.add_column(name, justify="right")
        if case != SPARK:
            shown.add_column("MB", justify="right")
    if case == "output":
        shown.add_column("adjusts in", justify="right")
        shown.add_column("adjusts out", justify="right")
    for value in next(iter(algorithms.values())):
        cells = []
        for own in algorithms.values():
            cells.append(f"{own[value]['rate'] / 1e6:.3f}")
            if case != SPARK:
                cells.append(f"{own[value]['state_bytes'] / MB:.2f}")
        if case == "output":
            point = next(iter(algorithms.values()))[value]
            cells += [f"{point['adjusts_in']:,}", f"{point['adjusts']:,}"]
        shown.add_row(value, *cells)
    return shown


def aims(cases: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """What was found of what was aimed at, as far as it was run."""
    found: list[dict[str, str]] = []

    def amounts(case: str, name: str, what: str) -> list[float]:
        return [float(point[what]) for point in cases.get(case, {}).get(name, {}).values()]

    def add(what: str, aim: str, over: Sequence[float], under: Sequence[float]) -> None:
        if over and under:
            found.append({"what": what, "found": f"{over[-1] / max(under[0], 1.0):.2f}", "aim": aim})

    for case in ("ordered", "disorder", "properties"):
        for name, aim in (("R3", "<= 1.5"), ("R3-", "as the inputs")):
            held = amounts(case, name, "state_bytes")
            add(f"{case}: MB of {name}, most inputs / fewest", aim, held, held)
    rates, held = ([amounts("properties", name, what) for name in ("R3", CLEANSED)] for what in ("rate", "state_bytes"))
    add(f"elements/s of R3 / {CLEANSED}, most inputs", ">= 2", rates[0], rates[1][-1:])
    add(f"MB of {CLEANSED} / R3, most inputs", ">= 5", held[1], held[0][-1:])
    for case, size, aim in (("small", 16, ">= 5"), ("ordered", 1000, ">= 1")):
        least = sorted(amounts(case, "R0", "rate"))[:1]
        add(f"M elements/s of R0, {size} bytes, least", aim, least, [1e6])
    return found


def aims_table(found: Sequence[Mapping[str, str]]) -> Table:
    shown = Table(title="aims", title_justify="left")
    for heading in ("what", "found", "aim"):
        shown.add_column(heading, justify="left" if heading == "what" else "right")
    for line in found:
        shown.add_row(line["what"], line["found"], line["aim"])
    return shown
