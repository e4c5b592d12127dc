"""What `penstock bench shapes` says: the matrix, the range of ratios, the aims, and where our time goes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table

from penstock_bench.contract import OURS, Run, labelled
from penstock_bench.shapes_cells import CATCH_UP, CELLS, PROFILE, STATELESS, STEADY, WINDOWED, Cell

PEERS: Final = ("spark-rocksdb", "spark-hdfs", "spark-panes", "duckdb")
ROCKSDB, HDFS, _, DUCKDB = PEERS
MOST_MB: Final = 2_048
MILLION: Final = 1_000_000
HEADINGS: Final = {"decode": "de-\ncode", "exchange": "ex-\nchange", "output": "out-\nput"}
"""So narrow that all steps stand side by side."""


@dataclass(frozen=True)
class Aim:
    """The least ratio to some peers, in some cells of a mode."""

    text: str
    least: float
    mode: str
    peers: Sequence[str]
    cells: Callable[[Cell], bool]


def _windowed(cell: Cell) -> bool:
    return cell.kind == WINDOWED


def _distinct(cell: Cell) -> bool:
    return cell.name in ("distinct", "distinct-low")


AIMS: Final = (
    Aim("catch-up, windowed, over spark-rocksdb", 5, CATCH_UP, (ROCKSDB,), _windowed),
    Aim("catch-up, windowed, over spark-hdfs", 4, CATCH_UP, (HDFS,), _windowed),
    Aim(
        "catch-up, windowed but for distinct, over duckdb",
        1 / 2,
        CATCH_UP,
        (DUCKDB,),
        lambda cell: _windowed(cell) and not _distinct(cell),
    ),
    Aim(
        "catch-up, distinct and stateless, over duckdb",
        1 / 3,
        CATCH_UP,
        (DUCKDB,),
        lambda cell: _distinct(cell) or cell.kind == STATELESS,
    ),
    Aim("catch-up, stateless, over native", 3, CATCH_UP, (ROCKSDB, HDFS), lambda cell: cell.kind == STATELESS),
    Aim("steady, windowed, over spark-rocksdb", 8, STEADY, (ROCKSDB,), _windowed),
    Aim("steady, windowed, over spark-hdfs", 5, STEADY, (HDFS,), _windowed),
    Aim("catch-up, from CSV, over native", 3, CATCH_UP, (ROCKSDB, HDFS), lambda cell: cell.name == "csv"),
    Aim("catch-up, from JSON lines, over native", 2.5, CATCH_UP, (ROCKSDB, HDFS), lambda cell: cell.name == "json"),
    Aim("first result in a fresh process, over native", 1, CATCH_UP, (ROCKSDB, HDFS), lambda cell: cell.fresh),
)


def told(results: Mapping[str, Run]) -> dict[str, Any]:
    """The cells that ran, by case; the range of the ratios to each peer; the aims; and the profile, if there is one."""
    cells = {
        each.case(mode): _cell(each, mode, results)
        for each in CELLS
        for mode in each.modes
        if any(run.case == each.case(mode) for run in results.values())
    }
    return {"cells": cells, "range": _range(cells), "aims": _aims(cells)} | _profile(results)


def _cell(cell: Cell, mode: str, results: Mapping[str, Run]) -> dict[str, Any]:
    case = cell.case(mode)
    own = {name: results[labelled(name, case)] for name in (OURS, *PEERS) if labelled(name, case) in results}
    ours = own.get(OURS)
    return {
        "cell": cell.name,
        "mode": mode,
        "summary": cell.summary,
        "rows": next((run.rows for run in own.values()), 0),
        "fresh": cell.fresh,
        "peers": {
            name: {
                "seconds": run.seconds,
                "rows_per_s": run.rows_per_s,
                "peak_pss_mb": run.peak_pss_mb,
                "correct": run.correct,
                **({"ratio": ours.rows_per_s / run.rows_per_s} if ours is not None and name != OURS else {}),
            }
            for name, run in own.items()
        },
    }


def _range(cells: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The worst, the median and the best ratio to each peer, over all cells and modes, and where."""
    found = {}
    for peer in PEERS:
        ratios = _ratios(cells, peer)
        if ratios:
            worst, best = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
            found[peer] = {
                "worst": {"case": worst, "ratio": ratios[worst]},
                "median": statistics.median(ratios.values()),
                "best": {"case": best, "ratio": ratios[best]},
                "cases": len(ratios),
            }
    return found


def _ratios(cells: Mapping[str, Mapping[str, Any]], peer: str) -> dict[str, float]:
    # The start of a process is no throughput: it has an aim of its own.
    return {
        case: own["peers"][peer]["ratio"]
        for case, own in cells.items()
        if "ratio" in own["peers"].get(peer, {}) and not own["fresh"]
    }


def _aims(cells: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What is aimed at, and the worst that was found; nothing of what did not run."""
    found: list[dict[str, Any]] = []
    for aim in AIMS:
        ratios = {
            each.case(aim.mode): cells[each.case(aim.mode)]["peers"][peer]["ratio"]
            for each in CELLS
            for peer in aim.peers
            if aim.cells(each) and "ratio" in cells.get(each.case(aim.mode), {}).get("peers", {}).get(peer, {})
        }
        if ratios:
            worst = min(ratios, key=ratios.__getitem__)
            found.append(
                {"aim": aim.text, "least": aim.least, "found": ratios[worst], "case": worst}
                | {"met": ratios[worst] >= aim.least}
            )
    memory = {case: own["peers"][OURS]["peak_pss_mb"] for case, own in cells.items() if OURS in own["peers"]}
    if memory:
        most = max(memory, key=memory.__getitem__)
        found.append(
            {"aim": "peak PSS of ours in MB", "most": MOST_MB, "found": memory[most], "case": most}
            | {"met": memory[most] < MOST_MB}
        )
    return found


def _profile(results: Mapping[str, Run]) -> dict[str, Any]:
    steps = {run.case: {"rows": run.rows, **run.detail["steps"]} for run in results.values() if "steps" in run.detail}
    return {"profile": steps} if steps else {}


def shown(found: Mapping[str, Any]) -> Sequence[RenderableType]:
    """Tables for people."""
    own = found["shapes"]
    parts = [matrix(found)]
    if own["range"]:
        parts.append(range_table(own["range"]))
    if own["aims"]:
        parts.append(aims_table(own["aims"]))
    if "profile" in own:
        parts.append(profile_table(own["profile"]))
    return parts


def matrix(found: Mapping[str, Any]) -> Table:
    """A line for every cell and mode; beside each peer how many times as fast as it we are."""
    cells, unanswered = found["shapes"]["cells"], found.get("unanswered", {})
    peers = [name for name in PEERS if any(name in own["peers"] for own in cells.values())]
    title = f"shapes: {found['rows']:,} rows, {found['groups']:,} groups; M rows/s (ratio of ours)"
    table = Table(title=title, title_justify="left")
    table.add_column("case", no_wrap=True)
    for heading in (OURS, "peak PSS MB", *peers):
        table.add_column(heading, justify="right")
    for case, own in cells.items():
        ours = own["peers"].get(OURS)
        table.add_row(
            case,
            _rate(own, OURS) if ours else _none(OURS, case, unanswered),
            f"{ours['peak_pss_mb']:,.0f}" if ours else "",
            *(_rate(own, name) if name in own["peers"] else _none(name, case, unanswered) for name in peers),
        )
    return table


def _rate(own: Mapping[str, Any], name: str) -> str:
    result = own["peers"][name]
    reached = f"{result['seconds']:.1f} s" if own["fresh"] else f"{result['rows_per_s'] / MILLION:.3g}"
    ratio = f" ({result['ratio']:.2f})" if "ratio" in result else ""
    return f"{reached}{ratio}" if result["correct"] else f"[bold red]WRONG {reached}[/]{ratio}"


def _none(name: str, case: str, unanswered: Mapping[str, str]) -> str:
    return "no answer" if labelled(name, case) in unanswered else "-"


def range_table(ranges: Mapping[str, Any]) -> Table:
    table = Table(title="ratio of ours over all cells and modes", title_justify="left")
    for heading in ("over", "worst", "in", "median", "best", "in", "cases"):
        table.add_column(heading, justify="left" if heading in ("over", "in") else "right", no_wrap=True)
    for name, own in ranges.items():
        worst, best = own["worst"], own["best"]
        cells = (f"{worst['ratio']:.2f}", worst["case"], f"{own['median']:.2f}", f"{best['ratio']:.2f}", best["case"])
        table.add_row(name, *cells, str(own["cases"]))
    return table


def aims_table(aims: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="aims, and the worst that was found", title_justify="left")
    for heading in ("what", "aim", "found", "in", "met"):
        table.add_column(heading, justify="right" if heading in ("aim", "found") else "left")
    for aim in aims:
        wanted = f"at least {aim['least']:.3g}" if "least" in aim else f"below {aim['most']:,}"
        reached = f"{aim['found']:.2f}" if "least" in aim else f"{aim['found']:,.0f}"
        table.add_row(aim["aim"], wanted, reached, aim["case"], "yes" if aim["met"] else "[bold red]no[/]")
    return table


def profile_table(profile: Mapping[str, Mapping[str, float]]) -> Table:
    """Nanoseconds that a row takes on a core in every step, and those in which it waits for one or for a disk."""
    steps = [name for name in next(iter(profile.values())) if name != "rows"]
    title = f"{PROFILE}: ns a row on a core; one process, engine='local', trains as in that case"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("case", no_wrap=True)
    for step in (*steps, "all"):
        table.add_column(HEADINGS.get(step, step), justify="right")
    for case, own in profile.items():
        each = [own[name] * 1e9 / own["rows"] for name in steps]
        table.add_row(case, *(f"{value:.0f}" for value in each), f"{sum(each):.0f}")
    return table
