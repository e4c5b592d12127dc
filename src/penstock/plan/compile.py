"""From a network to its plan: one visible, ordered list of rules, each in its own file."""

from __future__ import annotations

from collections.abc import Callable

from penstock.algebra.network import Network
from penstock.errors import InternalError, PenstockError, QueryError
from penstock.plan.arrange import arrange
from penstock.plan.assign_stages import assign_stages
from penstock.plan.check_elements import check_elements
from penstock.plan.check_feedback import check_feedback
from penstock.plan.guard_times import guard_times
from penstock.plan.in_order import in_order
from penstock.plan.keep_rejects import keep_rejects
from penstock.plan.mark_groups import mark_groups
from penstock.plan.plan import ARCHITECTURES, OUT_OF_ORDER, Arrangement, Plan
from penstock.plan.prune_boxes import prune_boxes
from penstock.plan.prune_columns import prune_columns
from penstock.plan.prune_rows import prune_rows
from penstock.plan.roll_up import roll_up
from penstock.plan.state_jointly import state_jointly

RULES: tuple[Callable[[Plan], Plan], ...] = (
    prune_boxes,
    arrange,
    in_order,
    guard_times,
    keep_rejects,
    check_elements,
    mark_groups,
    check_feedback,
    assign_stages,
    prune_columns,
    prune_rows,
    roll_up,
    state_jointly,
)


def compile_network(network: Network, architecture: str = OUT_OF_ORDER, arrangement: Arrangement = ()) -> Plan:
    """Apply all rules; the invariants of the network are checked after each, and a failure names the rule.

    The arrangement is what the optimizer does to the network; nothing, unless it runs and has found something.
    """
    if architecture not in ARCHITECTURES:
        raise QueryError(
            f"unknown architecture {architecture!r}",
            network=network.name,
            expected=f"one of {', '.join(ARCHITECTURES)}",
        )
    plan = Plan(network, architecture, arrangement=arrangement, declared=network)
    network.check()
    for rule in RULES:
        plan = rule(plan)
        try:
            plan.network.check()
        except PenstockError as broken:
            raise InternalError(f"rule {rule.__name__} broke the network: {broken}", network=network.name) from broken
    return plan
