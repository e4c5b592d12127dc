"""What the output of R3 says of its events: by the policy when they come, and by the leading input at stable points.

```
 vs        of every event                      6
 ends      one column for every input          15   12   -
 out       that of the output                  10
```

An end that is `ABSENT` says that there is no such event, `END` that it has none yet. These are lmerge.md IV-D and V-A
on columns; all elements of a batch come before its stable point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.algebra.ticks import END
from penstock.boxes.lmerge.arrivals import ABSENT
from penstock.boxes.lmerge.policy import EAGER, EVERY, HALF_FROZEN, LEADING, MergePolicy
from penstock.operators.arrays import Mask, Numbers


@dataclass
class Events:
    """Events of one Vs and payload each, as columns."""

    vs: Numbers
    ends: npt.NDArray[np.int64]
    """Of every event, its end in each input."""
    out: Numbers
    """Its end in the output."""


@dataclass(frozen=True)
class Spoken:
    """Which input has spoken of which event in a batch; in the order of arrival, and only what was legal."""

    event: Numbers
    input: Numbers
    insert: Mask


@dataclass(frozen=True)
class Step:
    """From which stable point to which the output goes, and by whom."""

    before: int
    after: int
    inputs: Sequence[int]
    """The inputs, those that are furthest first."""

    @property
    def leader(self) -> int:
        return self.inputs[0]


def speak(events: Events, spoken: Spoken, step: Step, policy: MergePolicy) -> None:
    """Let the output say what the policy says at once."""
    if not len(spoken.event):
        return
    latest = np.full(len(events.vs), -1)
    latest[spoken.event] = spoken.input  # of several the last one stays
    absent = events.out == ABSENT
    if policy.adjust == EVERY:
        _follow(events, np.flatnonzero((latest >= 0) & ~absent), latest, step.before)
    if policy.insert == HALF_FROZEN:
        return
    told = spoken.insert if policy.insert != LEADING else spoken.input == step.leader
    fresh = np.zeros(len(events.vs), bool)
    fresh[spoken.event[told]] = True
    rows = np.flatnonzero(fresh & absent & (events.vs >= step.before))
    ends = events.ends[rows]
    present = ends != ABSENT
    inputs = ends.shape[1]
    needed = 1 if policy.insert in (EAGER, LEADING) else math.ceil(float(policy.insert) * inputs)
    chosen = np.argmax(present, axis=1) if inputs else np.zeros(0, np.int64)
    if policy.insert == LEADING:
        chosen = np.full(len(rows), step.leader)
    elif policy.adjust == EVERY:
        chosen = np.where(ends[np.arange(len(rows)), latest[rows]] != ABSENT, latest[rows], chosen)
    ready = present.sum(axis=1) >= needed
    events.out[rows[ready]] = ends[np.flatnonzero(ready), chosen[ready]]


def _follow(events: Events, rows: Numbers, latest: Numbers, before: int) -> None:
    """Let the output say what was said last, where it still may."""
    told, out, vs = events.ends[rows, latest[rows]], events.out[rows], events.vs[rows]
    removes = told == ABSENT
    may = np.where(removes, vs >= before, (told >= before) & (out >= before))
    events.out[rows[may]] = told[may]


def freeze(events: Events, step: Step, *, revises: bool) -> Mask:
    """Bring the output to the leading input where a stable point would make a difference last; what is let go of.

    What is let go of can change no more: its end, or that it does not exist, is frozen in the leading input.
    """
    due = events.vs < step.after
    if not due.any():
        return due
    new, out = events.vs >= step.before, events.out
    told = events.ends[:, step.leader].copy()
    # What was half frozen stays, even if the input that leads now has never had it: others say how long.
    for other in step.inputs[1:] if revises else ():
        told = np.where((told == ABSENT) & ~new, events.ends[:, other], told)
    ends_now = (told < step.after) | (out < step.after)  # absent is smaller than anything
    may = new | ((told >= step.before) & (out >= step.before))
    if not revises:
        may &= (told != ABSENT) & new
    changed = due & ends_now & may & (told != out)
    events.out[changed] = told[changed]
    return due & ((told < step.after) | (not revises) | (step.after == END))
