"""What a benchmark says at its end: a table for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from penstock_bench.contract import Benchmark, Run, Size
from penstock_bench.measure import growth, ratios


def document(bench: Benchmark, size: Size, results: Mapping[str, Run]) -> dict[str, Any]:
    """The results as JSON: `ratios` are ours over theirs, in rows per second; `growth` compares seconds.

    A benchmark that has more to say does so in `told(results)`, and shows it with `shown(found)`.
    """
    found: dict[str, Any] = {
        "bench": bench.name,
        "rows": size.rows,
        "groups": size.groups,
        "results": {
            name: {
                "seconds": run.seconds,
                "rows_per_s": run.rows_per_s,
                "peak_rss_mb": run.peak_rss_mb,
                "correct": run.correct,
            }
            for name, run in results.items()
        },
        "ratios": ratios(results),
    }
    told = getattr(bench, "told", None)
    if told is not None:
        found.update(told(results))
    grown = growth(bench.growth, results)
    if grown:
        found["growth"] = grown
    floors = {
        name: {key: run.detail[key] for key in ("batch_ms", "latency_ms", "parts")}
        for name, run in results.items()
        if "batch_ms" in run.detail
    }
    if floors:
        found["floor"] = floors
    return found


def table(found: Mapping[str, Any]) -> Table:
    """The results side by side; the ratio says how many times as fast as that peer we are."""
    shown = Table(title=f"{found['bench']}: {found['rows']:,} rows, {found['groups']:,} groups", title_justify="left")
    shown.add_column("name")
    for heading in ("seconds", "M rows/s", "peak RSS MB", "correct", "ratio"):
        shown.add_column(heading, justify="right")
    for name, result in found["results"].items():
        ratio = found["ratios"].get(name)
        shown.add_row(
            name,
            f"{result['seconds']:.2f}",
            f"{result['rows_per_s'] / 1e6:.3g}",
            f"{result['peak_rss_mb']:,.0f}",
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


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
