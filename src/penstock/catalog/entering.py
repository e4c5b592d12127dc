"""How a run enters the catalog when it starts, and how its place follows from a name."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from penstock.algebra.box import Output, View
from penstock.boxes.table_join.box import TableJoin
from penstock.catalog.database import LOG, Catalog, taken
from penstock.catalog.entry import INPUT, OUTPUT, POINT, TABLE, VIEW, PartEntry, RunEntry, check_name, name_for
from penstock.catalog.home import own_place
from penstock.connectors.points.point_target import ConnectionPoint
from penstock.connectors.targets.kept_results import Results
from penstock.errors import WorldError
from penstock.runtime.job import Job
from penstock.runtime.opening import has_run, identity_of
from penstock.runtime.outlet import kept_bytes
from penstock.storage.folder import Folder
from penstock.storage.sizes import size_text


def place_of_run(checkpoint: str | None, name: str | None) -> str | None:
    """Where a run that is about to start has its checkpoint; None for one that goes with its process."""
    if name is None:
        return checkpoint
    check_name(name)
    known = _known(name)
    if checkpoint is not None:
        place = Folder(checkpoint).path
        if known is not None and known.place != place and has_run(Folder(known.place)):
            raise taken(known, place)
        return checkpoint
    if known is None:
        return own_place(name)
    if not has_run(Folder(known.place)) and known.place != own_place(name):
        raise WorldError(
            f"the checkpoint of the run '{name}' is gone",
            expected=known.place,
            hint=f"bring it back, give another checkpoint, or forget the run with `penstock drop {name}`",
        )
    return known.place


def enter(job: Job, name: str | None = None) -> None:
    """Let others find a run by its name. A catalog that cannot be used is told of, and the run goes on without it."""
    try:
        Catalog().enter(_entry_of(job), name, lambda place: not has_run(Folder(place)))
    except WorldError as error:
        LOG.warning("this run is not in the catalog: %s", error)


def _known(name: str) -> RunEntry | None:
    try:
        return Catalog().named(name)
    except WorldError as error:
        LOG.warning("names of runs are not known: %s", error)
        return None


def _entry_of(job: Job) -> RunEntry:
    network, checkpoint = job.plan.network, job.checkpoint
    known, limit = identity_of(checkpoint) or {"run": ""}, job.settings.disk_bytes
    return RunEntry(
        name_for(network.name),
        checkpoint.path,
        str(known["run"]),
        network.name,
        time.time_ns() // 1000,
        f"{size_text(limit)}, when full: {job.settings.when_full}" if limit is not None else "",
        tuple(_parts(job)),
    )


def _parts(job: Job) -> Iterator[PartEntry]:
    network = job.plan.network
    for source in network.sources:
        yield PartEntry(INPUT, source.name, source.connector.describe(), _columns(source.schema(0)))
    for output in network.outputs:
        yield _output(job, output)
    for box in job.plan.declared.boxes if job.plan.declared is not None else ():
        if isinstance(box, View):
            yield PartEntry(VIEW, box.name, box.describe(), _columns(box.schema(0)))
    for box in network.boxes:
        if isinstance(box, TableJoin):
            columns = job.plan.columns.get(box.name, frozenset())
            yield PartEntry(TABLE, box.name, box.table.describe(), _columns(box.loaded(columns)))


def _output(job: Job, output: Output) -> PartEntry:
    target, columns = job.target(output), _columns(output.schema(0))
    if isinstance(target, ConnectionPoint):
        return PartEntry(POINT, output.name, target.folder.path, columns, target.keep.describe())
    if isinstance(target, Results):
        limit = kept_bytes(job, output)
        keeps = "everything" if limit is None else f"at most {limit:,} bytes"
        return PartEntry(OUTPUT, output.name, job.scratch(output.name).path, columns, keeps)
    return PartEntry(OUTPUT, output.name, target.describe(), columns)


def _columns(schema: pa.Schema) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, str(field.type)) for field in schema)
