"""Comparisons of whole numbers that Arrow does say what the kernel says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.algebra.expressions import whole_numbers
from penstock.algebra.expressions.binding import bind_predicate
from penstock.algebra.expressions.expression import mask
from penstock.algebra.expressions.whole_numbers import ports, truths

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
    assert np.array_equal(ports([predicate], TUPLES), expected)
    assert np.array_equal(truths(predicate, TUPLES), expected == 0)


@pytest.mark.parametrize("text", ["f > 5", "i + 0 > 5", "t > 1000", "i > -5", "i > t", "i > 5 AND t > 5"])
def test_the_rest_is_the_kernels(text: str) -> None:
    tuples = TUPLES.slice(1)  # without the smallest, which is no matter of this test
    predicate = bind_predicate(text, tuples.schema)
    assert np.array_equal(ports([predicate], tuples), np.asarray(mask([predicate], tuples)))


def test_several_predicates_go_to_the_first_that_is_true() -> None:
    predicates = [bind_predicate(text, TUPLES.schema) for text in ("t > 100", "t > 0")]
    assert ports(predicates, TUPLES).tolist() == [2, 1, 2, 0, 2, 1]
