"""Where the tuples of an output go, and how they get there exactly once.

```
 worker:  stage(batch, part, tuples) ──> a file that readers do not see yet ──> receipt ─┐
 driver:  commit(batch, receipts)    <───────────────────────────────────────────────────┘  makes the batch visible
```

A batch may be staged again, with the same tuples, and committed again, after a crash between the target's commit and
Spark's own. So names follow from (batch, part), and a target knows the last batch it has committed. `scratch` is a
folder of the run's checkpoint that belongs to one output alone: what must survive a restart lies there, among it the
*writer*, the identity under which the target knows this output of this run.
"""

from __future__ import annotations

import inspect
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, Protocol, cast

import pyarrow as pa

from penstock.errors import InternalError, QueryError
from penstock.storage.folder import Folder

Mode = Literal["new", "append"]
"""Whether a run may add to what others have written to the place before it started, or refuses to."""

_WRITER: Final = "writer.json"
_SCHEMA: Final = "schema.arrow"
_COMMITTED: Final = "committed-"


@dataclass(frozen=True)
class StagedFile:
    """One file of a staged part. `partition` and `stats` are for targets that keep a log of their files."""

    name: str
    rows: int
    bytes: int
    partition: tuple[tuple[str, str | None], ...] = ()
    stats: str = ""


@dataclass(frozen=True)
class Receipt:
    """What a worker has staged of one part of a batch."""

    batch: int
    part: int
    files: tuple[StagedFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """A JSON document.

        >>> receipt = Receipt(3, 0, (StagedFile("a", 1, 9),))
        >>> Receipt.from_json(receipt.to_json()) == receipt
        True
        """
        return asdict(self)

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Receipt:
        files = (
            StagedFile(**{**file, "partition": tuple((column, value) for column, value in file["partition"])})
            for file in document["files"]
        )
        return Receipt(document["batch"], document["part"], tuple(files))


class Target(Protocol):
    """A declared place for the tuples of an output; frozen and picklable."""

    def check(self, name: str, schema: pa.Schema, scratch: Folder) -> None:
        """On the driver, whenever the run starts: enrol the output `name` in `scratch`, and refuse a place that
        cannot be written, or whose existing schema does not fit."""

    def stage(self, batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
        """On a worker: write this part where readers do not see it yet; None if it has no tuples."""

    def commit(self, batch: int, receipts: Sequence[Receipt], scratch: Folder) -> None:
        """On the driver, in batch order: make the parts of a batch visible. A repeated call does nothing."""

    def describe(self) -> str:
        """One phrase, for explain and status."""


@dataclass(frozen=True)
class Writer:
    """Who writes: one output of one run. The token is unique to the checkpoint and survives restarts."""

    token: str
    output: str


def enrol(name: str, schema: pa.Schema, scratch: Folder) -> bool:
    """Give the output its writer, unless it has one; True on the first start of the checkpoint.

    The token is drawn, not derived from a path: a checkpoint that was deleted and begun anew at the same place is
    another run, whose batches start at 0 again and must not pass for replays.
    """
    if is_enrolled(scratch):
        return False
    scratch.write(_SCHEMA, schema.serialize())
    scratch.write(_WRITER, json.dumps(asdict(Writer(uuid.uuid4().hex[:12], name))).encode())
    return True


def is_enrolled(scratch: Folder) -> bool:
    """Whether this checkpoint has started before."""
    return scratch.exists(_WRITER)


def writer(scratch: Folder) -> Writer:
    """The identity that `enrol` gave."""
    if not is_enrolled(scratch):
        raise InternalError(f"the output of {scratch.path} was not checked before its first batch")
    return Writer(**json.loads(scratch.read(_WRITER).to_pybytes()))


def is_committed(batch: int, scratch: Folder) -> bool:
    """Whether `mark_committed` has been called for this batch or a later one."""
    return any(batch <= int(name.removeprefix(_COMMITTED)) for name in _markers(scratch))


def mark_committed(batch: int, scratch: Folder) -> None:
    """Remember that everything up to this batch is visible."""
    # A new name each time: replacing a file makes ext4 flush it, which took three times as long.
    older = _markers(scratch)
    scratch.write(f"{_COMMITTED}{batch:08d}")
    for name in older:
        scratch.delete(name)


def _markers(scratch: Folder) -> list[str]:
    return [name for name in scratch.names() if name.startswith(_COMMITTED)]


def check_mode(mode: str) -> None:
    """Refuse a mode that does not exist."""
    if mode not in ("new", "append"):
        raise QueryError(f"unknown mode {mode!r}", expected="'new' or 'append'")


def check_writable(folder: Folder) -> None:
    """Refuse a folder in which no file can be written."""
    folder.make()
    folder.write(".probe", b"")
    folder.delete(".probe")


def check_fit(name: str, place: str, wanted: pa.Schema, existing: pa.Schema) -> None:
    """Refuse to mix schemas in one place; the order of columns does not matter."""
    differences = [f"'{field.name}' ({field.type}) is new" for field in wanted if field.name not in existing.names]
    differences += [f"'{field.name}' ({field.type}) is missing" for field in existing if field.name not in wanted.names]
    differences += [
        f"'{field.name}' is {field.type}, was {existing.field(field.name).type}"
        for field in wanted
        if field.name in existing.names and not field.type.equals(existing.field(field.name).type)
    ]
    if differences:
        raise QueryError(
            f"the tuples do not fit what {place} holds",
            box=name,
            expected=", ".join(f"{field.name} {field.type}" for field in existing),
            found="; ".join(differences),
            hint="make the columns the same in a map box, or write to another place",
        )


def stage_arrow(batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
    """Keep a part as an Arrow file in scratch, from where the driver reads it."""
    if table.num_rows == 0:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    content = sink.getvalue()
    name = f"part-{batch:08d}-{part:04d}.arrow"
    scratch.write(name, content)
    return Receipt(batch, part, (StagedFile(name, table.num_rows, content.size),))


def read_results(scratch: Folder, receipts: Sequence[Receipt]) -> pa.Table:
    """The tuples behind the receipts, in order of (batch, part); mapped, not copied, from local files."""
    schema = pa.ipc.read_schema(scratch.read(_SCHEMA))
    ordered = sorted(receipts, key=lambda receipt: (receipt.batch, receipt.part))
    names = [file.name for receipt in ordered for file in receipt.files]
    return pa.concat_tables(
        [schema.empty_table(), *(pa.ipc.open_file(scratch.read(name)).read_all() for name in names)]
    )


@dataclass(frozen=True)
class Results:
    """Keeps the tuples in the checkpoint, for `result[name]` and `run.read(name)`."""

    def check(self, name: str, schema: pa.Schema, scratch: Folder) -> None:
        if not enrol(name, schema, scratch):
            check_fit(name, scratch.path, schema, pa.ipc.read_schema(scratch.read(_SCHEMA)))

    def stage(self, batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
        return stage_arrow(batch, part, table, scratch)

    def commit(self, batch: int, receipts: Sequence[Receipt], scratch: Folder) -> None:
        """Nothing to do: a part counts when the outlet's record of the batch lists its receipt."""

    def describe(self) -> str:
        return "kept as results"


@dataclass(frozen=True)
class Console:
    """Prints the tuples of each batch on the driver. After a crash, the last batch may be printed again."""

    limit: int = 20

    def check(self, name: str, schema: pa.Schema, scratch: Folder) -> None:
        enrol(name, schema, scratch)

    def stage(self, batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
        return stage_arrow(batch, part, table, scratch)

    def commit(self, batch: int, receipts: Sequence[Receipt], scratch: Folder) -> None:
        table = _pending(batch, receipts, scratch)
        if table is not None:
            self._print(f"{writer(scratch).output}, batch {batch}", table)
        _settle(batch, receipts, scratch)

    def _print(self, title: str, table: pa.Table) -> None:
        from rich.console import Console as Terminal
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid()
        for column in table.schema:
            grid.add_column(Text(column.name), justify="right" if _is_number(column.type) else "left")
        for row in zip(*(column.to_pylist() for column in table.slice(0, self.limit).columns), strict=True):
            grid.add_row(*(Text("NULL" if value is None else str(value)) for value in row))
        more = table.num_rows - self.limit
        Terminal(highlight=False).print(
            Text(title), grid, *([f"and {more:,} more tuples"] if more > 0 else []), sep="\n"
        )

    def describe(self) -> str:
        return "the console"


Consumer = Callable[[pa.Table], object] | Callable[[pa.Table, int], object]


@dataclass(frozen=True)
class Callback:
    """Calls a function with the tuples of each batch, on the driver, in the process that started the run.

    At least once: if the process dies between the call and the end of the batch, the batch comes again, with the same
    tuples and the same number. A function that must not act twice takes the batch as its second argument.
    """

    function: Consumer | None = field(compare=False)
    takes_batch: bool = False

    def check(self, name: str, schema: pa.Schema, scratch: Folder) -> None:
        enrol(name, schema, scratch)

    def stage(self, batch: int, part: int, table: pa.Table, scratch: Folder) -> Receipt | None:
        return stage_arrow(batch, part, table, scratch)

    def commit(self, batch: int, receipts: Sequence[Receipt], scratch: Folder) -> None:
        function = cast(Callable[..., object], self.function)
        if function is None:
            raise InternalError("a callback was committed on a worker, where its function is not known")
        table = _pending(batch, receipts, scratch)
        if table is not None:
            try:
                function(*((table, batch) if self.takes_batch else (table,)))
            except Exception as failure:
                raise QueryError(
                    f"the callback failed on batch {batch} ({table.num_rows:,} tuples)",
                    box=writer(scratch).output,
                    found=f"{type(failure).__name__}: {failure}",
                    hint="the batch is delivered again when the run restarts from its checkpoint",
                ) from failure
        _settle(batch, receipts, scratch)

    def describe(self) -> str:
        return f"callback {getattr(self.function, '__qualname__', self.function)}"

    def __reduce__(self) -> tuple[object, ...]:
        # Workers only stage, so the function (a closure over a socket, a lock, a list) stays in the user's process.
        return (Callback, (None, self.takes_batch))


def _pending(batch: int, receipts: Sequence[Receipt], scratch: Folder) -> pa.Table | None:
    """The tuples of a batch on the driver; None if there are none, or they were delivered before."""
    return None if not receipts or is_committed(batch, scratch) else read_results(scratch, receipts)


def _settle(batch: int, receipts: Sequence[Receipt], scratch: Folder) -> None:
    """The batch is delivered: remember it, and clear what carried it here."""
    if receipts and not is_committed(batch, scratch):
        mark_committed(batch, scratch)
    for name in (file.name for receipt in receipts for file in receipt.files):
        scratch.delete(name)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def console(limit: int = 20) -> Console:
    """Print the tuples of each batch, at most `limit` of them."""
    if limit < 1:
        raise QueryError("a console shows at least one tuple", found=f"limit={limit}")
    return Console(limit)


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
