"""What several policies have in common: the options `by=`, `idle=` and `descending=`, and the end of a shard."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.algebra.ticks import END
from penstock.errors import QueryError
from penstock.progress.extremes import Extremes
from penstock.progress.idle import Idle
from penstock.progress.policy import Policy


def stated(seen: Extremes, deduced: int) -> int:
    """What is deduced from tuples, or what punctuation says, if that is stronger; the end, if the shard has ended."""
    return END if seen.ended else max(deduced, seen.stated)


def check_options(policy: Policy, kind: pa.DataType) -> None:
    """Refuse options that do not fit the attribute, or each other."""
    idle = policy.idle
    if idle is not None and not isinstance(idle, Idle):
        raise QueryError(f"idle={idle!r} is no policy for silence", expected="pk.heartbeat(...) or pk.on_demand(...)")
    if idle is not None:
        idle.check(kind)
    if not policy.descending:
        return
    if not pa.types.is_signed_integer(kind):
        raise QueryError(
            "an attribute that decreases must be a signed integer",
            found=f"an attribute of type {kind}",
            hint="for times, declare progress on a number that counts down, such as the seconds that are left",
        )
    if idle is not None or policy.groups:
        given = "idle=" if idle is not None else "by="
        raise QueryError(f"{given} does not go with descending=True", expected="one of the two")


def names(by: Sequence[str] | str) -> tuple[str, ...]:
    """The attributes that `by=` names."""
    return (by,) if isinstance(by, str) else tuple(by)


def with_options(text: str, policy: Policy) -> str:
    """What a policy is called, and its options, as far as it has any."""
    groups = f" in each group of {', '.join(policy.groups)}" if policy.groups else ""
    down = ", descending" if policy.descending else ""
    silent = f"; {policy.idle.describe()}" if policy.idle is not None else ""
    return f"{text}{groups}{down}{silent}"
