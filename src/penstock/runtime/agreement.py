"""Before a run goes on: do all pieces of its checkpoint, and its outputs, speak of the same batch?

The board's records, the state of every bucket, the kept results, Spark's own logs and what each target says of itself
are compared. The run goes back to the last batch that is whole on all sides, and does those behind it again, just as
they were planned: processing is deterministic, so that repairs whatever was lost or damaged. What replay cannot repair
is refused, with what was found.
"""

from __future__ import annotations

import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor

from penstock.algebra.box import Output
from penstock.connectors.targets.kept_results import SETTLED, KeptResults, Results
from penstock.connectors.targets.target import enrolled_place, is_enrolled, move_place
from penstock.errors import WorldError
from penstock.runtime.board import Board, Record
from penstock.runtime.job import Job
from penstock.runtime.memo import Memo
from penstock.runtime.spark_log import SparkLog
from penstock.storage.folder import Folder
from penstock.storage.sealed import damaged
from penstock.storage.state import State, forget_after

LOG = logging.getLogger("penstock.agreement")
_READERS = 8
"""Buckets whose state is read at a time."""
_ANOTHER = "restore what belongs together from copies of the same time, or start with another checkpoint"


def last_epoch(checkpoint: Folder) -> int:
    """The epoch of the last record that can be read; 0 if there is none."""
    board = Board(checkpoint.child("board"))
    for batch in reversed(board.batches()):
        with contextlib.suppress(WorldError):
            return board.at(batch).epoch
    return 0


def agree(job: Job, *, always_synced: bool = False) -> None:
    """Make all pieces be of one batch, or refuse. It helps to know that every run of the checkpoint has synced."""
    board, log = Board(job.board, job.epoch), SparkLog(job.spark)
    job.check_claim()
    if always_synced:
        board.forget_unreadable_plans()
    posted = board.batches()
    begun = max([*posted, *board.planned(), log.committed()], default=-1)
    whole, found = _last_whole(job, board, posted)
    if whole < begun:
        _secure_plans(job, board, log, whole, begun, found)
    if found is not None:
        to = f"to batch {whole}" if whole >= 0 else "to its beginning"
        LOG.warning("%s goes back %s, and does what was behind it again: %s", job.checkpoint.path, to, found)
    _forget_after(job, board, whole)
    _check_targets(job, board, whole)


def _forget_after(job: Job, board: Board, whole: int) -> None:
    """Take back all that is behind a batch, unless another process has done those batches in the meantime."""
    job.check_claim()
    first = board.at(whole).version
    board.forget_after(whole)
    for stage in range(1, max(_stages(job, version) for version in range(first, job.version + 1)) + 1):
        for bucket in range(job.settings.buckets):
            job.check_claim()
            forget_after(job.state(stage, bucket), whole)
    for output in job.plan.network.outputs:
        if isinstance(output.target, Results):
            job.check_claim()
            KeptResults(job.scratch(output.name)).forget_after(whole)


def _last_whole(job: Job, board: Board, posted: list[int]) -> tuple[int, WorldError | None]:
    """The last batch that is whole on all sides, and what is wrong with the newest if that is another one."""
    first: WorldError | None = None
    for batch in reversed(posted):
        try:
            _check_whole(job, board.at(batch))
            return batch, first
        except WorldError as error:
            first = first or error
    if posted and posted[0] > 0:
        assert first is not None
        raise WorldError(
            f"the checkpoint {job.checkpoint.path} cannot be gone on with: none of its last batches is whole",
            network=job.plan.network.name,
            found=str(first),
            hint=_ANOTHER,
        )
    return -1, first


def _check_whole(job: Job, record: Record) -> None:
    """Refuse a batch of which something is missing or damaged."""
    stages = range(1, _stages(job, record.version) + 1)
    places = [job.state(stage, bucket) for stage in stages for bucket in range(job.settings.buckets)]
    with ThreadPoolExecutor(min(len(places), _READERS) or 1) as pool:
        list(pool.map(lambda folder: _check_state(folder, record), places))
    for output in _outputs_of(job, record.version):
        if isinstance(output.target, Results):
            _check_kept(KeptResults(job.scratch(output.name)), job.scratch(output.name), output, record)


def _stages(job: Job, version: int) -> int:
    """How many stages a version of the network has."""
    if version == job.version or job.shelf is None:
        return job.plan.stages
    return job.shelf.versions.at(version).stages


def _outputs_of(job: Job, version: int) -> list[Output]:
    """The outputs of the network that were there already in an earlier version."""
    return [o for o in job.plan.network.outputs if job.births.get(f"output {o.name}", 1) <= version]


def _check_enrolled(scratch: Folder, *, used: bool) -> bool:
    """Whether an output has its writer; refused if it is gone though tuples may have left in its name."""
    if used and not is_enrolled(scratch):
        raise WorldError(
            f"the writer of an output is missing in {scratch.path}",
            expected="writer.json, under which the output has written",
            hint=_ANOTHER,
        )
    return is_enrolled(scratch)


def _check_state(folder: Folder, record: Record) -> None:
    state = State(folder, record.batch + 1)
    state.verify()
    if (Memo.from_json(state.memo).offset or record.digest) != record.digest:
        raise damaged(folder.path, f"the state of another plan of batch {record.batch}")


def _check_kept(kept: KeptResults, scratch: Folder, output: Output, record: Record) -> None:
    if not _check_enrolled(scratch, used=record.outputs.get(output.name, 0) > 0):
        return
    batches = kept.batches(record.batch)
    rows, wanted = kept.forgotten() + sum(batch.rows for batch in batches), record.outputs.get(output.name, 0)
    if rows != wanted:
        raise damaged(scratch.path, f"{rows:,} of the {wanted:,} tuples that output '{output.name}' has kept")
    recent = [batch for batch in batches if batch.batch > record.batch - SETTLED]
    kept.table(recent)
    for piece in {piece for batch in batches for piece in batch.pieces}:
        if not scratch.exists(piece.name) or scratch.size(piece.name) != piece.bytes:
            raise damaged(f"{scratch.path}/{piece.name}", "a file that is gone or cut short")


def _secure_plans(job: Job, board: Board, log: SparkLog, whole: int, begun: int, found: WorldError | None) -> None:
    """Batches that are done again must be just those that were done: their plans are found, or the run refuses."""
    elsewhere = any(s.connector.planned_elsewhere for s in job.plan.network.sources)
    for batch in range(whole + 1, begun + 1):
        plan: str | None = None
        for tell in (board.offset, board.planned_as, log.offset):
            with contextlib.suppress(WorldError):
                plan = plan if plan is not None else tell(batch)
        if plan is None or (elsewhere and batch > whole + 1):
            raise WorldError(
                f"the checkpoint {job.checkpoint.path} cannot be gone on with: batch {batch} was done, but "
                + ("nothing tells how it was planned" if plan is None else "Spark's inputs can go back one batch only"),
                network=job.plan.network.name,
                expected=f"every batch behind {whole}, the last that is whole, up to {begun}",
                found=str(found) if found is not None else None,
                hint=_ANOTHER,
            )
        board.keep_plan(batch, plan)


def _check_targets(job: Job, board: Board, whole: int) -> None:
    """Compare what every target outside of the checkpoint says of itself with what the run knows of it."""
    record, planned = board.at(whole), board.planned()
    for output in _outputs_of(job, record.version):
        scratch, target = job.scratch(output.name), job.target(output)
        if not target.outside or not _check_enrolled(scratch, used=bool(planned) or output.name in record.committed):
            continue
        place, since = enrolled_place(scratch)
        if place != target.describe():
            # An output may be sent elsewhere from now on: what has left went to the place that it had then.
            move_place(scratch, target.describe(), whole)
            continue
        wanted = record.committed.get(output.name, -1)
        last = target.last_committed(scratch)
        if wanted > since and last < wanted:
            raise _disagree(job, output, f"tuples of batch {wanted}", last, "its output was deleted, or is older")
        if last > max(wanted, since) and last not in planned:
            raise _disagree(job, output, f"nothing behind batch {wanted}", last, "its output is ahead of it")


def _disagree(job: Job, output: Output, expected: str, last: int, meaning: str) -> WorldError:
    return WorldError(
        f"the checkpoint {job.checkpoint.path} and {output.target.describe()} do not belong together: {meaning}",
        network=job.plan.network.name,
        box=output.name,
        expected=expected,
        found=f"batch {last} is the last of this run there" if last >= 0 else "nothing of this run there",
        hint=_ANOTHER,
    )
