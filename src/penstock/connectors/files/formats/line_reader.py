"""Lines to tuples: a fast parse of a whole block, and a careful one for blocks in which some line is broken.

Both end in the same parser, so whether a line is accepted does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from penstock.connectors.connector import Chunk, fixed_width
from penstock.connectors.files.formats.format import BrokenFileError, Format, Part, first_line
from penstock.connectors.files.formats.text_blocks import (
    Block,
    Lines,
    blocks,
    compression_of,
    count_lines,
    first_line_number,
    joined,
    line_starts,
    lines_of,
)
from penstock.connectors.fitting import Spelling, fit_table, one_batch
from penstock.connectors.rejects import rejected_whole, rejects

_RECORD_CHARACTERS: Final = 10_000  # how much of a broken line the error stream keeps
_SAMPLE_BYTES: Final = 1 << 16
_SAMPLE_ROWS: Final = 500


class LineParser(Protocol):
    """A format in which a line is a record."""

    @property
    def spaces_are_blank(self) -> bool:
        """Whether a line of spaces is no record."""

    def parse(self, data: pa.Buffer) -> pa.Table:
        """All lines at once, as columns that can be cast to the schema; raises ArrowInvalid if any line is broken."""

    def suspects(self, texts: pa.Array) -> Mapping[int, str]:
        """Lines that `parse` is sure to refuse, and why; it may miss some."""

    def cast(self, table: pa.Table, schema: pa.Schema) -> tuple[pa.Table, Mapping[int, str]]:
        """Parsed columns as those of the schema, without the rows that do not fit; and why these do not."""


def read_lines(
    part: Part, parser: LineParser, schema: pa.Schema, columns: Sequence[str], begin: int, lines_before: int
) -> Iterator[Chunk]:
    """The lines of a part as chunks, one per block."""
    try:
        for block in blocks(part, begin, lines_before):
            yield _chunk(part, block, parser, schema, columns)
    except BrokenFileError as error:
        # What could be decompressed has been read; only the rest is lost.
        yield rejected_whole(part.path, error.reason, error.rows, schema, columns)


def text_bytes(reader: Format, part: Part, schema: pa.Schema) -> Mapping[str, float]:
    """What a value takes up in the columns whose values have no fixed width: by the first lines of a file."""
    names = [one.name for one in schema if fixed_width(one.type) is None]
    if not names or not part.size:
        return {}
    if compression_of(part.path):
        sample = replace(part, last=reader.reach(part, _SAMPLE_ROWS, schema).place)
    else:
        sample = replace(part, at=0, end=min(part.size, _SAMPLE_BYTES))
    first = next(iter(reader.read(sample, schema, names)), None)
    if first is None or not first.tuples.num_rows:
        return {}
    return {name: first.tuples.column(name).nbytes / first.tuples.num_rows for name in names}


def _chunk(part: Part, block: Block, parser: LineParser, schema: pa.Schema, columns: Sequence[str]) -> Chunk:
    lines: Lines | None = None
    table: pa.Table | None = None
    bad: dict[int, str] = {}
    try:
        table = parser.parse(block.data)
        if len(table) != count_lines(block):
            lines = lines_of(block, spaces_are_blank=parser.spaces_are_blank)
            # More or fewer rows than lines: a quote or a brace runs over a line end.
            table = table if len(table) == len(lines.texts) else None
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        pass
    if table is None:
        lines = lines or lines_of(block, spaces_are_blank=parser.spaces_are_blank)
        bad.update(parser.suspects(lines.texts))
        good = np.setdiff1d(np.arange(len(lines.texts)), np.fromiter(bad, np.int64, len(bad)))
        tables = _halve(lines.texts, good, parser.parse, bad)
    else:
        tables = [table]
    rows = None if lines is None else np.setdiff1d(np.arange(len(lines.texts)), np.fromiter(bad, np.int64, len(bad)))
    # Each table is cast by itself: two of them may have read their times in different ways.
    fitted, first = [], 0
    for one in tables:
        cast, misfits = parser.cast(one, schema)
        bad.update({int(first + row if rows is None else rows[first + row]): why for row, why in misfits.items()})
        fitted.append(cast)
        first += len(one)
    whole = pa.concat_tables(fitted) if fitted else schema.empty_table()
    tuples = one_batch(whole).select(list(columns))
    if not bad:
        return Chunk(tuples)
    lines = lines or lines_of(block, spaces_are_blank=parser.spaces_are_blank)
    return Chunk(tuples, _refused(part, block, lines, bad))


def _refused(part: Part, block: Block, lines: Lines, bad: Mapping[int, str]) -> pa.RecordBatch | None:
    rows = sorted(bad)
    raw = lines.texts.take(pa.array(rows, pa.int64())).to_pylist()
    records = [text.rstrip(b"\r\n").decode(errors="replace")[:_RECORD_CHARACTERS] for text in raw]
    first = first_line_number(part, block)
    reasons = [bad[row] for row in rows]
    if first is not None:
        return rejects(part.path, [first + int(lines.numbers[row]) for row in rows], records, reasons)
    starts = line_starts(block)[1]
    return rejects(
        part.path,
        [block.byte + int(starts[lines.numbers[row]]) for row in rows],
        records,
        [f"{reason} (the position is the byte: the line is too far into the file to be counted)" for reason in reasons],
    )


def _halve(
    texts: pa.Array,
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],
    parse: Callable[[pa.Buffer], pa.Table],
    bad: dict[int, str],
) -> list[pa.Table]:
    """Parse the given lines; if that fails, in halves, until the broken lines stand alone."""
    if not len(rows):
        return []
    try:
        table = parse(joined(texts.take(pa.array(rows))))
        if len(table) == len(rows):
            return [table]
        reason = f"is {len(table)} records, expected one to a line"
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        reason = first_line(error)
    if len(rows) == 1:
        bad[int(rows[0])] = reason
        return []
    half = len(rows) // 2
    return [*_halve(texts, rows[:half], parse, bad), *_halve(texts, rows[half:], parse, bad)]


def cast_table(table: pa.Table, schema: pa.Schema, spelling: Spelling) -> tuple[pa.Table, Mapping[int, str]]:
    """The cast that text formats share."""
    fitted, misfits = fit_table(table, schema, spelling)
    return fitted, {misfit.row: misfit.reason for misfit in misfits}
