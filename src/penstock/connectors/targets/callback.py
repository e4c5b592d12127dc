"""A function of the user's as a target: the driver calls it with each batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa

from penstock.connectors.targets.handover import HandedOver
from penstock.errors import InternalError, QueryError

Consumer = Callable[[pa.Table], object] | Callable[[pa.Table, int], object]


@dataclass(frozen=True)
class Callback(HandedOver):
    """Calls a function with the tuples of each batch, on the driver, in the process that started the run.

    At least once: if the process dies between the call and the end of the batch, the batch comes again, with the same
    tuples and the same number. A function that must not act twice takes the batch as its second argument.
    """

    function: Consumer | None = field(compare=False)
    takes_batch: bool = False

    def deliver(self, output: str, batch: int, tuples: pa.Table) -> None:
        function = cast(Callable[..., object], self.function)
        if function is None:
            raise InternalError("a callback was committed on a worker, where its function is not known")
        try:
            function(*((tuples, batch) if self.takes_batch else (tuples,)))
        except Exception as failure:
            raise QueryError(
                f"the callback failed on batch {batch} ({tuples.num_rows:,} tuples)",
                box=output,
                found=f"{type(failure).__name__}: {failure}",
                hint="the batch is delivered again when the run restarts from its checkpoint",
            ) from failure

    def describe(self) -> str:
        return f"callback {getattr(self.function, '__qualname__', self.function)}"

    def __reduce__(self) -> tuple[object, ...]:
        # Workers only stage, so the function (a closure over a socket, a lock, a list) stays in the user's process.
        return (Callback, (None, self.takes_batch))


def callback(function: Consumer) -> Callback:
    """Call `function(table)` or `function(table, batch)` once for each batch that has tuples."""
    if not callable(function):
        raise QueryError("a callback must be callable", found=type(function).__name__)
    return Callback(function, _takes_batch(function))


def _takes_batch(function: Consumer) -> bool:
    """Whether the function wants the batch: a second argument that it requires, or calls `batch`, or takes as *args."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins tell nothing about themselves
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    several = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    required = [
        p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    keywords = [p for p in parameters if p.default is p.empty and p.kind == p.KEYWORD_ONLY]
    if len(required) > 2 or keywords or not (positional or several):
        raise QueryError(
            "a callback takes a table, and the batch if it wants it",
            expected="function(table) or function(table, batch)",
            found=f"{getattr(function, '__name__', function)}{inspect.signature(function)}",
        )
    return len(required) == 2 or several or (len(positional) > 1 and positional[1].name == "batch")
