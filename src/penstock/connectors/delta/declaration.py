"""`pk.delta`: a Delta table, to be written as the target of an output, or to be read as an input."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.algebra.ticks import Duration, duration_ns
from penstock.connectors.connector import Journal
from penstock.connectors.delta.as_input import Changes, DeltaInput
from penstock.connectors.delta.as_target import DeltaTarget
from penstock.connectors.delta.input_feed import DeltaFeed
from penstock.connectors.delta.upkeep import COMPACT_EVERY
from penstock.connectors.delta.where_to_start import BEGINNING_WORD, Since, check_since
from penstock.connectors.targets.target import Mode, check_mode
from penstock.errors import QueryError
from penstock.storage.folder import Folder


@dataclass(frozen=True)
class Delta(DeltaTarget, DeltaInput):
    """A Delta table that is written or read, as it is used. Options of the other use are refused then."""

    def check(self, name: str, schema: pa.Schema, scratch: Folder) -> None:
        plain = DeltaInput(self.folder)
        self._refuse(
            "output",
            since=(self.since, plain.since),
            follow=(self.follow, plain.follow),
            changes=(self.changes, plain.changes),
        )
        super().check(name, schema, scratch)

    def open(self, schema: pa.Schema, journal: Journal) -> DeltaFeed:
        plain = DeltaTarget(self.folder)
        self._refuse(
            "input",
            mode=(self.mode, plain.mode),
            partition_by=(self.partition_by, plain.partition_by),
            compact=(self.compact, plain.compact),
        )
        return super().open(schema, journal)

    def describe(self) -> str:
        return DeltaInput.describe(self) + DeltaTarget.describe(self).removeprefix(DeltaInput(self.folder).describe())

    def _refuse(self, use: str, **options: tuple[object, object]) -> None:
        given = [f"{name}={value!r}" for name, (value, usual) in options.items() if value != usual]
        if given:
            raise QueryError(
                f"{given[0]} means nothing for a Delta table that is an {use}",
                found=", ".join(given),
                hint="declare the table once as an input and once as an output",
            )


def delta(
    path: str,
    *,
    mode: Mode = "append",
    partition_by: str | Sequence[str] = (),
    compact: int = COMPACT_EVERY,
    since: Since = BEGINNING_WORD,
    follow: bool = False,
    changes: Changes = "error",
    punctuation: bool | Duration = True,
    feedback: bool = False,
) -> Delta:
    """A Delta table, as the target of an output or as an input.

    As a target it is created if it is missing. Its small files are merged every `compact` transactions (0: never).
    `punctuation` says whether commits tell how far the stream has come; a step such as "1 minute" lets a batch
    without tuples make a commit only when a low-water mark passes a multiple of it.

    As an input it is read version by version, `since="beginning"`, a version, or a time. Without `follow=True` it ends
    with the version that is the newest when the run starts. `changes` is about versions that delete or rewrite rows: an
    "error", or they are "skip"ped, or the files that they add are "append"ed. `punctuation=False` leaves
    punctuation in the commits alone.

    With `feedback`, as an input that an `lmerge` with feedback reads: its writers are told which rows are of no use any
    more. As a target: tuples that are of no use to its readers are left out before any box sees them.
    """
    check_mode(mode)
    if compact < 0:
        raise QueryError("a table is compacted every so many transactions, or never (0)", found=f"compact={compact}")
    if changes not in ("error", "skip", "append"):
        raise QueryError(f"unknown changes={changes!r}", expected="'error', 'skip' or 'append'")
    check_since(since)
    _check_step(punctuation)
    columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    return Delta(
        Folder(str(path)),
        mode=mode,
        partition_by=columns,
        compact=compact,
        since=since,
        follow=follow,
        changes=changes,
        punctuation=punctuation,
        feedback=feedback,
    )


def _check_step(step: bool | Duration) -> None:
    if isinstance(step, str):
        duration_ns(step)
    elif not isinstance(step, bool | dt.timedelta) and (not isinstance(step, int) or step < 1):
        raise QueryError(f"punctuation={step!r} is no step", expected="True, False, a positive number, or a duration")
