"""The index pairs what the kernel pairs, in the same order, to the last bit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operators.scripted import box_of, source

import penstock as pk
from penstock.boxes.table_join import partners
from penstock.boxes.table_join.box import TableJoin
from penstock.boxes.table_join.known_rows import MOST_CODES, KnownRows
from penstock.operators.key_words import LONGEST

SCHEMA = {"ts": "int64", "k": "int64", "s": "string", "d": "timestamp[us]"}
ENDS = [-(2**63), 2**63 - 1, -1, 0, 1, 2, 10**6]
NUMBERS = st.sampled_from(ENDS) | st.integers(0, 6) | st.none()
TEXTS = st.sampled_from(["", "a", "b\0", "b", "ä", "x" * 8, "x" * 19, "x" * LONGEST]) | st.none()
TIMES = st.integers(0, 3) | st.none()
EQUALITIES = ["l.k = r.k", "l.s = r.s", "r.k = l.k AND (l.s = r.s)", "l.d = r.d AND l.s = r.s AND l.k = r.k"]


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    kinds = (pa.int64(), pa.string(), pa.timestamp("us"))
    return pa.table([pa.array(c, kind) for c, kind in zip(columns, kinds, strict=True)], names=["k", "s", "d"])


ROWS = st.lists(st.tuples(NUMBERS, TEXTS, TIMES), max_size=12).map(table)


def leaving(work: Any, tuples: pa.Table) -> pa.Table | None:
    found = [departing for _, departing in work.process(0, tuples)]
    return found[0].combine_chunks() if found else None


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("predicate", EQUALITIES)
@given(rows=ROWS, trains=st.lists(ROWS, min_size=1, max_size=3))
def test_the_index_finds_what_the_kernel_finds(
    how: str, predicate: str, rows: pa.Table, trains: list[pa.Table]
) -> None:
    rows = rows.append_column("name", pa.array([f"row {at}" for at in range(rows.num_rows)], pa.string()))
    box = box_of(source(SCHEMA).join(pk.table(rows), predicate, how=how))
    assert isinstance(box, TableJoin)
    whole = pa.concat_tables(trains)
    if not whole.num_rows:
        return
    tuples = whole.add_column(0, "ts", pa.array(range(whole.num_rows), pa.int64()))
    needed = frozenset(box.schema(0).names)
    known = KnownRows(rows)
    by_index = leaving(box.operator(needed, known), tuples)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KnownRows, "index", lambda self, columns: None)
        by_kernel = leaving(box.operator(needed, known), tuples)
    assert by_index == by_kernel
    coded = leaving(box.operator(needed, known, coded=["name", "ts"]), tuples)
    assert (None if coded is None else coded.cast(box.schema(0))) == (None if by_index is None else by_index)


@pytest.mark.parametrize(
    ("predicate", "indexed"),
    [
        ("l.k = r.k", True),
        ("(r.k = l.k) AND l.s = r.s", True),
        ("l.k = r.k AND r.k > 3", False),
        ("l.k = r.k AND l.k = l.ts", False),
        ("l.k = r.k OR l.s = r.s", False),
        ("l.k = r.k + 1", False),
        ("l.k = r.f", False),
    ],
)
def test_only_plain_equalities_are_for_the_index(predicate: str, indexed: bool) -> None:
    rows = pa.table({"k": [1, 2], "s": ["a", "b"], "f": [1.0, 2.0]})
    box = box_of(source(SCHEMA).join(pk.table(rows), predicate))
    assert isinstance(box, TableJoin)
    assert isinstance(partners.partners(box.pairing, KnownRows(rows)), partners.Indexed) == indexed


def test_an_index_is_made_once() -> None:
    known = KnownRows(pa.table({"k": [1, 2]}))
    assert known.index(("k",)) is known.index(("k",))


def test_texts_are_codes_only_if_they_are_few() -> None:
    many = [str(number) for number in range(MOST_CODES + 1)]
    known = KnownRows(pa.table({"few": ["a"] * len(many), "many": many}))
    assert pa.types.is_dictionary(known.coded("few").type)
    assert pa.types.is_string(known.coded("many").type)
    assert pa.types.is_string(KnownRows(pa.table({"no": pa.array([], pa.string())})).coded("no").type)
