from __future__ import annotations

import bz2
import datetime as dt
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.connector import Limit
from penstock.connectors.files.declaration import files
from penstock.connectors.journal import MemoryJournal
from penstock.errors import QueryError

Drain = Callable[..., Any]
SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.float64()), ("k", pa.string())])
PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda text: pa.Codec("zstd").compress(text, asbytes=True),
}


def text_of(count: int) -> str:
    return "ts,v,k\n" + "".join(f"{at},{at / 4},k{at % 7}\n" for at in range(count))


def rows(count: int) -> list[dict[str, Any]]:
    return [{"ts": at, "v": at / 4, "k": f"k{at % 7}"} for at in range(count)]


@pytest.mark.parametrize("packing", PACK)
def test_plain_and_compressed_files_give_their_rows(data: Path, drain: Drain, packing: str) -> None:
    path = data / f"a.csv{packing}"
    path.write_bytes(PACK[packing](text_of(2_000).encode()))
    got = drain(files(str(path)))
    assert got.tuples == rows(2_000)
    assert got.rejects == []
    assert drain(files(str(path)), columns=["k"]).tuples == [{"k": row["k"]} for row in rows(2_000)]


@pytest.mark.parametrize("split_bytes", [1, 2, 7, 10, 64, 1_000, 4_096])
@pytest.mark.parametrize("end", ["\n", ""])
def test_any_cut_gives_the_same_rows(
    data: Path, drain: Drain, any_limit: Callable[[], Limit], split_bytes: int, end: str
) -> None:
    (data / "a.csv").write_text("\n" + text_of(60).rstrip("\n") + end)
    got = drain(files(str(data), split_bytes=split_bytes), schema=SCHEMA, limit=any_limit)
    assert got.tuples == rows(60)
    assert got.rejects == []


BROKEN = """ts,v,k
1,1.5,a
2,2.5
3,x,c

4,4.5,d,e
abc,5.5,f
6,6.5,"g
7,7.5,"h,i"
99999999999999999999,8.5,j
9,,
"""


def test_broken_lines_are_refused_one_by_one(data: Path, drain: Drain) -> None:
    (data / "a.csv").write_text(BROKEN)
    got = drain(files(str(data)), schema=SCHEMA)
    assert got.tuples == [
        {"ts": 1, "v": 1.5, "k": "a"},
        {"ts": 7, "v": 7.5, "k": "h,i"},
        {"ts": 9, "v": None, "k": None},
    ]
    assert got.told() == [
        (3, "2,2.5", "has 2 fields, expected 3"),
        (4, "3,x,c", "column 'v': 'x' is no double"),
        (6, "4,4.5,d,e", "has 4 fields, expected 3"),
        (7, "abc,5.5,f", "column 'ts': 'abc' is no int64"),
        (8, '6,6.5,"g', "a quoted field does not end on its line (multiline=True allows line breaks)"),
        (10, "99999999999999999999,8.5,j", "column 'ts': '99999999999999999999' is no int64"),
    ]
    assert {one["rows"] for one in got.rejects} == {1}


@pytest.mark.parametrize("split_bytes", [1, 5, 16, 33, 50])
@pytest.mark.parametrize("columns", [["ts", "v", "k"], ["k"]])
def test_rejects_do_not_depend_on_the_cut_or_the_columns(
    data: Path, drain: Drain, split_bytes: int, columns: list[str]
) -> None:
    (data / "a.csv").write_text(BROKEN)
    whole = drain(files(str(data)), schema=SCHEMA)
    cut = drain(files(str(data), split_bytes=split_bytes), schema=SCHEMA, columns=columns)
    assert cut.told() == whole.told()
    assert cut.tuples == [{name: row[name] for name in columns} for row in whole.tuples]


def test_rejects_of_compressed_files_tell_the_line(data: Path, drain: Drain) -> None:
    (data / "a.csv.gz").write_bytes(gzip.compress(BROKEN.encode()))
    assert [at for at, _, _ in drain(files(str(data)), schema=SCHEMA).told()] == [3, 4, 6, 7, 8, 10]


def test_a_file_full_of_broken_lines_is_read_in_good_time(data: Path, drain: Drain) -> None:
    lines = [f"{at},1.0,k" if at % 2 else f"x{at},1.0,k" for at in range(100_000)]
    (data / "a.csv").write_text("ts,v,k\n" + "\n".join(lines) + "\n")
    got = drain(files(str(data)), schema=SCHEMA, columns=["ts"])
    assert [row["ts"] for row in got.tuples] == list(range(1, 100_000, 2))
    assert len(got.rejects) == 50_000
    assert got.told()[-1] == (100_000, "x99998,1.0,k", "column 'ts': 'x99998' is no int64")


def test_quotes_line_ends_and_the_byte_order_mark_are_understood(data: Path, drain: Drain) -> None:
    text = '\ufeffts,v,k\r\n1,1.5,"a, ""b"""\r\n\r\n2,2.5,5" pipe\r\n3, 3.5 ,"c"'
    (data / "a.csv").write_bytes(text.encode())
    got = drain(files(str(data)), schema=SCHEMA)
    assert got.tuples == [
        {"ts": 1, "v": 1.5, "k": 'a, "b"'},
        {"ts": 2, "v": 2.5, "k": '5" pipe'},
        {"ts": 3, "v": 3.5, "k": "c"},
    ]
    assert got.rejects == []


def test_text_that_is_no_utf8_is_refused(data: Path, drain: Drain) -> None:
    (data / "a.csv").write_bytes(b"ts,v,k\n1,1.0,a\n2,2.0,\xff\xfe\n3,3.0,c\n")
    got = drain(files(str(data)), schema=SCHEMA)
    assert [row["ts"] for row in got.tuples] == [1, 3]
    assert [(at, reason) for at, _, reason in got.told()] == [(3, "column 'k': is no UTF-8 text")]


def test_columns_are_mapped_by_the_header_or_by_position(data: Path, drain: Drain) -> None:
    (data / "a.csv").write_text("k,extra,ts,extra,v\na,x,1,y,1.5\n")
    assert drain(files(str(data / "a.csv")), schema=SCHEMA).tuples == [{"ts": 1, "v": 1.5, "k": "a"}]
    (data / "b.tsv").write_text("1\t1.5\ta\n2\tNA\tb\n")
    plain = files(str(data / "b.tsv"), header=False, null_values=("NA",), schema=SCHEMA)
    assert drain(plain).tuples == [{"ts": 1, "v": 1.5, "k": "a"}, {"ts": 2, "v": None, "k": "b"}]
    (data / "c.csv").write_text("ts;v;k\n1;1.5;a\n")
    assert drain(files(str(data / "c.csv"), delimiter=";")).tuples == [{"ts": 1, "v": 1.5, "k": "a"}]


def test_a_header_without_a_column_is_one_reject(data: Path, drain: Drain) -> None:
    (data / "a.csv").write_text("ts,k\n1,a\n2,b\n")
    (data / "b.csv").write_text("ts,v,k\n1,1.0,a\n")
    got = drain(files(str(data), schema=SCHEMA, split_bytes=4))
    assert got.tuples == [{"ts": 1, "v": 1.0, "k": "a"}]
    assert got.told() == [(None, None, "has no column 'v': its header has ts, k")]


MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-02T03:04:05", MOMENT),
        ("2026-01-02 03:04:05", MOMENT),
        ("2026-01-02 03:04:05.25", MOMENT.replace(microsecond=250_000)),
        ("2026-01-02T03:04:05Z", MOMENT),
        ("2026-01-02T05:04:05+02:00", MOMENT),
        ("2026-01-02", dt.datetime(2026, 1, 2)),
        ("02/01/2026 03:04:05", MOMENT),
        ("", None),
    ],
)
@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("company", [[], ["2026-05-05"], ["2026-05-05T00:00:00Z"], ["soon"]])
def test_times_are_read_in_any_company(
    data: Path, drain: Drain, text: str, moment: dt.datetime | None, zone: str | None, company: list[str]
) -> None:
    (data / "a.csv").write_text("".join(f"{one},x\n" for one in [text, *company]))
    schema = pa.schema([("ts", pa.timestamp("us", zone)), ("k", pa.string())])
    connector = files(str(data), schema=schema, header=False, timestamp_formats=["%d/%m/%Y %H:%M:%S"])
    got = drain(connector)
    expected = moment.replace(tzinfo=dt.UTC) if moment and zone else moment
    assert got.tuples[0]["ts"] == expected
    refused = company == ["soon"]
    assert len(got.tuples) == 1 + len(company) - refused
    assert got.told() == ([(2, "soon,x", f"column 'ts': 'soon' is no {schema.field(0).type}")] if refused else [])


def test_dates_truths_and_decimals_are_read_and_refused(data: Path, drain: Drain) -> None:
    schema = pa.schema([("d", pa.date32()), ("b", pa.bool_()), ("m", pa.decimal128(5, 2)), ("s", pa.int8())])
    (data / "a.csv").write_text("d,b,m,s\n2026-01-02,true,1.25,5\nx,true,1,5\n,maybe,1,5\n,,1.255,5\n,,,500\n")
    got = drain(files(str(data), schema=schema))
    assert len(got.tuples) == 1
    assert got.tuples[0]["d"] == dt.date(2026, 1, 2)
    assert [(at, reason.split(":")[0]) for at, _, reason in got.told()] == [
        (2 + at, f"column '{name}'") for at, name in enumerate("dbms", 1)
    ]


def test_line_breaks_in_quotes_need_multiline(data: Path, drain: Drain) -> None:
    text = 'ts,v,k\n1,1.5,"two\nlines"\n2,x,b\n3\n4,4.5,d\n'
    (data / "a.csv").write_text(text)
    single = drain(files(str(data)), schema=SCHEMA)
    assert [row["ts"] for row in single.tuples] == [4]
    assert [at for at, _, _ in single.told()] == [2, 3, 4, 5]
    both = drain(files(str(data), multiline=True, split_bytes=5), schema=SCHEMA)
    assert both.tuples == [{"ts": 1, "v": 1.5, "k": "two\nlines"}, {"ts": 4, "v": 4.5, "k": "d"}]
    assert both.told() == [
        (2, "2,x,b", "column 'v': 'x' is no double"),
        (3, "3", "has 1 fields, expected 3"),
    ]


def test_a_damaged_compressed_file_gives_what_it_can_and_one_reject(data: Path, drain: Drain) -> None:
    packed = gzip.compress(text_of(1_000).encode())
    (data / "a.csv.gz").write_bytes(packed[: len(packed) // 2])
    (data / "b.csv.gz").write_bytes(b"no gzip at all")
    (data / "c.csv.xz").write_bytes(b"no xz at all")
    (data / "d.csv").write_text(text_of(10))
    got = drain(files(str(data), schema=SCHEMA))
    assert got.tuples[-10:] == rows(10)
    assert {Path(one["origin"]).name for one in got.rejects} == {"a.csv.gz", "b.csv.gz", "c.csv.xz"}
    assert all("cannot be decompressed" in one["reason"] for one in got.rejects)


def test_types_are_guessed_from_the_first_lines(data: Path) -> None:
    (data / "a.csv").write_text("ts,at,v,k,nothing\n1,2026-01-01 00:00:00,1.5,a,\n")
    assert files(str(data)).schema() == pa.schema(
        [
            ("ts", pa.int64()),
            ("at", pa.timestamp("us")),
            ("v", pa.float64()),
            ("k", pa.string()),
            ("nothing", pa.string()),
        ]
    )


def test_a_list_column_is_refused(data: Path) -> None:
    (data / "a.csv").write_text("a\n1\n")
    schema = pa.schema([("a", pa.list_(pa.int64()))])
    with pytest.raises(QueryError, match="CSV cannot hold column 'a'"):
        files(str(data), schema=schema).open(schema, MemoryJournal())
