"""Attaching queries and copies to a run, and detaching them: each makes the next version of its network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.algebra.box import Output
from penstock.algebra.marks import UNKNOWN
from penstock.algebra.network import Attached, Network
from penstock.algebra.ticks import BEGINNING
from penstock.connectors.points.point_target import ConnectionPoint
from penstock.errors import InternalError, QueryError
from penstock.language.attaching import BEGINNING_WORD, Order, Query, Since, attach, detach, grafted, query_name
from penstock.language.copies import CopyOrder, Moment, join, merge_named
from penstock.language.kept_streams import points_of
from penstock.plan.compile import compile_network
from penstock.plan.plan import Plan
from penstock.runtime.board import Board
from penstock.runtime.job import Job
from penstock.runtime.versions import Version, Versions
from penstock.storage.folder import Folder


def attaching(
    query: Query,
    *,
    at: str | Sequence[str],
    to: str | None,
    since: Since,
    from_time: Moment | None,
    name: str | None,
    share: float,
) -> Callable[[Job], Plan]:
    """How the plan of a run is changed by who attaches a query at connection points, or a copy to an LMerge."""
    called = name or query_name(query)
    if to is not None:
        if at or since != BEGINNING_WORD:
            raise QueryError(
                "a copy joins an lmerge, and reads no connection point",
                found=f"to={to!r} beside at= or since=",
                hint="from_time= says from when on the copy has all events",
            )
        copy = CopyOrder(query, to, called, from_time)
        return lambda job: joined_plan(job, copy)
    if from_time is not None:
        raise QueryError("from_time= is for copies that join an lmerge", hint="name it with to=, or give since=")
    order = Order(query, (at,) if isinstance(at, str) else tuple(at), called, since, share)
    return lambda job: attached_plan(job, order)


def attached_plan(job: Job, order: Order) -> Plan:
    """The plan of a network with one more query."""
    network, board = declared(job.plan), Board(job.board)
    record = board.at(board.newest())
    marks = {}
    for point in (point for name in order.at for point in points_of(network, name)):
        port = point.inputs[0]
        known = record.marks.get(port.name, UNKNOWN)
        # Of the attribute on which its history is read: the first that increases, or else the first that decreases.
        marks[point.name] = next((tick for part in (known.rising, known.falling) for tick in part.values()), BEGINNING)
    return compile_network(attach(network, order, lambda output: place_of(job, output), marks), job.plan.architecture)


def joined_plan(job: Job, order: CopyOrder) -> Plan:
    """The plan of a network in which one more copy has joined an LMerge."""
    return compile_network(join(declared(job.plan), order), job.plan.architecture)


def detached_plan(job: Job, name: str) -> Plan:
    """The plan of a network without a query that was attached, or a copy that has joined."""
    network = declared(job.plan)
    known = next((each for each in network.attached if each.name == name), None)
    stable = stable_point(job, network, known) if known is not None and known.to else BEGINNING
    return compile_network(detach(network, name, stable), job.plan.architecture)


def with_attached(plan: Plan, before: Network | None, job: Job) -> Plan:
    """A plan with all queries that are attached to the network before it; `job` says where connection points lie."""
    network = declared(plan)
    if before is None or not before.attached or network.attached:
        return plan
    whole = grafted(
        network, before, lambda output: place_of(job, output), lambda known: stable_point(job, before, known)
    )
    return compile_network(whole, plan.architecture)


def stable_point(job: Job, network: Network, known: Attached) -> int:
    """How far the output is stable of the LMerge that a copy has joined."""
    board = Board(job.board)
    record = board.at(board.newest())
    return record.marks[known.to].of(merge_named(network, known.to).on) if known.to in record.marks else BEGINNING


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
