"""The boxes in the order that the optimizer has found best: see `plan/rewrites` for what it may do, and `optimize` for
how it chooses. Without an optimizer this changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import QueryError
from penstock.plan.plan import OUT_OF_ORDER, Plan
from penstock.plan.rewrites.rewrites import drafted


def arrange(plan: Plan) -> Plan:
    if not plan.arrangement:
        return plan
    if plan.architecture != OUT_OF_ORDER:
        raise QueryError(
            f"an {plan.architecture} network cannot be optimized: its streams would be put in order elsewhere",
            network=plan.network.name,
        )
    draft = drafted(plan.network, plan.arrangement)
    return replace(plan, network=draft.done(), accounts=draft.accounts())
