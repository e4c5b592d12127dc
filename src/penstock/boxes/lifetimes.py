"""What boxes without state may do with temporal streams: the payload is theirs, and the lifetime of an event is not.

A predicate or an expression has one value for all the life of an event: so it may use the payload and `vs`, which never
change, but no column that an adjust changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.algebra.box import Port
from penstock.algebra.expressions.binding import bind
from penstock.algebra.expressions.expression import Expression
from penstock.algebra.temporal.elements import COLUMNS, VS
from penstock.errors import QueryError

_CHANGING: Final = tuple(name for name in COLUMNS if name != VS)


def require_fixed(port: Port, expressions: Sequence[Expression], what: str) -> None:
    """Refuse expressions over a temporal stream that may change while an event lives."""
    if not port.temporal:
        return
    for expression in expressions:
        used = [name for name in expression.columns if name in _CHANGING]
        if used:
            raise QueryError(
                f"{what} of a temporal stream cannot use '{used[0]}': it may change while an event lives",
                expected=f"the payload and {VS}",
                found=expression.text,
            )


def kept_lifetime(port: Port, outputs: Sequence[tuple[str, Expression]]) -> tuple[tuple[str, Expression], ...]:
    """The attributes that a map of a temporal stream gives besides those of the user: those of the lifetime."""
    if not port.temporal:
        return ()
    taken = [name for name, _ in outputs if name in COLUMNS]
    if taken:
        raise QueryError(
            f"a map of a temporal stream computes the payload, and '{taken[0]}' is no part of it",
            expected=f"other names than {', '.join(COLUMNS)}, which are kept as they are",
            found=f"{taken[0]}='{dict(outputs)[taken[0]].text}'",
        )
    require_fixed(port, [expression for _, expression in outputs], "a map")
    return tuple((name, bind(name, port.schema)) for name in COLUMNS)


def refuse_mixed(ports: Sequence[Port], what: str) -> None:
    """Streams that become one are all temporal, or none is."""
    facts = [port.name for port in ports if not port.temporal]
    if facts and len(facts) < len(ports):
        raise QueryError(
            f"a {what} takes temporal streams or ordinary ones, but not both",
            found=f"'{facts[0]}', whose tuples never change, beside a temporal stream",
            hint="make it temporal with as_temporal()",
        )


def require_temporal(port: Port, what: str) -> None:
    """Refuse an ordinary stream where a box takes events."""
    if not port.temporal:
        raise QueryError(
            f"{what} takes a temporal stream",
            found=f"'{port.name}', whose tuples never change",
            hint="make it temporal with as_temporal(), or read elements with pk.temporal(...)",
        )
