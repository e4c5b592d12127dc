"""What a view or a connection point shows now: what is kept of it, or a plan that computes it from what is kept."""

from __future__ import annotations

import deltalake
import pyarrow as pa

from penstock.algebra.box import Output
from penstock.algebra.schema import plain_schema
from penstock.connectors.delta.table_log import opening
from penstock.connectors.points.point_input import PointInput
from penstock.connectors.points.stored_files import ARRIVAL_COLUMN, BATCH_COLUMN
from penstock.language.builder import Builder
from penstock.language.kept_streams import Ways, history_source, point_or_view
from penstock.language.stream import Stream
from penstock.plan.compile import compile_network
from penstock.plan.plan import Plan
from penstock.runtime.attaching import declared, place_of
from penstock.runtime.job import Job
from penstock.storage.folder import Folder


def shown(job: Job, name: str) -> pa.Table | Plan:
    """The tuples of a connection point or view in order of arrival; for a view that keeps nothing, a plan with an
    output of its name that computes them."""
    network = declared(job.plan)
    found = point_or_view(network, name)
    if isinstance(found, Output):
        return _kept(place_of(job, found), plain_schema(found.schema(0)))
    builder = Builder(f"{network.name} {name}")
    of_point = lambda point: _input(builder, job, point)  # noqa: E731
    Ways(builder, network, "view", of_point).of(name).output(name)
    return compile_network(builder.network, job.plan.architecture)


def _input(builder: Builder, job: Job, point: Output) -> Stream:
    # It is followed, so that it does not end with what is there: a window that is still open stays open.
    return builder._add(history_source(point.name, point, PointInput(place_of(job, point), follow=True)))


def _kept(place: Folder, schema: pa.Schema) -> pa.Table:
    if not place.exists("_delta_log"):
        return schema.empty_table()  # nothing has passed yet
    with opening(place):
        rows = pa.table(deltalake.DeltaTable(place.path).to_pyarrow_table())
    rows = rows.sort_by([(BATCH_COLUMN, "ascending"), (ARRIVAL_COLUMN, "ascending")])
    return rows.select(schema.names).cast(schema)
