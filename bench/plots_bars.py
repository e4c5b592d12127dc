"""Figures that compare by bars: what peers reach, where the time of a batch goes, and what a ring buffer stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock_bench.contract import OURS, Benchmark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OUR_COLOUR, THEIR_COLOUR = "#0072b2", "#999999"
COLOURS: Final = ("#d55e00", "#56b4e9", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#000000")
"""Told apart by those who see red and green alike, too."""
HALVES: Final = {"low": "low level alone", "stage": "stage, with the high level behind it"}
MILLION: Final = 1_000_000
UNITS: Final = (("million ", MILLION), ("thousand ", 1_000), ("", 1))


def throughput(figure: Figure, bench: Benchmark, found: Mapping[str, Any]) -> None:
    """Rows a second by peer."""
    figure.set_size_inches(8, 1.2 + 0.4 * len(found["results"]))
    rates(figure.subplots(), bench, found)


def floor(figure: Figure, bench: Benchmark, found: Mapping[str, Any]) -> None:
    """Tuples a second, one at a time; and where the milliseconds of a batch go."""
    floors = found["floor"]
    figure.set_size_inches(8, 2.4 + 0.9 * len(floors))
    above, below = figure.subplots(2, 1)
    rates(above, bench, found, "tuples, one at a time,")
    parts = dict.fromkeys(part for own in floors.values() for part in own["parts"])
    names = list(floors)
    left = [0.0] * len(names)
    for at, part in enumerate(parts):
        widths = [own["parts"].get(part, 0) for own in floors.values()]
        below.barh(names, widths, left=left, color=COLOURS[at % len(COLOURS)], label=part)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    latencies = [own["latency_ms"] for own in floors.values()]
    below.plot(latencies, names, linestyle="none", marker="D", color="black", label="latency of a result")
    below.set(title="one tuple to a micro-batch, medians in ms")
    below.invert_yaxis()
    below.grid(visible=False, axis="y")
    below.legend(loc="upper left", bbox_to_anchor=(1, 1))


def turns(figure: Figure, bench: Benchmark, found: Mapping[str, Any]) -> None:
    """Rows a second by peer; and every turn that they took within a process."""
    if "turns" not in found:
        throughput(figure, bench, found)
        return
    seconds = found["turns"]["seconds"]
    figure.set_size_inches(8, 4.4 + 0.4 * len(found["results"]))
    above, below = figure.subplots(2, 1, height_ratios=(1, 2))
    rates(above, bench, found)
    rounds = [len(own) for own in next(iter(seconds.values()))]
    for at, (name, own) in enumerate(seconds.items()):
        start = 0
        colour = COLOURS[at % len(COLOURS)]
        for number, each in enumerate(own):
            places = range(start + 1, start + 1 + len(each))
            below.plot(places, each, color=colour, marker="o", label="_" if number else name)
            start += len(each) + 1
    _between_rounds(below, rounds)
    below.set(title="seconds, turn by turn; every round in a process of its own", xlabel="turn")
    below.set_ylim(bottom=0)
    below.legend(loc="lower right")


def smoothing(figure: Figure, bench: Benchmark, found: Mapping[str, Any]) -> None:
    """Fig. 9 of oop.md: the highest rate by groups, size of the table and way to flush; a panel for every ring."""
    told = found["smoothing"]
    cells = _cells(told)
    # Whatever has rates is drawn, for all rings that it has rates of.
    measured = [(half, own["rates"]) for _, _, cell in cells for each in cell.values() for half, own in _halves(each)]
    halves = list(dict.fromkeys(half for half, _ in measured))
    rings = list(dict.fromkeys(ring for _, by_ring in measured for ring in by_ring))
    figure.set_size_inches(7 * len(halves), 2.8 * len(rings))
    panels = figure.subplots(len(rings), len(halves), squeeze=False, sharey="col")
    flushes = list(dict.fromkeys(flush for _, _, own in cells for flush in own))
    width = 0.8 / len(flushes)
    cases = list(dict.fromkeys(case for _, case, _ in cells))
    middles = [at + 0.5 * cases.index(case) for at, (_, case, _) in enumerate(cells)]  # a gap between cases
    for line, ring in enumerate(rings):
        for column, half in enumerate(halves):
            axes = panels[line, column]
            for at, flush in enumerate(flushes):
                heights = [_rate(own.get(flush, {}), half, ring) / MILLION for _, _, own in cells]
                places = [middle + (at - (len(flushes) - 1) / 2) * width for middle in middles]
                axes.bar(places, heights, width, label=flush, color=COLOURS[at % len(COLOURS)])
            axes.set(title=f"{HALVES.get(half, half)}, a ring of {ring} trains", ylabel="M packets/s")
            axes.set_xticks(middles, [label for label, _, _ in cells])
            axes.grid(visible=False, axis="x")
    for axes in panels[-1]:
        axes.set_xlabel("entries in the table for each group; groups")
    panels[0, 0].legend(ncols=len(flushes))


def point_query(figure: Figure, bench: Benchmark, found: Mapping[str, Any]) -> None:
    """Seconds by peer, and the share of the point's bytes that each has read."""
    read = found["point_query"]["read"]
    names = list(read)
    figure.set_size_inches(8, 1.8 + 0.5 * len(names))
    seconds, shares = figure.subplots(1, 2, sharey=True)
    colours = [OUR_COLOUR if name.startswith(OURS) else THEIR_COLOUR for name in names]
    bars = seconds.barh(names, [read[name]["seconds"] for name in names], color=colours)
    seconds.bar_label(bars, [f"{read[name]['seconds']:.2f}" for name in names], padding=3)
    seconds.set(title="seconds")
    bars = shares.barh(names, [100 * read[name]["share"] for name in names], color=colours)
    shares.bar_label(bars, [f"{read[name]['share']:.1%}" for name in names], padding=3)
    shares.set(title="bytes read, % of those in the point")
    for axes in (seconds, shares):
        axes.margins(x=0.15)
        axes.grid(visible=False, axis="y")
    seconds.invert_yaxis()


def rates(axes: Axes, bench: Benchmark, found: Mapping[str, Any], what: str = "rows") -> None:
    """A bar for every peer; peers of a case stand together."""
    results = found["results"]
    peers = {peer.label: peer for peer in bench.peers}
    known = {name: (peers[name].name, peers[name].case) if name in peers else (name, "") for name in results}
    cases = list(dict.fromkeys(case for _, case in known.values()))
    names = sorted(results, key=lambda name: cases.index(known[name][1]))
    places, at = [], 0.0
    for before, name in zip(["", *names], names, strict=False):
        at += 1.4 if before and known[before][1] != known[name][1] else 1.0
        places.append(at)
    most = max(result["rows_per_s"] for result in results.values())
    unit, scale = next((each for each in UNITS if most >= each[1]), UNITS[-1])
    widths = [results[name]["rows_per_s"] / scale for name in names]
    colours = [OUR_COLOUR if known[name][0].startswith(OURS) else THEIR_COLOUR for name in names]
    bars = axes.barh(places, widths, color=colours)
    axes.bar_label(bars, [f"{width:.3g}" if width < 100 else f"{width:,.0f}" for width in widths], padding=3)
    axes.set_yticks(places, names)
    axes.set(title=f"{unit}{what} a second")
    axes.margins(x=0.1)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")


def _between_rounds(axes: Axes, rounds: Sequence[int]) -> None:
    ticks: dict[int, str] = {}
    start = 0
    for number, count in enumerate(rounds, 1):
        ticks.update({start + turn: str(turn) for turn in range(1, count + 1)})
        ticks[start + 1] += f"\nround {number}"
        start += count + 1
    axes.set_xticks(list(ticks), list(ticks.values()))


def _cells(told: Mapping[str, Any]) -> list[tuple[str, str, dict[str, Mapping[str, Any]]]]:
    """(what stands below, case, what each way to flush reached), by number of groups and size of the table."""
    cases: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, own in told.items():
        cases.setdefault(own["case"], {})[name.removesuffix(f"-{own['case']}")] = own
    found = []
    for case, flushes in cases.items():
        one = next(iter(flushes.values()))
        sizes = list(one["tables"])
        for at, size in enumerate(sizes):
            below = f"\n{one['groups']:,}" if at == len(sizes) // 2 else ""
            found.append((f"{size}{below}", case, {name: own["tables"].get(size, {}) for name, own in flushes.items()}))
    return found


def _halves(cell: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(name, own) for name, own in cell.items() if isinstance(own, Mapping) and "rates" in own]


def _rate(cell: Mapping[str, Any], half: str, ring: str) -> float:
    """Nothing, where this was not measured."""
    return float(cell.get(half, {}).get("rates", {}).get(ring, 0))
