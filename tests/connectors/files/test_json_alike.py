"""Lines that are written alike: whatever is found there is what the parser of JSON finds."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import json as arrow_json

from penstock.connectors.files.formats.json_alike import parse_alike
from penstock.connectors.files.formats.json_lines import _check_lines
from penstock.connectors.files.formats.text_blocks import check_utf8

SCHEMA = pa.schema(
    {"s": pa.string(), "i": pa.int8(), "l": pa.int64(), "u": pa.uint16(), "d": pa.float64(), "b": pa.bool_()}
)


def parsed(data: bytes, schema: pa.Schema = SCHEMA) -> pa.Table | None:
    """What the parser of JSON finds; None if it refuses the block."""
    try:
        check_utf8(pa.py_buffer(data))
        records = _check_lines(pa.py_buffer(data))
        table = arrow_json.read_json(
            pa.BufferReader(data),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=1 << 30),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore", newlines_in_values=False
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return table.select(schema.names) if len(table) == records else None


def same(data: bytes, schema: pa.Schema = SCHEMA) -> bool:
    """Whether lines were read as alike ones, which must be what the parser of JSON finds."""
    try:
        check_utf8(pa.py_buffer(data))
    except pa.ArrowInvalid:
        return False  # who asks has looked
    found = parse_alike(pa.py_buffer(data), schema)
    if found is None:
        return False
    expected = parsed(data, schema)
    assert expected is not None, data
    # Not by equality: NaN is no number of JSON, but two zeros are.
    assert repr(found.combine_chunks().to_pylist()) == repr(expected.combine_chunks().to_pylist())
    assert found.schema.equals(expected.schema)
    return True


plain = st.text(st.characters(codec="utf-8", exclude_characters='\\",'), max_size=6)
values: dict[str, st.SearchStrategy[Any]] = {
    "s": plain,
    "i": st.integers(-130, 130),
    "l": st.integers(-(2**63), 2**63 - 1),
    "u": st.integers(-1, 70_000),
    "d": st.one_of(st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False).map(lambda x: round(x, 3))),
    "b": st.booleans(),
    "more": st.one_of(plain, st.integers(), st.booleans(), st.none()),
}


@st.composite
def blocks(draw: st.DrawFn) -> bytes:
    names = draw(st.lists(st.sampled_from(sorted(values)), unique=True, min_size=1, max_size=5))
    comma, colon = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]))
    records = draw(st.lists(st.fixed_dictionaries({name: values[name] for name in names}), min_size=1, max_size=5))
    lines = [json.dumps(record, separators=(comma, colon), ensure_ascii=False) for record in records]
    return ("\n".join(lines) + draw(st.sampled_from(["", "\n"]))).encode()


@given(blocks())
def test_lines_of_a_program_are_read_as_the_parser_of_json_reads_them(data: bytes) -> None:
    same(data)


DAMAGE = [b"", b"0", b"-", b".", b'"', b",", b"{", b"}", b" ", b"\n", b"\r", b"\t", b"e1"]


@given(blocks(), st.data())
def test_so_are_lines_that_somebody_has_damaged(data: bytes, draw: st.DataObject) -> None:
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(data)))
        gone = draw.draw(st.integers(0, 3))
        new = draw.draw(
            st.sampled_from([b"", b"0", b"-", b".", b'"', b",", b"{", b"}", b" ", b"\n", b"\r", b"\t", b"e1"])
        )
        data = data[:at] + new + data[at + gone :]
    if data:
        same(data)


READ = {
    "one line": b'{"s":"x"}',
    "spaces": b'{ "s" : "x" , "i" : 1 }\n{ "s" : "yy" , "i" : -12 }\n',
    "an empty text": b'{"s":"","i":0}\n{"s":"","i":-0}\n',
    "fields that nobody wants": b'{"more":1,"s":"x","else":"y","y":true}\n{"more":2.5,"s":"x","else":"","y":false}\n',
    "braces and colons in a text": b'{"s":"{a:b}","i":1}\n{"s":"}","i":1}\n',
    "whole numbers for a float": b'{"d":1}\n{"d":0.25}\n{"d":-0.5}\n',
    "letters of other scripts": '{"s":"żółw"}\n{"s":"亀"}\n'.encode(),
    "no field that is wanted": b'{"more":1}\n{"more":2}\n',
}
NOT_READ = {
    "an escaped quote": b'{"s":"a"}\n{"s":"a\\"b"}\n',
    "an escaped letter": b'{"s":"a"}\n{"s":"\\u0041"}\n',
    "a comma in a text": b'{"s":"a","i":1}\n{"s":"a,b","i":1}\n',
    "another order": b'{"s":"a","i":1}\n{"i":1,"s":"a"}\n',
    "other spaces": b'{"s":"a","i":1}\n{"s":"a", "i":1}\n',
    "a field less": b'{"s":"a","i":1}\n{"s":"a"}\n',
    "a field twice": b'{"s":"a","s":"b"}\n',
    "null": b'{"s":"a"}\n{"s":null}\n',
    "an object inside": b'{"s":"a","more":{"x":1}}\n',
    "a blank line": b'{"i":1}\n\n{"i":2}\n',
    "a line of spaces": b'{"i":1}\n  \n{"i":2}\n',
    "line ends of Windows": b'{"i":1}\r\n{"i":2}\r\n',
    "a tab in a text": b'{"s":"a"}\n{"s":"a\tb"}\n',
    "two records on a line": b'{"i":1}{"i":2}\n',
    "a number too large": b'{"i":1}\n{"i":300}\n',
    "a leading zero": b'{"i":1}\n{"i":01}\n',
    "a plus": b'{"i":1}\n{"i":+1}\n',
    "hexadecimal": b'{"i":1}\n{"i":0x1}\n',
    "a float for a whole number": b'{"i":1}\n{"i":1.0}\n',
    "a point at the end": b'{"d":1.5}\n{"d":1.}\n',
    "two points": b'{"d":1.5}\n{"d":1.2.3}\n',
    "an exponent": b'{"d":1.5}\n{"d":1e5}\n',
    "a text for a number": b'{"i":1}\n{"i":"1"}\n',
    "a number for a text": b'{"s":1}\n{"s":2}\n',
    "nothing for a number": b'{"i":1}\n{"i":}\n',
    "an array": b"[1,2]\n[3,4]\n",
    "no JSON": b"hello\n",
    "an empty object": b"{}\n{}\n",
    "a brace too many": b'{"i":1}\n{"i":1}}\n',
}


@pytest.mark.parametrize("data", READ.values(), ids=READ)
def test_is_read(data: bytes) -> None:
    assert same(data)


@pytest.mark.parametrize("data", NOT_READ.values(), ids=NOT_READ)
def test_is_left_to_the_parser_of_json(data: bytes) -> None:
    assert parse_alike(pa.py_buffer(data), SCHEMA) is None


@example("1", "0")
@given(st.from_regex(r"[-+0-9.eEx]{1,5}", fullmatch=True), st.from_regex(r"-?[1-9][0-9]?(\.[0-9]+)?", fullmatch=True))
def test_numbers_are_those_of_json(text: str, first: str) -> None:
    data = f'{{"d":{first}}}\n{{"d":{text}}}\n'.encode()
    same(data, pa.schema({"d": pa.float64()}))
    if "." not in first:
        same(data, pa.schema({"d": pa.int64()}))
