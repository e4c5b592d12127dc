"""Tables of PostgreSQL, on a server of the test's own where its programs are installed."""

from __future__ import annotations

import datetime as dt
import glob
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import penstock as pk
from penstock.connectors.tables.postgresql_store import without_secrets

Execute = Callable[[str], None]


def _programs() -> Path:
    places = [shutil.which("initdb"), *sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))]
    found = next((Path(place).parent for place in places if place), None)
    if found is None:
        pytest.skip("PostgreSQL's initdb and pg_ctl are not installed")
    return found


def _account() -> str | None:
    """PostgreSQL refuses to run as root; then it runs as its own account."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        pytest.skip("PostgreSQL does not run as root, and there is no account 'postgres'")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("adbc_driver_postgresql.dbapi", reason="needs penstock[postgresql]")
    programs, account = _programs(), _account()
    folder = tempfile.mkdtemp(prefix="penstock-postgresql-")
    if account is not None:
        shutil.chown(folder, account)

    def call(program: str, *arguments: str) -> None:
        command = [str(programs / program), "-D", f"{folder}/data", *arguments]
        subprocess.run(command, check=True, user=account, cwd=folder, stdout=subprocess.DEVNULL)

    call("initdb", "--auth=trust", "--username=penstock", "--no-sync", "--encoding=UTF8", "--locale=C")
    options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
    call("pg_ctl", "--wait", "-o", options, "-l", f"{folder}/log", "start")
    try:
        yield f"postgresql://penstock:s3cret@/postgres?host={folder}"
    finally:
        call("pg_ctl", "--wait", "--mode=immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def execute(server: str) -> Execute:
    from adbc_driver_postgresql import dbapi

    def run(*statements: str) -> None:
        with dbapi.connect(server, autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    run("DROP TABLE IF EXISTS users")
    run('CREATE TABLE users (id int PRIMARY KEY, "Name" text, "name" text, credit numeric(8, 2))')
    run("INSERT INTO users VALUES (1, 'Ann', 'a', 1.50), (2, 'Bob', NULL, NULL)")
    return run


def test_a_table_comes_in_arrow_types(server: str, execute: Execute) -> None:
    execute("DROP TABLE IF EXISTS kinds")
    execute(
        "CREATE TABLE kinds (i smallint, b boolean, f real, d date, t timestamp, z timestamptz, n numeric, u uuid, "
        "j jsonb, c char(4), l int[])"
    )
    execute(
        "INSERT INTO kinds VALUES (1, true, 1.5, '2026-01-02', '2026-01-02 03:04:05', '2026-01-02 03:04:05+02', 1.25, "
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"a\": 1}', 'x', '{1, 2}')"
    )
    table = pk.table(server, table="public.kinds")
    schema = table.schema()
    kinds = [str(f.type) for f in schema]
    assert kinds[:6] == ["int16", "bool", "float", "date32[day]", "timestamp[us]", "timestamp[us, tz=UTC]"]
    assert kinds[6:] == ["string", "string", "string", "string", "list<item: int32>"]
    (row,) = table.read(schema).to_pylist()
    assert row == {
        "i": 1,
        "b": True,
        "f": 1.5,
        "d": dt.date(2026, 1, 2),
        "t": dt.datetime(2026, 1, 2, 3, 4, 5),
        "z": dt.datetime(2026, 1, 2, 1, 4, 5, tzinfo=dt.UTC),
        "n": "1.25",
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "j": '{"a": 1}',
        "c": "x",
        "l": [1, 2],
    }


def test_names_keep_their_case_and_numerics_their_digits(server: str, execute: Execute) -> None:
    table = pk.table(server, table="users")
    schema = table.schema()
    assert schema.names == ["id", "Name", "name", "credit"]
    assert table.read(schema).to_pydict() == {
        "id": [1, 2],
        "Name": ["Ann", "Bob"],
        "name": ["a", None],
        "credit": [Decimal("1.50"), None],
    }


def test_the_same_rows_are_the_same_content_in_whatever_order_they_come(server: str, execute: Execute) -> None:
    table = pk.table(server, query="SELECT id FROM users ORDER BY random() -- of no use")
    schema = table.schema()
    execute("INSERT INTO users SELECT g FROM generate_series(3, 60) AS g")
    assert table.read(schema) == table.read(schema)
    assert table.read(schema)["id"].to_pylist() == list(range(1, 61))


def test_a_query_can_only_read(server: str, execute: Execute) -> None:
    with pytest.raises(pk.WorldError, match="syntax error"):
        pk.table(server, query="DELETE FROM users RETURNING id").schema()
    execute("CREATE OR REPLACE FUNCTION wipe() RETURNS int LANGUAGE sql AS 'DELETE FROM users RETURNING id'")
    table = pk.table(server, query="SELECT wipe() AS id")
    with pytest.raises(pk.WorldError, match="cannot execute DELETE in a read-only transaction"):
        table.read(table.schema())


def test_what_is_missing_is_told_without_the_password(server: str, execute: Execute) -> None:
    shown = server.replace(":s3cret", "")
    with pytest.raises(pk.WorldError) as told:
        pk.table(server, table="nix").schema()
    assert str(told.value).startswith(
        f'cannot read the table table nix of {shown}\n  found: relation "nix" does not exist\n'
    )
    with pytest.raises(pk.WorldError, match='database "nix" does not exist') as told:
        pk.table(server.replace("/postgres?", "/nix?"), table="users").schema()
    table = pk.table(server, table="users")
    assert "s3cret" not in f"{told.value} {table!r} {table.describe()}"
    schema = table.schema()
    execute("ALTER TABLE users DROP COLUMN credit")
    with pytest.raises(pk.WorldError, match="found: no column 'credit', only id, Name, name"):
        table.read(schema)


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_run_reads_it_again_when_its_interval_has_passed(
    engine: str, server: str, execute: Execute, request: pytest.FixtureRequest
) -> None:
    """The script's clock: seconds 0, 50, 70, 80; a minute after the first look comes the second."""
    if engine == "spark":
        request.getfixturevalue("spark_ready")
    net = pk.Network("pg")
    elements: list[Any] = []
    for second in (0, 50, 70, 80):
        elements += [pk.clock(second), (second, 1)]
    source = net.source("in", pk.memory(elements, schema={"ts": "int64", "user": "int64"}, train=2))
    source.join(pk.table(server, table="users"), "l.user = r.id").map(ts="ts", who='"Name"').output("o")
    result = net.run(engine, on_batch=lambda r: execute(f"UPDATE users SET \"Name\" = 'v{r.batch}' WHERE id = 1"))
    assert result["o"]["who"].to_pylist() == ["Ann", "Ann", "v1", "v1"]


def test_without_the_driver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql.dbapi", None)
    with pytest.raises(pk.WorldError) as told:
        pk.table("postgresql://db/sales", table="t").schema()
    assert "expected: the package adbc-driver-postgresql" in str(told.value)
    assert "to do: pip install 'penstock[postgresql]'" in str(told.value)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql://me:p:w@db:5432/sales", "postgresql://me@db:5432/sales"),
        ("postgresql://db/sales?password=x&user=me", "postgresql://db/sales?user=me"),
        ("postgresql:///sales?host=/run/pg", "postgresql:///sales?host=/run/pg"),
    ],
)
def test_a_uri_is_shown_without_its_secrets(uri: str, shown: str) -> None:
    assert without_secrets(uri) == shown
