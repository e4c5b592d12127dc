"""What is asked of the declaration of a temporal input."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.algebra.temporal.elements import SYNC
from penstock.errors import QueryError
from penstock.progress.policy import Policy


def temporal_on(on: str | None, timestamps: str, progress: Policy | Mapping[str, Policy] | None) -> str:
    """The attribute that elements make progress on; refused where something else was declared."""
    given = progress if isinstance(progress, Mapping) else {SYNC: progress}
    if on not in (None, SYNC) or list(given) != [SYNC]:
        raise QueryError(
            f"a temporal input makes progress on '{SYNC}', by which stable points are measured",
            found=f"on={on!r}" if on not in (None, SYNC) else f"progress on {', '.join(map(str, given))}",
            hint="leave on= out, and give the policy alone: progress=pk.delayed(...)",
        )
    if timestamps != "external":
        raise QueryError("elements bring their times along", found=f"timestamps={timestamps!r}")
    policy = given[SYNC]
    if isinstance(policy, Policy) and (policy.groups or policy.descending):
        wrong = "by=" if policy.groups else "descending=True"
        raise QueryError(f"a stable point is of the whole stream, and rises: {wrong} says something else")
    return SYNC
