"""How a run is arranged now, in words: what its boxes cost, what the optimizer has changed, and what that has saved."""

from __future__ import annotations

from itertools import pairwise

from penstock.plan.explain import explain
from penstock.plan.plan import Plan
from penstock.runtime.board import Board
from penstock.runtime.box_statistics import BoxStatistics
from penstock.runtime.job import Job
from penstock.runtime.optimizer import Change, known_of
from penstock.runtime.versions import Version


def explain_live(job: Job, newest: Version) -> str:
    """The plan as a run has it now, with statistics and changes."""
    known = known_of(job.checkpoint)
    statistics = known.statistics
    records = [r for r in Board(job.board).recent() if r.batch >= statistics.batch]
    for before, record in pairwise(records):
        # What has been done since they were last saved.
        statistics = statistics.after(before, record)
    since = "has not begun yet" if newest.batch is None else f"since batch {newest.batch}"
    lines = [explain(job.plan), "", f"version {newest.number}, {since}"]
    return "\n".join([*lines, "", *_boxes(job.plan, statistics), "", *_changes(known.changes)])


def _boxes(plan: Plan, known: BoxStatistics) -> list[str]:
    if not known.boxes:
        return ["no statistics yet: they come with batches"]
    head = ("box", "us/tuple", "selectivity", "tuples/batch", "(1 - s) / c")
    names = [name for box in plan.network.boxes for name in plan.stands_for(box) if name in known.boxes]
    rows = [head]
    for name in dict.fromkeys(names):
        box = known.boxes[name]
        rank = f"{(1 - box.selectivity) / box.seconds / 1e6:.3g}" if box.seconds > 0 else ""
        rows.append((name, f"{box.seconds * 1e6:.3g}", f"{box.selectivity:.3g}", f"{box.tuples:,.0f}", rank))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    title = f"statistics after batch {known.batch}; a call costs {known.call * 1e3:.2g} ms"
    table = ["  " + "  ".join(_aligned(row, widths)).rstrip() for row in rows]
    return [title, *table]


def _aligned(row: tuple[str, ...], widths: list[int]) -> list[str]:
    return [
        cell.rjust(width) if number else cell.ljust(width)
        for number, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _changes(changes: tuple[Change, ...]) -> list[str]:
    if not changes:
        return ["the optimizer has changed nothing"]
    lines = ["changes by the optimizer"]
    for change in changes:
        what = "taken back" if change.taken_back else f"expected to save {change.expected:.0%}"
        lines.append(f"  after batch {change.batch}, version {change.version}: {what}, {_saved(change)}")
        lines += [f"    from {', '.join(change.before)}", f"    to   {', '.join(change.after)}"]
    return lines


def _saved(change: Change) -> str:
    """What came of a change."""
    if change.cost_before is None or change.cost_after is None:
        return "not measured yet"
    before, after = change.cost_before * 1e6, change.cost_after * 1e6
    return f"all boxes took {before:.3g} us for a tuple before and {after:.3g} us after it"
