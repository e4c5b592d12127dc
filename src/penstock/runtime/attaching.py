"""Attaching queries to a run, and detaching them: each makes the next version of its network."""

from __future__ import annotations

from dataclasses import replace

from penstock.algebra.box import Output
from penstock.algebra.network import Network
from penstock.algebra.ticks import BEGINNING
from penstock.connectors.points.point_target import ConnectionPoint
from penstock.errors import InternalError
from penstock.language.attaching import Order, attach, detach, grafted
from penstock.language.kept_streams import points_of
from penstock.plan.compile import compile_network
from penstock.plan.plan import Plan
from penstock.runtime.board import Board
from penstock.runtime.job import Job
from penstock.runtime.versions import Version, Versions
from penstock.storage.folder import Folder


def attached_plan(job: Job, order: Order) -> Plan:
    """The plan of a network with one more query."""
    network, board = declared(job.plan), Board(job.board)
    record = board.at(board.newest())
    marks = {}
    for point in (point for name in order.at for point in points_of(network, name)):
        port = point.inputs[0]
        rising = record.marks[port.name].rising if port.name in record.marks else {}
        marks[point.name] = next((rising[on] for on in port.progressing if on in rising), BEGINNING)
    return compile_network(attach(network, order, lambda output: place_of(job, output), marks), job.plan.architecture)


def detached_plan(job: Job, name: str) -> Plan:
    """The plan of a network without a query that was attached."""
    return compile_network(detach(declared(job.plan), name), job.plan.architecture)


def with_attached(plan: Plan, before: Network | None, job: Job) -> Plan:
    """A plan with all queries that are attached to the network before it; `job` says where connection points lie."""
    network = declared(plan)
    if before is None or not before.attached or network.attached:
        return plan
    return compile_network(grafted(network, before, lambda output: place_of(job, output)), plan.architecture)


def seen_with_attached(job: Job, versions: Versions, version: Version) -> Job:
    """A job whose plan has the queries that are attached in a version."""
    placed = replace(job, births=version.births)
    return replace(job, plan=with_attached(job.plan, versions.network_with_queries(version.number), placed))


def declared(plan: Plan) -> Network:
    """The network that a plan was made of."""
    if plan.declared is None:
        raise InternalError("a plan does not say of which network it is", network=plan.network.name)
    return plan.declared


def place_of(job: Job, output: Output) -> Folder:
    """Where a connection point lies."""
    target = job.target(output)
    if not isinstance(target, ConnectionPoint):
        raise InternalError(f"'{output.name}' is no connection point", network=job.plan.network.name)
    return target.folder
