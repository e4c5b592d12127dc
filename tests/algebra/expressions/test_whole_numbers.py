"""What Arrow does with whole numbers is what the kernel does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.algebra.expressions import whole_numbers
from penstock.algebra.expressions.binding import bind, bind_predicate
from penstock.algebra.expressions.expression import evaluate, mask
from penstock.algebra.expressions.whole_numbers import ports, truths, values

TUPLES = pa.table(
    {
        "i": pa.chunked_array([pa.array([-(2**63), 5, None]), pa.array([6, 2**63 - 1, 0])]),
        "t": pa.array([-128, 5, None, 127, 0, 6], pa.int8()),
        "u": pa.array([0, 5, None, 2**64 - 1, 6, 7], pa.uint64()),
        'a"b c': pa.array([5, 6, 7, None, 5, 4], pa.int32()),
        "f": pa.array([5.0, float("nan"), None, -0.0, 0.0, 6.0]),
    }
)


@pytest.mark.parametrize("column", ["i", "t", "u", '"a""b c"'])
@pytest.mark.parametrize("comparison", ["= 5", "<> 5", "!= 5", "< 5", "<= 5", "> 5", ">= 5", "> 0"])
def test_they_agree_with_the_kernel(column: str, comparison: str, monkeypatch: pytest.MonkeyPatch) -> None:
    predicate = bind_predicate(f"{column} {comparison}", TUPLES.schema)
    expected = np.asarray(mask([predicate], TUPLES))
    monkeypatch.setattr(whole_numbers, "mask", None)  # nobody asks the kernel
    for port, leaving in enumerate(ports([predicate], TUPLES, 2)):
        assert np.array_equal(leaving, expected == port)
    assert np.array_equal(truths(predicate, TUPLES), expected == 0)


@pytest.mark.parametrize("text", ["f > 5", "i + 0 > 5", "t > 1000", "i > -5", "i > t", "i > 5 AND t > 5"])
def test_the_rest_is_the_kernels(text: str) -> None:
    tuples = TUPLES.slice(1)  # without the smallest, which is no matter of this test
    predicate = bind_predicate(text, tuples.schema)
    expected = np.asarray(mask([predicate], tuples))
    (passing,) = ports([predicate], tuples, 1)
    assert np.array_equal(passing, expected == 0)


def test_several_predicates_go_to_the_first_that_is_true() -> None:
    predicates = [bind_predicate(text, TUPLES.schema) for text in ("t > 100", "t > 0")]
    leaving = [np.flatnonzero(chosen).tolist() for chosen in ports(predicates, TUPLES, 3)]
    assert leaving == [[3], [1, 5], [0, 2, 4]]


FLOATING = st.builds(lambda digits, e: f"{digits}e{e}", st.integers(1, 10**15 - 1), st.integers(0, 7))
DECIMAL = st.builds(lambda whole, part: f"{whole}.{part:03d}", st.integers(0, 10**12 - 1), st.integers(1, 999))
ASKED = st.tuples(st.sampled_from("+-*/"), FLOATING) | st.tuples(st.just("/"), DECIMAL)
"""Operations and constants that make a floating number: with decimals, only a division does."""
KINDS = st.sampled_from(["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])


@settings(max_examples=200, deadline=None)
@given(KINDS, ASKED, st.data())
def test_arithmetic_with_a_floating_constant_gives_the_bits_of_the_kernel(
    kind: str, asked: tuple[str, str], data: st.DataObject
) -> None:
    ends = np.iinfo(kind)
    numbers = data.draw(st.lists(st.integers(int(ends.min), int(ends.max)), min_size=1))
    tuples = pa.table({"x": pa.array(numbers, kind), "other": pa.array(list(map(str, numbers)))})
    texts = (("o", "other"), ("v", f"x {asked[0]} {asked[1]}"))
    expressions = [(name, bind(text, tuples.schema)) for name, text in texts]
    expected, found = evaluate(expressions, tuples), values(expressions, tuples)
    assert found.schema == expected.schema
    assert found.column("o").equals(expected.column("o"))
    bits = [np.asarray(each.column("v")).view(np.int64).tolist() for each in (found, expected)]
    assert bits[0] == bits[1]


@pytest.mark.parametrize("text", ["t / 1e3", "i * 2.5e0", "u - 1e0", "t + 1e0"])
def test_arithmetic_of_whole_numbers_asks_the_kernel_only_where_there_are_nulls(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expressions = [("v", bind(text, TUPLES.schema))]
    assert values(expressions, TUPLES).equals(evaluate(expressions, TUPLES))
    whole = TUPLES.slice(0, 2)
    expected = evaluate(expressions, whole)
    monkeypatch.setattr(whole_numbers, "evaluate", lambda some, tuples: evaluate([], tuples) if not some else None)
    assert values(expressions, whole).equals(expected)
    assert values(expressions, TUPLES) is None


@pytest.mark.parametrize("text", ["i / 0.0", "f / 1e3", "i * 1e300", "i / 123456789.123456789", "t / 7", "u / 2"])
def test_other_arithmetic_is_the_kernels(text: str) -> None:
    tuples = TUPLES.slice(1)
    expressions = [("v", bind(text, tuples.schema))]
    found, expected = values(expressions, tuples), evaluate(expressions, tuples)
    assert found.schema == expected.schema
    assert str(found.to_pylist()) == str(expected.to_pylist())
