"""A table or query of PostgreSQL as a static table, through its ADBC driver, which speaks Arrow.

PostgreSQL does not tell whether a table has changed, so it is read again in intervals, and its content compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa

from penstock.algebra.expressions import kernel
from penstock.connectors.tables.store import Stamp, Store, require_fit, unreadable
from penstock.errors import WorldError

SCHEMES: Final = ("postgresql://", "postgres://")
_DRIVER: Final = "adbc_driver_postgresql.dbapi"
_MINUTE_US: Final = 60_000_000
_MOST_DIGITS: Final = 38  # what 128 bits hold
_HEADER: Final = 4
"""PostgreSQL keeps the digits of a numeric as `precision << 16 | scale`, plus the length of a header."""
_SECRET_OPTIONS: Final = ("password=", "sslpassword=", "passfile=")


@dataclass(frozen=True)
class StoredPostgresql(Store):
    """The rows of one SELECT, run in a transaction that can only read."""

    uri: str = field(repr=False)
    select: str
    name: str

    @property
    def refresh(self) -> int | None:
        return _MINUTE_US

    def describe(self) -> str:
        return f"{self.name} of {without_secrets(self.uri)}"

    def schema(self) -> pa.Schema:
        with self._cursor() as cursor:
            return self._schema(cursor)

    def stamp(self) -> Stamp | None:
        return None

    def read(self, schema: pa.Schema) -> pa.Table:
        with self._cursor() as cursor:
            require_fit(self._schema(cursor), schema)
            columns = ", ".join(_column(f) for f in schema)
            cursor.execute(f"SELECT {columns} FROM ({self.select}\n) AS penstock_table")
            rows = cursor.fetch_arrow_table()
        # Rows come in no order of their own; in one order, the same content is the same version.
        numbered = rows.rename_columns([f"c{i}" for i in range(len(schema))])
        return kernel.run("SELECT * FROM rows ORDER BY ALL", rows=numbered).rename_columns(schema.names)

    def _schema(self, cursor: Any) -> pa.Schema:
        cursor.execute(f"SELECT * FROM ({self.select}\n) AS penstock_table LIMIT 0")
        return pa.schema([pa.field(f.name, _type(f)) for f in cursor.fetch_arrow_table().schema])

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        driver = _driver()
        try:
            with driver.connect(self.uri) as connection, connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION READ ONLY")
                yield cursor
        except driver.Error as error:
            raise unreadable(self.describe(), self._reason(error)) from None

    def _reason(self, error: Exception) -> str:
        """What PostgreSQL says, without the driver's frame around it, our SELECT and the password."""
        text = str(error).split("\n\nQuery was:")[0].strip()
        found = re.search(r"(?:ERROR|FATAL):\s+(.*)", text, re.DOTALL)
        said = " ".join((found.group(1) if found else text).split("\nLINE ")[0].split())
        for secret in _secrets(self.uri):
            said = said.replace(secret, "***")
        return said


def without_secrets(uri: str) -> str:
    """A URI that can be shown.

    >>> without_secrets("postgresql://me:pw@db/sales?password=pw&sslmode=require")
    'postgresql://me@db/sales?sslmode=require'
    """
    where = urlsplit(uri)
    user, at, host = where.netloc.rpartition("@")
    options = "&".join(option for option in where.query.split("&") if not option.lower().startswith(_SECRET_OPTIONS))
    return f"{where.scheme}://{user.partition(':')[0]}{at}{host}{where.path}{'?' if options else ''}{options}"


def _secrets(uri: str) -> list[str]:
    where = urlsplit(uri)
    told = [where.netloc.rpartition("@")[0].partition(":")[2]]
    told += [o.partition("=")[2] for o in where.query.split("&") if o.lower().startswith(_SECRET_OPTIONS)]
    return [secret for secret in told if secret]


def _driver() -> Any:
    try:
        return import_module(_DRIVER)
    except ImportError as error:
        raise WorldError(
            "a table of PostgreSQL needs a driver that is not installed",
            expected="the package adbc-driver-postgresql",
            found=str(error),
            hint="pip install 'penstock[postgresql]'",
        ) from error


def _type(column: pa.Field) -> pa.DataType:
    """The type as which a column is read: numerics with digits are decimals, what Arrow has no type for is text."""
    kind = column.type
    if not isinstance(kind, pa.BaseExtensionType):
        return kind
    digits = int((column.metadata or {}).get(b"POSTGRESQL:typmod", b"-1")) - _HEADER
    precision, scale = digits >> 16, digits & 0x7FF
    numeric = kind.extension_name == "arrow.opaque" and kind.type_name == "numeric"
    if numeric and 0 <= scale <= precision <= _MOST_DIGITS and precision > 0:
        return pa.decimal128(precision, scale)
    return pa.string()


def _column(column: pa.Field) -> str:
    name = kernel.quote(column.name)
    as_text = pa.types.is_string(column.type) or pa.types.is_decimal(column.type)
    return f"CAST({name} AS text) AS {name}" if as_text else name
