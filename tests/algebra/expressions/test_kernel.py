from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.algebra.expressions import excessive_queries

from penstock.algebra.expressions import kernel
from penstock.algebra.expressions import kernel_memory as memory
from penstock.errors import QueryError, WorldError

TUPLES = pa.table({"x": pa.array([3, 1, 2], pa.int64()), "s": ["c", "a", None]})


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (SELECT count(*) FROM read_csv('/etc/passwd')) FROM t",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "COPY (SELECT 1) TO '/tmp/penstock-must-not-write'",
        "ATTACH '/tmp/penstock-must-not-attach.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
    ],
)
def test_sql_reaches_no_file(sql: str) -> None:
    with pytest.raises(QueryError):
        kernel.run(sql, t=TUPLES)


def test_sql_sees_no_python_variable() -> None:
    hidden = pa.table({"x": [1]})
    with pytest.raises(QueryError, match="hidden"):
        kernel.run("SELECT * FROM hidden")
    assert hidden.num_rows == 1


@pytest.mark.parametrize("setting", ["threads = 8", "enable_external_access = true", "TimeZone = 'CET'"])
def test_settings_are_locked(setting: str) -> None:
    with pytest.raises(QueryError, match="locked"):
        kernel.run(f"SET {setting}")


def test_tables_are_let_go_also_when_a_query_fails() -> None:
    with pytest.raises(QueryError):
        kernel.run("SELECT nothing FROM t", t=TUPLES)
    with pytest.raises(QueryError, match="t does not exist"):
        kernel.run("SELECT * FROM t")


@pytest.mark.parametrize(
    "kind",
    [
        pa.int8(),
        pa.uint64(),
        pa.float32(),
        pa.string(),
        pa.binary(),
        pa.bool_(),
        pa.date32(),
        pa.decimal128(10, 2),
        pa.timestamp("s"),
        pa.timestamp("ms"),
        pa.timestamp("us"),
        pa.timestamp("ns"),
        pa.timestamp("us", tz="UTC"),
        pa.list_(pa.string()),
        pa.struct({"a": pa.list_(pa.int64())}),
    ],
)
def test_types_survive(kind: pa.DataType) -> None:
    assert kernel.types("x", pa.schema({"x": kind})).field("x").type == kind


@pytest.mark.parametrize(
    ("kind", "comes_out_as"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string()),
    ],
)
def test_every_string_comes_out_as_string(kind: pa.DataType, comes_out_as: pa.DataType) -> None:
    column = pa.array(["a", None, "a"]).cast(kind) if not pa.types.is_dictionary(kind) else None
    column = column if column is not None else pa.array(["a", None, "a"]).dictionary_encode()
    found = kernel.run("SELECT s FROM t", t=pa.table({"s": column}))
    assert found.schema.field("s").type == comes_out_as
    assert found["s"].to_pylist() == ["a", None, "a"]


def test_sums_of_integers_are_exact_beyond_64_bits() -> None:
    found = kernel.run("SELECT sum(x) AS total FROM t", t=pa.table({"x": pa.array([2**63 - 1] * 3, pa.int64())}))
    assert found.schema.field("total").type == pa.decimal128(38, 0)
    assert int(found["total"][0].as_py()) == 3 * (2**63 - 1)


def test_times_are_utc() -> None:
    found = kernel.run(
        "SELECT date_trunc('day', t) AS day, hour(t) AS hour FROM t",
        t=pa.table({"t": pa.array([90_000_000_000], pa.timestamp("us", tz="UTC"))}),
    )
    assert found["day"].cast(pa.int64()).to_pylist() == [86_400_000_000]
    assert found["hour"].to_pylist() == [1]


def test_row_order_is_kept_over_many_chunks() -> None:
    chunks = [pa.record_batch({"x": list(range(at, at + 5_000))}) for at in range(0, 50_000, 5_000)]
    found = kernel.run("SELECT x + 1 AS y FROM t", t=pa.Table.from_batches(chunks))
    assert found["y"].to_pylist() == list(range(1, 50_001))


def test_a_record_batch_is_a_table_too() -> None:
    assert kernel.run("SELECT x FROM t", t=pa.record_batch({"x": [1]}))["x"].to_pylist() == [1]


def test_division_by_zero_is_null_and_stops_nothing() -> None:
    assert kernel.run("SELECT x // 0 AS q, x % 0 AS r FROM t", t=TUPLES.slice(0, 1)).to_pylist() == [
        {"q": None, "r": None}
    ]


def test_a_process_forked_in_the_middle_of_a_query_has_a_kernel_of_its_own() -> None:
    busy = kernel._own_kernels()
    reader, writer = os.pipe()
    with busy.taken(), busy.growth._lock:
        child = os.fork()
        if child == 0:
            found = kernel.run("SELECT sum(x) AS total FROM t", t=TUPLES)["total"][0].as_py()
            os.write(writer, str(found).encode())
            os._exit(0)
        os.close(writer)
        deadline = time.monotonic() + 60
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.01)
    assert os.read(reader, 100) == b"6"
    os.close(reader)
    assert kernel.run("SELECT 2 AS two")["two"].to_pylist() == [2]


def test_threads_do_not_see_each_others_tables() -> None:
    def work(number: int) -> list[int]:
        table = pa.table({"x": pa.repeat(number, 50_000)})
        return [kernel.run("SELECT min(x) AS x FROM tuples", tuples=table)["x"][0].as_py() - number for _ in range(40)]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert [set(wrong) for wrong in threads.map(work, range(4))] == [{0}] * 4
    finally:
        sys.setswitchinterval(interval)


def test_an_error_says_what_is_wrong_and_does_not_echo_the_query() -> None:
    with pytest.raises(QueryError) as caught:
        kernel.run("SELECT s + 1 FROM t", t=TUPLES)
    assert "+(VARCHAR, INTEGER_LITERAL)" in str(caught.value)
    assert "LINE" not in str(caught.value)


# Memory

SMALL = 64 << 20


@pytest.fixture
def small_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of little memory in this process."""
    monkeypatch.setattr(kernel, "_kernels", {})
    monkeypatch.setenv("PENSTOCK_KERNEL_MEMORY", "64MB")


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What became of every excessive query in a process of its own."""
    done = subprocess.run(
        [sys.executable, excessive_queries.__file__],
        cwd=tmp_path_factory.mktemp("excessive"),
        env=os.environ | {"PENSTOCK_KERNEL_MEMORY": "64MB"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.xdist_group("excessive-queries")  # they share a process
@pytest.mark.parametrize("query", excessive_queries.QUERIES)
def test_a_query_that_needs_too_much_memory_is_refused_and_the_process_lives_on(
    query: str, tried: dict[str, dict[str, Any]]
) -> None:
    found = tried[query]
    assert found["said"].startswith("WorldError: ")
    assert "needs more memory than it may take" in found["said"]
    assert "expected: at most 64 MiB" in found["said"]
    assert "take smaller trains (train_bytes=)" in found["said"]
    assert "PENSTOCK_KERNEL_MEMORY" in found["said"]
    assert "temp_directory" not in found["said"]
    assert found["growth"] < 2 * SMALL
    assert found["limits are back"]
    assert found["a query afterwards"] == 6
    assert found["files"] == []


@pytest.mark.usefixtures("small_kernel")
def test_a_small_kernel_does_ordinary_work() -> None:
    rows = pa.table({"k": np.arange(200_000) % 1000, "v": np.arange(200_000)})
    found = kernel.run("SELECT k, sum(v) AS s FROM t GROUP BY k ORDER BY k", t=rows)
    assert found.num_rows == 1000
    assert kernel.run("SELECT v + 1 AS v FROM t ORDER BY v DESC", t=rows)["v"][0].as_py() == 200_000


def test_a_result_column_beyond_2_gib_is_refused() -> None:
    """Arrow's strings have offsets of 32 bits. The error is made by hand: the true one takes 2 GiB and seconds."""
    error = duckdb.InvalidInputException(
        "Invalid Input Error: Arrow Appender: The maximum total string size for regular string buffers is 2147483647 "
        "but the offset of 2148000000 exceeds this.\n* SET arrow_large_buffer_size=true to use large string buffers"
    )
    refused = kernel._refusal(error, SMALL)
    assert isinstance(refused, WorldError)
    assert "too large for one train" in str(refused)
    assert "arrow_large_buffer_size" not in str(refused)


def test_by_default_all_kernels_of_a_machine_fit_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_KERNEL_MEMORY", raising=False)
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 256 << 20 <= memory.kernel_memory() <= max(256 << 20, machine // 2 // len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("text", ["much", "", "-1GB", "1MB", "2 GB per core"])
def test_a_size_that_cannot_be_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_KERNEL_MEMORY", text)
    with pytest.raises(QueryError, match="PENSTOCK_KERNEL_MEMORY says") as caught:
        memory.kernel_memory()
    assert "a size of at least 32 MiB, such as 512MB or 2GB" in str(caught.value)


def test_there_are_zeros_under_null_in_lists_and_structs_too() -> None:
    rows = pa.table({"v": pa.array([1, None, 3] * 700, pa.int64())})
    # What was computed before lies in the memory that is used again.
    kernel.run("SELECT list(v + 77) AS vs FROM t", t=pa.table({"v": pa.array(range(2100))}))
    found = kernel.run("SELECT list(v) AS vs, list({'a': v}) AS rows FROM t", t=rows)
    values = found.column("vs").chunk(0).values
    inner = found.column("rows").chunk(0).values.field("a")
    for column in (values, inner):
        assert column.null_count == 700
        assert pa.Array.from_buffers(pa.int64(), 2100, [None, column.buffers()[1]]).to_pylist() == [1, 0, 3] * 700
