"""Window functions in Python (aurora.md 5.2.2.2): init, incr and final, or one function of a whole window.

```
 whole      final(window)                                       window: column -> array, tuples in order
 stepwise   state = init(); state = incr(state, row) ...        one call for every tuple, in order
            final(state)                                        once, when the window closes
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.algebra.schema import parse_schema, parse_type
from penstock.errors import QueryError

Returns: TypeAlias = str | pa.DataType | Mapping[str, Any] | pa.Schema
"""What a window function returns: a type or its name, or a schema where it returns several attributes."""


@dataclass(frozen=True)
class WindowFunction:
    """A Python function over the tuples of one window and group; `pk.window_function` makes it."""

    init: Callable[[], Any] | None
    incr: Callable[[Any, dict[str, Any]], Any] | None
    final: Callable[[Any], Any] | None
    returns: pa.DataType | pa.Schema
    columns: tuple[str, ...] | None
    """The columns it is given; None for all of the input."""
    down: tuple[str, int] | None = None
    """Where windows are on an attribute that decreases, turned round: its name, and their size."""

    @property
    def stepwise(self) -> bool:
        """Whether it is called for every tuple, and not with the whole window."""
        return self.incr is not None

    def describe(self) -> str:
        """Without its code: a function may be mended, and the run go on from its checkpoint."""
        return f"window_function({'*' if self.columns is None else ', '.join(self.columns)})"


def window_function(
    init: Callable[[], Any] | None = None,
    incr: Callable[[Any, dict[str, Any]], Any] | None = None,
    final: Callable[[Any], Any] | None = None,
    *,
    returns: Returns = "double",
    columns: Sequence[str] | str | None = None,
) -> WindowFunction:
    """A Python function over the tuples of a window, for the outputs of `aggregate`.

    With `final` alone it is called once for every window and group: `final(window)`, where `window["pos"]` is that
    column of all its tuples, in order of the window attribute and then of arrival. Numbers, booleans and times are
    numpy arrays that must not be written to (masked arrays where there are NULLs); all else, such as text, is an Arrow
    array. `window.tuples` is their number, `window.start` and `window.group` say which window and group it is.

    With `init` and `incr` it goes from tuple to tuple: `state = init()`, `state = incr(state, row)` for every tuple in
    the same order, `row` being a dict of Python values, and the result is `final(state)`, or the state without `final`.

    `returns` is the type of the result, or a schema: then the function returns a mapping (or a sequence) of values, and
    is passed to `aggregate` in place of the outputs. None is NULL. `columns` are those that the function uses; all of
    the input without it. A function must give the same result for the same tuples, and keep nothing between calls.
    """
    if (init is None) != (incr is None):
        given = "incr" if init is None else "init"
        raise QueryError("init and incr belong together", found=f"{given} alone", hint="give both, or final alone")
    if incr is None and final is None:
        raise QueryError("a window function without a function", expected="final=, or init= and incr=")
    for name, function in (("init", init), ("incr", incr), ("final", final)):
        if function is not None and not callable(function):
            raise QueryError(f"{name} is no function", found=repr(function))
    names = (columns,) if isinstance(columns, str) else columns
    return WindowFunction(init, incr, final, _kind(returns), None if names is None else tuple(dict.fromkeys(names)))


def _kind(returns: Returns) -> pa.DataType | pa.Schema:
    if isinstance(returns, str):
        return parse_type(returns)
    if isinstance(returns, pa.DataType):
        return returns
    if isinstance(returns, Mapping | pa.Schema):
        return parse_schema(returns)
    raise QueryError(
        "what a window function returns cannot be read",
        expected="a type such as 'double', or a schema such as {'time': 'int64', 'over': 'bool'}",
        found=repr(returns),
    )
