"""From a network to its plan: one visible, ordered list of rules, each in its own file."""

from __future__ import annotations

from collections.abc import Callable

from penstock.algebra.network import Network
from penstock.errors import InternalError, PenstockError
from penstock.plan.assign_stages import assign_stages
from penstock.plan.keep_rejects import keep_rejects
from penstock.plan.plan import Plan
from penstock.plan.prune_columns import prune_columns
from penstock.plan.roll_up import roll_up

RULES: tuple[Callable[[Plan], Plan], ...] = (keep_rejects, assign_stages, prune_columns, roll_up)


def compile_network(network: Network) -> Plan:
    """Apply all rules; the invariants of the network are checked after each, and a failure names the rule."""
    plan = Plan(network)
    network.check()
    for rule in RULES:
        plan = rule(plan)
        try:
            plan.network.check()
        except PenstockError as broken:
            raise InternalError(f"rule {rule.__name__} broke the network: {broken}", network=network.name) from broken
    return plan
