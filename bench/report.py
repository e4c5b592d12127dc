"""What a benchmark says at its end: a table for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from penstock.errors import WorldError
from penstock_bench.contract import Benchmark, Run, Size
from penstock_bench.measure import growth, in_turns, ratios

PROMISED: Final = ("bench", "rows", "groups", "results", "ratios")
"""What the results of every benchmark have."""


def document(
    bench: Benchmark, size: Size, results: Mapping[str, Run], runs: Mapping[str, Sequence[Run]] | None = None
) -> dict[str, Any]:
    """The results as JSON: `ratios` are ours over theirs, in rows per second; `growth` compares seconds.

    Who gave no answer is `unanswered`, with the reason. Of a benchmark whose peers take turns within a process, all
    `runs` are told as `turns`.

    A benchmark that has more to say does so in `told(results)`, and shows it with `shown(found)`.
    """
    unanswered = {name: run.failure for name, run in results.items() if run.failure}
    results = {name: run for name, run in results.items() if not run.failure}
    found: dict[str, Any] = {
        "bench": bench.name,
        "rows": size.rows,
        "groups": size.groups,
        "results": {
            name: {
                "seconds": run.seconds,
                "rows_per_s": run.rows_per_s,
                "peak_pss_mb": run.peak_pss_mb,
                "correct": run.correct,
            }
            for name, run in results.items()
        },
        "ratios": ratios(results),
    }
    if unanswered:
        found["unanswered"] = unanswered
    told = getattr(bench, "told", None)
    if told is not None:
        found.update(told(results))
    if runs is not None and hasattr(bench, "turns"):
        # The best of two peers may be of different processes: pairs are compared within one.
        found["turns"] = in_turns(bench.growth, runs)
    elif grown := growth(bench.growth, results):
        found["growth"] = grown
    floors = {
        name: {key: run.detail[key] for key in ("batch_ms", "latency_ms", "parts")}
        for name, run in results.items()
        if "batch_ms" in run.detail
    }
    if floors:
        found["floor"] = floors
    return found


def load(file: Path) -> dict[str, Any]:
    """Results that `--json` has written."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise WorldError(
            f"'{file}' cannot be read", expected="a file that --json wrote", found=error.strerror or str(error)
        ) from error
    except ValueError as error:
        raise WorldError(f"'{file}' is not JSON", expected="a file that --json wrote", found=str(error)) from error
    missing = [key for key in PROMISED if not isinstance(found, dict) or key not in found]
    if missing:
        raise WorldError(
            f"'{file}' has no results of a benchmark",
            expected="a file that --json wrote",
            found=f"JSON without {', '.join(missing)}",
        )
    told: dict[str, Any] = found
    for result in told["results"].values():
        if "peak_rss_mb" in result:  # what it was called in results of before, though it always was PSS
            result["peak_pss_mb"] = result.pop("peak_rss_mb")
    return told


def table(found: Mapping[str, Any]) -> Table:
    """The results side by side; the ratio says how many times as fast as that peer we are."""
    shown = Table(title=f"{found['bench']}: {found['rows']:,} rows, {found['groups']:,} groups", title_justify="left")
    shown.add_column("name")
    for heading in ("seconds", "M rows/s", "peak PSS MB", "correct", "ratio"):
        shown.add_column(heading, justify="right")
    for name, result in found["results"].items():
        ratio = found["ratios"].get(name)
        shown.add_row(
            name,
            f"{result['seconds']:.2f}",
            f"{result['rows_per_s'] / 1e6:.3g}",
            f"{result['peak_pss_mb']:,.0f}",
            "yes" if result["correct"] else "[bold red]NO[/]",
            "" if ratio is None else f"{ratio:.2f}",
        )
    return shown


def floor_table(found: Mapping[str, Any]) -> Table:
    """Where the milliseconds of a micro-batch go, part by part."""
    floors = found["floor"]
    shown = Table(title="one tuple to a micro-batch, medians in ms", title_justify="left")
    shown.add_column("part")
    for name in floors:
        shown.add_column(name, justify="right")
    parts = list(dict.fromkeys(part for floor in floors.values() for part in floor["parts"]))
    for part in parts:
        shown.add_row(part, *(_ms(floor["parts"].get(part)) for floor in floors.values()))
    shown.add_section()
    shown.add_row("batch", *(_ms(floor["batch_ms"]) for floor in floors.values()))
    shown.add_row("latency of a result", *(_ms(floor["latency_ms"]) for floor in floors.values()))
    return shown


def turns_table(found: Mapping[str, Any]) -> Table:
    """How long turns within the same process took, round by round, and how many times as long as another's."""
    peers, ratios = found["turns"]["peers"], found["turns"]["ratios"]
    pairs = {pair.partition(" / ")[0]: own for pair, own in ratios.items()}
    shown = Table(title=f"in turns within one process: {', '.join(ratios)}", title_justify="left")
    for heading in ("round", "name", "best s", "median s", "ratio of the best", "of medians"):
        shown.add_column(heading, justify="left" if heading in ("round", "name") else "right")
    rounds = max(len(own["rounds"]) for own in peers.values())
    for at, heading in enumerate([*(str(number + 1) for number in range(rounds)), "all"]):
        for line, (name, own) in enumerate(peers.items()):
            cells = [f"{amount:.2f}" for amount in _of_round(own, at).values()]
            if name in pairs:
                cells += [f"{amount:.3f}" for amount in _of_round(pairs[name], at).values()]
            shown.add_row("" if line else heading, name, *cells)
        shown.add_section()
    return shown


def _of_round(own: Mapping[str, Any], at: int) -> Mapping[str, float]:
    rounds: Sequence[Mapping[str, float]] = [*own["rounds"], own["all"]]
    return rounds[at]


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
