"""Fed one element at a time, the operators say what the algorithms of the paper say, element for element."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from tests.algebra.temporal.prefixes import SCHEMA, Element, adjust, insert
from tests.boxes.lmerge import oracle
from tests.boxes.lmerge.copies import Batch, Merge, mark_of, ordered_copy, revised_copy

import penstock as pk

INF = math.inf
ALGORITHMS: dict[str, Any] = {"R0": oracle.R0, "R1": oracle.R1, "R2": oracle.R2, "R3": oracle.R3, "R3-": oracle.R3}


def arrivals(case: str, seed: int) -> list[tuple[int, Element | float]]:
    """What two copies bring, one step at a time: (input, element or stable point)."""
    random = Random(seed)
    times = sorted(random.sample(range(30), 10) if case == "R0" else random.choices(range(12), k=10))
    keys = [(random.choice("ABCDE"), vs) for vs in times]
    events = [(p, vs, vs + random.choice([1, 4, 9])) for p, vs in (keys if case == "R1" else dict.fromkeys(keys))]
    make = revised_copy if case.startswith("R3") else ordered_copy
    left = [list(make(case, events, random).steps) for _ in range(2)]
    found = []
    while any(left):
        at = random.choice([at for at, steps in enumerate(left) if steps])
        found.append((at, left[at].pop(0)))
    return found


def single(step: tuple[int, Element | float], said: list[float]) -> Batch:
    """A batch in which one input says one thing."""
    at, told = step
    if not isinstance(told, tuple):
        said[at] = told
    return [([told] if isinstance(told, tuple) and other == at else [], said[other]) for other in range(2)]


@pytest.mark.parametrize("case", ALGORITHMS)
@pytest.mark.parametrize("seed", range(6))
def test_the_same_elements_leave(case: str, seed: int) -> None:
    merge, algorithm, said = Merge(2, case), ALGORITHMS[case](2), [-INF, -INF]
    for at, told in arrivals(case, seed):
        known = len(algorithm.out)
        if isinstance(told, tuple):
            algorithm.element(told, at)
        elif told > max(said):  # an input that comes as far as the other, and no further, changes nothing
            algorithm.stable(told, at)
        found = merge.batch(single((at, told), said)).to_pylist()
        expected = [element for element in algorithm.out[known:] if isinstance(element, tuple)]
        assert sorted(map(str, (tuple(row.values()) for row in found))) == sorted(map(str, expected))
        assert merge.stable == mark_of(max(said))
    assert merge.errors == []


TABLE_2: list[tuple[int, Element | float]] = [
    (0, insert("A", 6, 10)),
    (1, insert("A", 6, 12)),
    (1, insert("B", 7, 14)),
    (0, adjust("A", 6, 10, 15)),
    (1, adjust("A", 6, 12, 15)),
    (1, 16),
]
OUT_1 = [[insert("A", 6, 10)], [adjust("A", 6, 10, 12)], [insert("B", 7, 14)], [adjust("A", 6, 12, 15)], [], []]
OUT_2 = [[], [], [], [], [], [insert("A", 6, 15), insert("B", 7, 14)]]
OUT_3 = [[insert("A", 6, 10)], [], [insert("B", 7, 14)], [], [], [adjust("A", 6, 10, 15)]]


@pytest.mark.parametrize("case", ["R3", "R3-", "R4"])
@pytest.mark.parametrize(
    ("policy", "out"),
    [
        (pk.merge_policy(adjust="every"), OUT_1),
        (pk.merge_policy(insert="half-frozen"), OUT_2),
        (pk.merge_policy(), OUT_3),
    ],
    ids=["Out1", "Out2", "Out3"],
)
def test_table_2_three_outputs_are_three_policies(case: str, policy: Any, out: list[list[Element]]) -> None:
    merge, said = Merge(2, case, policy=policy), [-INF, -INF]
    found = [merge.batch(single(step, said)).to_pylist() for step in TABLE_2]
    assert found == [[dict(zip(SCHEMA.names, element, strict=True)) for element in batch] for batch in out]
    assert merge.stable == 16
