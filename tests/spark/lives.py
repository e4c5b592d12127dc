"""A network that is killed or loses power, its input, and what its outputs must be in the end."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import psutil
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

APP = Path(__file__).with_name("crash_network.py")
OUTPUTS = ("events", "flows", "totals", "pairs")
FILES = 36
PER_FILE = 80
BROKEN = "900,k1,not a number,-1"


def write_input(folder: Path, files: int = FILES) -> pa.Table:
    """Some files of each input; all tuples that can be decoded, as one table."""
    rng = random.Random(7)
    (folder / "steady").mkdir(parents=True)
    (folder / "ragged").mkdir()
    everything = []
    for number in range(files):
        base = number * 50
        steady = [(base + at * 50 // PER_FILE, f"k{rng.randrange(9)}", rng.randrange(1000)) for at in range(PER_FILE)]
        # At most 30 behind what was read before: except every ninth file, which brings some tuples far too late.
        ragged = [(base + rng.randrange(50) - 20, f"k{rng.randrange(9)}", rng.randrange(1000)) for _ in range(PER_FILE)]
        if number % 9 == 8:
            ragged[3:6] = [(base - 200 + at, "k1", at) for at in range(3)]
        tables = {}
        for at, (name, rows) in enumerate((("steady", steady), ("ragged", ragged))):
            ids = [(number * 2 + at) * PER_FILE + row for row in range(PER_FILE)]
            columns = [list(column) for column in zip(*rows, strict=True)]
            tables[name] = pa.table([*columns, ids], names=["ts", "k", "v", "id"])
        everything += tables.values()
        pq.write_table(tables["steady"], folder / "steady" / f"{number:03d}.parquet")
        file = folder / "ragged" / f"{number:03d}.csv"
        pacsv.write_csv(tables["ragged"], file)
        if number == files // 2:
            lines = file.read_text().splitlines()
            file.write_text("\n".join([*lines[:40], BROKEN, *lines[40:]]) + "\n")
    return pa.concat_tables(everything)


@dataclass
class Life:
    """One process of the run, in a session of its own, so that all of it can be killed: driver, JVM, workers."""

    process: subprocess.Popen[bytes]
    log: Path

    @staticmethod
    def begin(arguments: Iterable[Path], log: Path, way: str = "auto", app: Path = APP) -> Life:
        # The JVM lives for a few batches only: the quick compiler alone starts it sooner.
        environment = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, str(app), *map(str, arguments), way],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        return Life(process, log)

    def members(self) -> list[int]:
        """Every process of the session: the JVM and its worker daemon have process groups of their own."""
        found = []
        for pid in psutil.pids():
            with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
                if os.getsid(pid) == self.process.pid and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                    found.append(pid)
        return found

    def groups(self) -> set[int]:
        found = {self.process.pid}
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                found.add(os.getpgid(pid))
        return found

    def kill(self, groups: Iterable[int] = ()) -> None:
        """Kill everything, these process groups at once: looking for them would let the batch go on."""
        for group in groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while alive := self.members():
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert time.monotonic() < deadline, f"processes that SIGKILL does not end: {alive}"
            time.sleep(0.01)
        self.process.wait()

    def kill_after(self, board: Path, batch: int, seconds: float) -> None:
        """Kill it so long after a batch is on its board; it must not have ended before."""
        groups = self.groups()
        while newest_batch(board) < batch:
            assert self.process.poll() is None, self.log.read_text(errors="replace")
            groups = self.groups()
            time.sleep(0.01)
        time.sleep(seconds)
        self.kill(groups)

    def finish(self, seconds: float = 300) -> dict[str, Any]:
        """Wait for the end; what the run told."""
        try:
            code = self.process.wait(seconds)
        finally:
            self.kill()
        text = self.log.read_text(errors="replace")
        assert code == 0, text
        return json.loads(next(line for line in text.splitlines() if line.startswith("TOLD ")).removeprefix("TOLD "))


@dataclass(frozen=True)
class Calm:
    """A run that nobody has disturbed: its input, where it wrote, and what it told."""

    tuples: pa.Table
    data: Path
    out: Path
    told: dict[str, Any]

    @staticmethod
    def of(place: Path, files: int, run: Callable[..., dict[str, Any]], *arguments: str) -> Calm:
        """What comes of a network that runs in this process, at a place of its own."""
        tuples = write_input(place / "data", files)
        return Calm(tuples, place / "data", place / "out", told_by(run, place / "data", place, *arguments))


def told_by(run: Callable[..., dict[str, Any]], data: Path, place: Path, *arguments: str) -> dict[str, Any]:
    """What a run in this process tells, as one in a process of its own would: whom nobody kills needs none."""
    told: dict[str, Any] = json.loads(json.dumps(run(str(data), str(place / "run"), str(place / "out"), *arguments)))
    return told


def newest_batch(board: Path) -> int:
    """The number of the last record on a board; -1 if there is none."""
    names = [name.split("-")[0] for name in os.listdir(board) if name.endswith(".json")] if board.is_dir() else []
    return max(map(int, names), default=-1)


def rows_of(out: Path, name: str) -> Counter[tuple[Any, ...]]:
    table = pa.table(deltalake.DeltaTable(str(out / name)).to_pyarrow_table())
    return Counter(tuple(row.values()) for row in table.select(sorted(table.column_names)).to_pylist())


def account_of(table: Path) -> tuple[int, int]:
    """Transactions, and data files on disk.

    A batch committed twice would show here even where its files, which have the same names, count once; and a replay
    that came to other bytes would have left files that no transaction lists.
    """
    return deltalake.DeltaTable(str(table)).version(), len(list(table.glob("*.parquet")))


def expected_of(tuples: pa.Table) -> dict[str, Counter[tuple[Any, ...]]]:
    """The outputs, computed by DuckDB over the whole input at once; columns in order of their names."""
    flows = duckdb.sql(
        "SELECT k, CAST(median(v) AS DOUBLE) AS m, count(*) AS n, CAST(sum(v) AS BIGINT) AS s,"
        " CAST(floor(ts / 20.0) * 20 AS BIGINT) AS ts FROM tuples GROUP BY ALL"
    )
    totals = duckdb.sql(
        "SELECT count(*) AS groups, CAST(sum(n) AS BIGINT) AS t, CAST(floor(ts / 100.0) * 100 AS BIGINT) AS ts"
        " FROM flows GROUP BY ALL ORDER BY ALL"
    )
    events = duckdb.sql("SELECT id, k, ts, v FROM tuples WHERE v % 7 = 0")
    pairs = duckdb.sql(
        f"WITH owned AS (SELECT *, id // {PER_FILE} % 2 AS input FROM tuples)"
        " SELECT l.id AS l, r.id AS r, least(l.ts, r.ts) AS ts"
        " FROM (FROM owned WHERE input = 0) l FULL JOIN (FROM owned WHERE input = 1) r"
        " ON l.k = r.k AND abs(l.ts - r.ts) <= 3"
    )
    return {
        "pairs": Counter(pairs.fetchall()),
        "events": Counter(events.fetchall()),
        "flows": Counter(flows.fetchall()),
        "totals": Counter(totals.fetchall()),
    }


def check_outputs(tuples: pa.Table, late: Iterable[int], out: Path) -> None:
    """Every output has every row that DuckDB finds, once."""
    dropped = set(late)
    expected = expected_of(tuples.filter(pa.array(i not in dropped for i in tuples["id"].to_pylist())))
    for name in OUTPUTS:
        assert rows_of(out, name) == expected[name], name
