"""`penstock check`: simulated crashes, power cuts, damage and rival processes, against runs that nothing disturbs."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import pairwise
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from penstock.simulation.case import CASES_PER_NETWORK, FAULTS, Outcome, run_case

_SHOWN = 10
"""Cases that went wrong and are shown."""
_AHEAD = 4
"""Networks that wait for each process, so that none of them does."""


def check(
    cases: Annotated[int, typer.Option(min=1, help="How many cases.")] = 2_000,
    seed: Annotated[int, typer.Option(min=0, help="The number of the first case: the same number, the same case.")] = 0,
    jobs: Annotated[int, typer.Option(min=0, help="How many processes; 0 for one to each core.")] = 0,
) -> None:
    """Try out faults: random networks are killed, lose power, lose files and meet rivals, and must come out right."""
    console = Console()
    told: Counter[tuple[str, str]] = Counter()
    wrong: list[Outcome] = []
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("cases", total=cases)
        for outcome in _outcomes(seed, seed + cases, jobs or os.cpu_count() or 1):
            told[outcome.fault, _verdict(outcome)] += 1
            if outcome.wrong is not None:
                wrong.append(outcome)
                if len(wrong) <= _SHOWN:
                    what = f"{outcome.fault}, {outcome.engine}, {outcome.lives} lives"
                    _say(console, f"case {outcome.seed} ({what}): {outcome.wrong}", "red")
            bar.advance(task)
    console.print(_table(told))
    if wrong:
        again = "penstock check --cases 1 --seed NUMBER"
        _say(console, f"{len(wrong):,} of {cases:,} cases went wrong; to see one again: {again}", "red")
        raise typer.Exit(1)
    _say(console, f"{cases:,} cases: nothing lost, doubled or silently different", "green")


def _say(console: Console, text: str, style: str) -> None:
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def _outcomes(first: int, last: int, jobs: int) -> Iterator[Outcome]:
    """The outcomes of all cases, as they come; those that share a network go to one process."""
    cuts = sorted({first, last, *range(first - first % CASES_PER_NETWORK, last, CASES_PER_NETWORK)} - set(range(first)))
    chunks = pairwise(cuts)
    if jobs == 1 or last - first <= CASES_PER_NETWORK:
        for start, end in chunks:
            yield from _run(start, end)
        return
    # Not forked: a process that has begun to compute must not be copied.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting: set[Future[list[Outcome]]] = set()
        try:
            while True:
                while len(waiting) < jobs * _AHEAD and (chunk := next(chunks, None)) is not None:
                    waiting.add(pool.submit(_run, *chunk))
                if not waiting:
                    return
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield from future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _run(first: int, last: int) -> list[Outcome]:
    return [run_case(seed) for seed in range(first, last)]


def _verdict(outcome: Outcome) -> str:
    return "wrong" if outcome.wrong is not None else "refused" if outcome.refused is not None else "right"


def _table(told: Counter[tuple[str, str]]) -> Table:
    table = Table("fault", "right", "refused", "wrong")
    for fault in dict.fromkeys(FAULTS):
        table.add_row(fault, *(f"{told[fault, verdict]:,}" for verdict in ("right", "refused", "wrong")))
    return table
