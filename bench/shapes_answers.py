"""What is right in `penstock bench shapes`: what DuckDB answers over the same files, and how results differ from it.

Results of windows are compared one by one: their keys exactly, their values exactly or, where a cell says so, within a
part of the right one; means, which are divisions of floating numbers, within `ROUNDING`. Where rows come out, their
number and the sum of their hashes are compared. A native Spark query does not see the end of its input, so it is held
to the windows that end at or before the largest time less 2 seconds (of a join: and less the band).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock_bench.q7 import matches_sql
from penstock_bench.shapes_cells import WINDOW_S, Cell, Matches, Panes, Selection, TupleWindows, Unique, Windows
from penstock_bench.shapes_data import HOSTS
from penstock_bench.throughput import Batch, connect, expect, largest_us, one, text
from penstock_bench.traffic import DELAY_US

MICROSECONDS: Final = 1_000_000
ROUNDING: Final = 1e-12
"""By what part a floating number may be off."""
SMALL: Final = 10
"""Parts are of this, where the right value is smaller: of three, an approximate count that misses one is not wrong."""
TEXT_TYPES: Final = "{'ts': 'TIMESTAMPTZ', 'link': 'VARCHAR', 'len': 'INTEGER'}"


class DuckDBShape(Batch):
    """A cell as one batch query."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def query(self, data: Path) -> str:
        return answer_sql(self._cell, data)


def answer_sql(cell: Cell, data: Path) -> str:
    """The question of a cell in SQL, over a folder of its data."""
    question, rows = cell.question, rows_sql(cell, data)
    match question:
        case Windows(panes=Panes() as panes):
            return _windows_of_panes(question, panes, rows)
        case Windows():
            if question.lookup:
                hosts = f"read_parquet({text(data.parent / HOSTS / '*.parquet')})"
                rows = f"{rows} JOIN {hosts} USING ({question.lookup})"
            start = f"time_bucket(INTERVAL '{WINDOW_S} seconds', ts)"
            return _renamed(
                f"SELECT {_columns({'start': start}, question.by, question.outputs)} FROM {rows} GROUP BY ALL"
            )
        case TupleWindows():
            numbered = (
                f"SELECT *, (row_number() OVER (PARTITION BY {', '.join(question.by)} ORDER BY number) - 1) // "
                f"{question.size} AS part FROM {rows}"
            )
            columns = _columns({'"Tup#"': f"part * {question.size} + 1"}, question.by, question.outputs)
            groups = ", ".join(("part", *question.by))
            return f"SELECT {columns} FROM ({numbered}) GROUP BY {groups} HAVING count(*) = {question.size}"
        case Matches():
            return matches_sql(data, question.band)
        case Selection():
            return f"SELECT {_columns(question.columns, (), {})} FROM {rows} WHERE {question.where}"
        case Unique():
            return f"SELECT DISTINCT {', '.join(question.by)} FROM {rows}"


def _windows_of_panes(question: Windows, panes: Panes, rows: str) -> str:
    """Every row is counted once, into its pane; a window adds the panes that it covers."""
    start = f"time_bucket(INTERVAL '{question.advance} seconds', ts)"
    partial = f"SELECT {_columns({'pane': start}, question.by, panes.partial)} FROM {rows} GROUP BY ALL"
    first = {"start": f"pane - before * INTERVAL '{question.advance} seconds'"}
    merged = _columns(first, question.by, panes.merged)
    overlapping = WINDOW_S // question.advance
    return _renamed(f"SELECT {merged} FROM ({partial}), range({overlapping}) AS starts(before) GROUP BY ALL")


def _columns(first: Mapping[str, str], by: Sequence[str], outputs: Mapping[str, str]) -> str:
    # A sum of integers is wider than what Parquet can hold.
    wide = {name: f"({e})::BIGINT" if e.startswith("sum(") and " / " not in e else e for name, e in outputs.items()}
    return ", ".join(
        (*(f"{e} AS {name}" for name, e in first.items()), *by, *(f"{e} AS {name}" for name, e in wide.items()))
    )


def _renamed(windows: str) -> str:
    # Only here, because inside `ts` is the time of a row.
    return f"SELECT * RENAME (start AS ts) FROM ({windows})"


def rows_sql(cell: Cell, data: Path) -> str:
    """The rows of a cell, as something that SQL selects from."""
    if cell.text == "csv":
        return f"read_csv({text(data / 'csv' / 'part-*.csv')}, header=true, columns={TEXT_TYPES})"
    if cell.text == "json":
        return f"read_json({text(data / 'json' / 'part-*.json')}, format='newline_delimited', columns={TEXT_TYPES})"
    links = cell.question.links if isinstance(cell.question, Windows) else ()
    folders = [data / link for link in links] or [data]
    return f"read_parquet([{', '.join(text(folder / '*.parquet') for folder in folders)}])"


def expect_cell(cell: Cell, data: Path, file: Path) -> None:
    """Write what the right answer is: all windows, or, of rows, their number and the sum of their hashes."""
    if isinstance(cell.question, Windows):
        exact = {**cell.question.outputs, **cell.question.exact}
        cell = replace(cell, question=replace(cell.question, outputs=exact))
    query = answer_sql(cell, data)
    if isinstance(cell.question, Selection | Unique):
        query = _fingerprint(cell, f"({query})")
    expect(query, file)


def difference(cell: Cell, data: Path, out: Path, expected: Path, *, sees_end: bool) -> str | None:
    """How the results under `out` differ from the expected ones, or None when they are right."""
    files = results(cell, out)
    if not files:
        return "no results at all"
    got = f"read_parquet([{', '.join(map(text, files))}], hive_partitioning=false)"
    question = cell.question
    if isinstance(question, Selection | Unique):
        return _rows_differ(cell, got, expected)
    closed = None if sees_end else closed_us(cell, data)
    may_differ = isinstance(question, Windows) and (question.exact or not sees_end)
    tolerance = question.tolerance if isinstance(question, Windows) and may_differ else 0.0
    return _windows_differ(question.keys, question.outputs, got, expected, closed, max(tolerance, ROUNDING))


def results(cell: Cell, out: Path) -> list[Path]:
    """The files of results that readers see."""
    if cell.target == "delta":
        from deltalake import DeltaTable  # only here, because every benchmark imports this module

        table = DeltaTable(str(out))
        return [Path(each.removeprefix("file://")) for each in table.file_uris()]
    return sorted(out.rglob("*.parquet"))


def closed_us(cell: Cell, data: Path) -> int:
    """Up to where the watermark of a native query comes: windows that end until then must be out."""
    question = cell.question
    if isinstance(question, Matches):
        return min(largest_us(data / link) for link in ("m1", "m2")) - DELAY_US - question.band * MICROSECONDS
    if cell.text:
        return largest_us(data / "parquet") - DELAY_US
    links = question.links if isinstance(question, Windows) else ()
    return min(largest_us(data / link) for link in links or ("",)) - DELAY_US


def _windows_differ(
    keys: Sequence[str],
    outputs: Mapping[str, str],
    got: str,
    expected: Path,
    closed: int | None,
    tolerance: float,
) -> str | None:
    first, *by = keys
    start = "epoch_us(ts)" if first == "ts" else f'"{first}"'
    columns = ", ".join((f"{start} AS start", *by, *(f"{name}::DOUBLE AS {name}" for name in outputs)))
    same = ", ".join(("start", *by))
    with connect() as connection:
        connection.execute(f"CREATE TABLE got AS SELECT {columns} FROM {got}")
        connection.execute(f"CREATE TABLE want AS SELECT {columns} FROM read_parquet({text(expected)})")
        if closed is not None:
            connection.execute(f"DELETE FROM want WHERE start + {WINDOW_S * MICROSECONDS} > {closed}")
        if one(connection, "SELECT count(*) FROM want") == 0:
            return "no window closes in so few rows: nothing to compare"
        right = " AND ".join(
            f"coalesce(abs(got.{name} - want.{name}) <= {tolerance} * greatest(abs(want.{name}), {SMALL}), false)"
            for name in outputs
        )
        wrong = one(connection, f"SELECT count(*) FROM want LEFT JOIN got USING ({same}) WHERE NOT ({right})")
        extra = one(connection, f"SELECT count(*) FROM got ANTI JOIN want USING ({same})")
        twice = one(connection, f"SELECT count(*) - count(DISTINCT ({same})) FROM got")
    if wrong or extra or twice:
        return f"{wrong} results missing or wrong, {extra + twice} that should not be there"
    return None


def _rows_differ(cell: Cell, got: str, expected: Path) -> str | None:
    with connect() as connection:
        (found,) = connection.execute(_fingerprint(cell, got)).fetchall()
        (wanted,) = connection.execute(f"SELECT * FROM read_parquet({text(expected)})").fetchall()
    if found[0] != wanted[0]:
        return f"{found[0]:,} rows instead of {wanted[0]:,}"
    return None if found == wanted else "as many rows as there should be, but not the same"


def _fingerprint(cell: Cell, rows: str) -> str:
    assert isinstance(cell.question, Selection | Unique)
    columns = cell.question.by if isinstance(cell.question, Unique) else cell.question.columns
    # A time by its microseconds: whether it has a zone is no part of the answer.
    told = ", ".join("epoch_us(ts)" if name == "ts" else name for name in columns)
    return f"SELECT count(*) AS n, sum(hash({told}))::VARCHAR AS hashes FROM {rows}"
