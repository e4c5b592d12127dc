from __future__ import annotations

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from penstock.algebra import kernel
from penstock.errors import QueryError

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
    _, busy = kernel._connection()
    reader, writer = os.pipe()
    with busy:
        child = os.fork()
        if child == 0:
            found = kernel.run("SELECT sum(x) AS total FROM t", t=TUPLES)["total"][0].as_py()
            os.write(writer, str(found).encode())
            os._exit(0)
        os.close(writer)
        deadline = time.monotonic() + 10
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
