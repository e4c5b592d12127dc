"""Python window functions at work: called once for each window and group, with slices of arrays.

Tuples are sorted by group, window attribute and arrival once; then every window is a slice, however many overlap.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.algebra.expressions.aggregation import Aggregation, Called
from penstock.algebra.ticks import from_ticks, tick_text
from penstock.boxes.aggregate.closing import TICK
from penstock.boxes.aggregate.group_windows import Windows, keyed
from penstock.errors import PenstockError, WorldError
from penstock.operators.arrays import Mask, Numbers

Array = npt.NDArray[Any]


class Column:
    """One column of all tuples of all windows, ready to be sliced."""

    def __init__(self, values: pa.ChunkedArray) -> None:
        whole = values.combine_chunks()
        whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
        self.arrow: pa.Array = whole
        self._numbers = _numbers(whole)
        self._null: Mask | None = None
        if self._numbers is not None and whole.null_count:
            self._null = pc.is_null(whole).to_numpy(zero_copy_only=False)

    def slice(self, low: int, high: int) -> Any:
        """What a function gets: a numpy array, masked if there are NULLs in it; or an Arrow array."""
        if self._numbers is None:
            return self.arrow.slice(low, high - low)
        values = self._numbers[low:high]
        if self._null is not None and (null := self._null[low:high]).any():
            return np.ma.MaskedArray(values, null)
        return values

    def values(self, low: int, high: int) -> list[Any]:
        """Python values."""
        plain = self._numbers is not None and self._null is None and self._numbers.dtype.kind in "iufb"
        if plain and self._numbers is not None:
            return list(self._numbers[low:high].tolist())
        return list(self.arrow.slice(low, high - low).to_pylist())


class WindowTuples(Mapping[str, Any]):
    """The tuples of one window and group, column by column, in order of the window attribute and of arrival."""

    __slots__ = ("_called", "_columns", "_high", "_low", "_place")

    def __init__(self, called: Calls, columns: Mapping[str, Column], place: int, low: int, high: int) -> None:
        self._called = called
        self._columns = columns
        self._place = place
        self._low = low
        self._high = high

    def __getitem__(self, column: str) -> Any:
        return self._columns[column].slice(self._low, self._high)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        """The number of columns, as of any mapping; `tuples` is the number of tuples."""
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<window {self._called.where(self._place)}: {self.tuples} tuples of {', '.join(self)}>"

    @property
    def tuples(self) -> int:
        """How many tuples are in the window."""
        return self._high - self._low

    @property
    def start(self) -> Any:
        """Where the window starts, as in the result."""
        return self._called.start(self._place)

    @property
    def group(self) -> dict[str, Any]:
        """The group, by the names of its attributes."""
        return self._called.group(self._place)

    def rows(self) -> Iterator[dict[str, Any]]:
        """The tuples one by one."""
        columns = [column.values(self._low, self._high) for column in self._columns.values()]
        names = tuple(self._columns)
        return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


@dataclass(frozen=True)
class Calls:
    """Windows that close, and how they are named in messages."""

    windows: Windows
    keys: Sequence[tuple[str, pa.ChunkedArray]]
    """The attributes of the groups: one value for each window."""
    on: str
    start_type: pa.DataType
    """Of window starts, as in the result."""
    on_type: pa.DataType
    """Of the window attribute, as in the input."""
    down: tuple[str, int] | None = None
    """The attribute that `on` is turned round from, and the size of windows."""

    def start(self, place: int) -> Any:
        return from_ticks(pa.array([self._tick(place)], pa.int64()), self.start_type)[0].as_py()

    def _tick(self, place: int) -> int:
        start = int(self.windows.starts[place])
        return start if self.down is None else -self.down[1] - start

    def group(self, place: int) -> dict[str, Any]:
        return {name: column[place].as_py() for name, column in self.keys}

    def where(self, place: int) -> str:
        """Window and group as people read them."""
        start, on = tick_text(self._tick(place), self.start_type), self.on if self.down is None else self.down[0]
        group = ", ".join(f"{name}={value!r}" for name, value in self.group(place).items())
        return f"{on} = {start}{f', group {group}' if group else ''}"

    def results(self, aggregation: Aggregation, kept: pa.Table, groups: Numbers, size: int) -> dict[str, pa.Array]:
        """What the functions return, output by output: one value for each window.

        `kept` are tuples with `TICK`, those of one tick in order of arrival; `groups` says to which group each belongs.
        """
        ticks = kept.column(TICK).to_numpy()
        (keys,) = keyed((groups, ticks))
        if not bool(np.all(keys[1:] >= keys[:-1])):
            order = np.argsort(keys, kind="stable")
            kept, groups, ticks = kept.take(pa.array(order)), groups[order], ticks[order]
        low, high = self.windows.holding(groups, ticks, size)
        values = {
            name: Column(from_ticks(kept.column(TICK), self.on_type) if name == self.on else kept.column(name))
            for name in aggregation.whole
        }
        found: dict[str, pa.Array] = {}
        for call in aggregation.called:
            columns = {name: values[name] for name in call.columns}
            calls = replace(self, down=call.function.down)
            found.update(calls._call(call, columns, low.tolist(), high.tolist()))
        return found

    def _call(
        self, call: Called, columns: Mapping[str, Column], low: list[int], high: list[int]
    ) -> dict[str, pa.Array]:
        run = _stepwise(call) if call.function.stepwise else call.function.final
        returned: list[Any] = []
        add = returned.append
        place = -1
        try:
            for place, (a, b) in enumerate(zip(low, high, strict=True)):
                add(run(WindowTuples(self, columns, place, a, b)))  # type: ignore[misc]
        except Exception as error:
            raise self._raised(call, place, error) from error
        kinds = call.function.returns
        if not isinstance(kinds, pa.Schema):
            return {call.outputs[0]: self._fitted(call.outputs[0], returned, kinds)}
        rows = [self._row(call, place, value) for place, value in enumerate(returned)]
        return {
            field.name: self._fitted(field.name, [row[i] for row in rows], field.type) for i, field in enumerate(kinds)
        }

    def _row(self, call: Called, place: int, value: Any) -> Sequence[Any]:
        """The values of a function that returns several."""
        names = call.outputs
        if isinstance(value, Mapping) and set(value) == set(names):
            return [value[name] for name in names]
        if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes) and len(value) == len(names):
            return list(value)
        raise self._misfit(call.outputs, place, value, f"a mapping or a sequence of {', '.join(names)}")

    def _fitted(self, output: str, values: list[Any], kind: pa.DataType) -> pa.Array:
        """The values as an array; refused where one is not of the type, with the window that it is of."""
        # pyarrow would cut the fraction off, for some windows unnoticed.
        whole = bool(pa.types.is_integer(kind))
        if not (whole and any(isinstance(value, float | np.floating) for value in values)):
            try:
                return pa.array(values, kind)
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                pass
        plain = []
        for place, value in enumerate(values):
            try:
                plain.append(_scalar(value, kind))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise self._misfit((output,), place, value, f"{output}: {kind}") from error
        return pa.array(plain, kind)

    def _misfit(self, outputs: Sequence[str], place: int, value: Any, expected: str) -> PenstockError:
        return WorldError(
            f"the window function of {_listed(outputs)} returned what it was not declared to return",
            expected=expected,
            found=f"{_short(value)} ({type(value).__name__}) for the window {self.where(place)}",
            hint="mend the function or its returns=",
        )

    def _raised(self, call: Called, place: int, error: Exception) -> PenstockError:
        # The innermost line of the user's own: what it calls is further down in the traceback.
        frames = traceback.extract_tb(error.__traceback__)[1:]
        files = [getattr(f, "__code__", None) for f in (call.function.init, call.function.incr, call.function.final)]
        own = [frame for frame in frames if any(frame.filename == c.co_filename for c in files if c is not None)]
        line = f" at line {own[-1].lineno} of {own[-1].filename}" if own else ""
        return WorldError(
            f"the window function of {_listed(call.outputs)} raised {type(error).__name__}: {error}{line}",
            found=f"the window {self.where(place)}",
            hint="mend the function; with a checkpoint the run then goes on from here",
        )


def _stepwise(call: Called) -> Callable[[WindowTuples], Any]:
    init, incr, final = call.function.init, call.function.incr, call.function.final
    if init is None or incr is None:
        raise TypeError("init and incr belong together")

    def run(window: WindowTuples) -> Any:
        state = init()
        for row in window.rows():
            state = incr(state, row)
        return state if final is None else final(state)

    return run


def _numbers(values: pa.Array) -> Array | None:
    """The values as a numpy array that cannot be written to; None where numpy has no type for them."""
    kind = values.type
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not (numeric or pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_duration(kind)):
        return None
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(0, pa.int64()).cast(kind) if not pa.types.is_date32(kind) else _EPOCH)
    found: Array = values.to_numpy(zero_copy_only=False)
    found.flags.writeable = False
    return found


_EPOCH = pa.scalar(0, pa.int32()).cast(pa.date32())


def _scalar(value: Any, kind: pa.DataType) -> Any:
    """A value of the type, from what numpy may have made of it."""
    if value is np.ma.masked:
        return None
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if pa.types.is_integer(kind) and isinstance(value, float | np.floating):
        raise ValueError("a float is no integer")
    if isinstance(value, np.datetime64 | np.timedelta64):
        return pa.array(np.array([value])).cast(kind)[0].as_py()
    return pa.scalar(value, kind).as_py()


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
