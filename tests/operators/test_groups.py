"""Groups are numbered in order of appearance, alike in all tables, whether texts come as codes or not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.groups import coded_texts, encoded, group_numbers, group_slots, number

TEXTS = st.sampled_from([None, "", "a", "b", "c\0"])
NUMBERS = st.sampled_from([None, -(2**63), 0, 2**63 - 1])


@st.composite
def tables(draw: st.DrawFn) -> list[pa.Table]:
    """Some tables; texts of some of them come as codes, of dictionaries with entries that nobody has."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(st.lists(st.tuples(TEXTS, NUMBERS), max_size=8))
        texts = pa.array([text for text, _ in rows], pa.string())
        if draw(st.booleans()):
            more = pa.array(["unused", "a", *texts.to_pylist()], pa.string())
            texts = more.dictionary_encode().slice(2)
        found.append(pa.table({"k": texts, "n": pa.array([n for _, n in rows], pa.int64())}))
    return found


def expected(keys: list[Any]) -> list[int]:
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


@given(tables())
def test_codes_make_no_difference(found: list[pa.Table]) -> None:
    for by in (["k"], ["n"], ["k", "n"]):
        keys = [tuple(row[name] for name in by) for table in found for row in table.to_pylist()]
        groups, numbers = number(found, by)
        assert [one for own in numbers for one in own.tolist()] == expected(keys)
        assert [len(own) for own in numbers] == [table.num_rows for table in found]
        assert [tuple(row.values()) for row in groups.keys.to_pylist()] == list(dict.fromkeys(keys))
        assert groups.count == groups.keys.num_rows
        assert groups.keys.schema.types == [found[0].schema.field(name).type for name in by]


@given(tables())
def test_groups_of_one_table_are_numbered_as_in_plain_python(found: list[pa.Table]) -> None:
    (table, *_) = found
    for by in (["k"], ["k", "n"]):
        keys = [tuple(row[name] for name in by) for row in table.to_pylist()]
        assert group_numbers(table, by).tolist() == expected(keys)
    plain = table.set_column(0, "k", table.column("k").cast(pa.string()))
    assert group_slots(table, ["k"]).tolist() == group_slots(plain, ["k"]).tolist()
    assert coded_texts(plain, ["k", "n"]).cast(plain.schema) == plain


def test_zeros_and_what_is_no_number_are_one_group_each() -> None:
    table = pa.table({"x": [0.0, -0.0, float("nan"), None, float("nan")]})
    groups, (numbers,) = number([table], ["x"])
    assert (groups.count, numbers.tolist()) == (3, [0, 0, 1, 2, 1])


def test_nothing_has_no_groups() -> None:
    values, numbers = encoded([pa.chunked_array([], pa.string())])
    assert (len(values), len(numbers)) == (0, 0)
