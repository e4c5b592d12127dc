"""lmerge.md I to III: the tables and examples on temporal databases and compatibility."""

from __future__ import annotations

import math
from itertools import combinations, product

import pytest
from tests.algebra.temporal.prefixes import Element, adjust, database, events, insert, prefix, table

import penstock as pk

INF = math.inf

PHY1 = [insert("B", 8, INF), insert("A", 6, 12), adjust("B", 8, INF, 10), 11, INF]
PHY2 = [insert("A", 6, 7), insert("B", 8, 15), adjust("A", 6, 7, 12), adjust("B", 8, 15, 10), INF]


def cut(stream: list[Element | float], length: int) -> pk.Prefix:
    """The first elements of a stream; numbers are stable points."""
    taken = stream[:length]
    return prefix(
        *(e for e in taken if isinstance(e, tuple)),
        stable=next((e for e in reversed(taken) if not isinstance(e, tuple)), None),
    )


def test_table_1_two_physical_streams_of_one_database() -> None:
    one, other = cut(PHY1, 5), cut(PHY2, 5)
    assert database(one.elements) == database(other.elements) == [("A", 6, 12), ("B", 8, 10)]
    assert pk.equivalent(one.elements, other.elements)
    assert not pk.equivalent(cut(PHY1, 1).elements, cut(PHY2, 1).elements)


@pytest.mark.parametrize(("one", "other"), list(product(range(6), range(6))))
def test_table_1_any_two_prefixes_can_still_become_equivalent(one: int, other: int) -> None:
    """The one that is not as far can follow the other."""
    behind, ahead = sorted((cut(PHY1, one), cut(PHY2, other)), key=lambda each: each.mark)
    assert pk.compatible(behind, [ahead])


def test_section_1_b_phy2_must_not_be_frozen_as_it_stands() -> None:
    """f(11) cannot follow a(A, 6, 7), a(B, 8, 15): it would freeze A too early, and B could not end at 10."""
    hasty = prefix(insert("A", 6, 7), insert("B", 8, 15), stable=11)
    found = pk.compatible(hasty, [cut(PHY1, 4), cut(PHY2, 2)])
    told = {(v.condition, v.event["p"]) for v in found.violations if v.event}
    assert told == {("C2", "A"), ("C2", "B"), ("C3", "A"), ("C3", "B")}


TABLE_2_INPUTS = (
    prefix(insert("A", 6, 10), adjust("A", 6, 10, 15)),
    prefix(insert("A", 6, 12), insert("B", 7, 14), adjust("A", 6, 12, 15), stable=16),
)
TABLE_2_OUTPUTS = {
    "Out1": prefix(insert("A", 6, 10), adjust("A", 6, 10, 12), insert("B", 7, 14), adjust("A", 6, 12, 15), stable=16),
    "Out2": prefix(insert("A", 6, 15), insert("B", 7, 14), stable=16),
    "Out3": prefix(insert("A", 6, 10), insert("B", 7, 14), adjust("A", 6, 10, 15), stable=16),
}


def test_table_2_three_outputs_of_one_database() -> None:
    for one, other in combinations(TABLE_2_OUTPUTS.values(), 2):
        assert pk.equivalent(one.elements, other.elements)
    for output in TABLE_2_OUTPUTS.values():
        assert pk.compatible(output, TABLE_2_INPUTS)


def test_example_3_open_and_close() -> None:
    """open(p, Vs) is an insert without an end, close(p, Ve) an adjust of its end; W closes B twice."""
    a, b, c = insert("A", 1, INF), insert("B", 2, INF), insert("C", 3, INF)
    close_a, close_b = adjust("A", 1, INF, 4), adjust("B", 2, INF, 5)
    s, u = [a, b, c, close_a, close_b], [a, close_a, b, close_b, c]
    w = [b, adjust("B", 2, INF, 6), a, c, close_a, adjust("B", 2, 6, 5)]
    assert database(table(s)) == [("A", 1, 4), ("B", 2, 5), ("C", 3, INF)]
    assert pk.equivalent(table(s), table(u))
    assert pk.equivalent(table(s), table(w))


def test_example_4_a_part_of_the_input_is_compatible_with_it() -> None:
    elements = [insert("A", 1, INF), insert("B", 2, INF), adjust("A", 1, INF, 4), insert("C", 3, INF)]
    parts = [part for size in range(5) for part in combinations(elements, size)]
    legal = [part for part in parts if elements[2] not in part or elements[0] in part]
    assert all(pk.compatible(prefix(*part), [prefix(*elements, stable=5)]) for part in legal)


def test_example_5_adjusts_add_up() -> None:
    revised = table([insert("A", 6, 20), adjust("A", 6, 20, 30), adjust("A", 6, 30, 25)])
    assert pk.equivalent(revised, table([insert("A", 6, 25)]))
    removed = table([insert("A", 6, 20), adjust("A", 6, 20, 6)])
    assert pk.equivalent(removed, table([]))


I1 = events(("A", 2, 16), ("B", 3, 10), ("C", 4, 18), ("D", 15, 20), stable=14)
I2 = events(("A", 2, 12), ("B", 3, 10), ("C", 4, 18), ("E", 17, 21), stable=11)
O1 = events(("A", 2, INF), ("B", 3, 10), ("C", 4, INF), stable=11)
O2 = events(("A", 2, 16), ("B", 3, 10), ("C", 4, 18), ("D", 15, 20), ("E", 17, 21), stable=14)
O3 = events(("A", 2, 12), ("C", 4, 18), ("D", 15, 20), stable=13)


def test_section_3_d_outputs_that_are_compatible() -> None:
    assert pk.compatible(O1, [I1, I2])
    assert pk.compatible(O2, [I1, I2])


def test_section_3_d_an_output_that_is_not_for_two_reasons() -> None:
    found = pk.compatible(O3, [I1, I2])
    assert not found
    assert [(v.condition, v.event) for v in found.violations] == [
        ("C2", {"p": "A", "vs": 2}),  # frozen with an end that I1 contradicts
        ("C3", {"p": "B", "vs": 3}),  # frozen in the inputs, and can no longer be added
        ("C3", {"p": "A", "vs": 2}),
    ]
    assert "p='B', vs=3: it is fully frozen in an input" in str(found)


def test_c1_the_output_is_no_further_than_its_inputs() -> None:
    found = pk.compatible(events(stable=15), [I1, I2])
    assert "C1: the output is stable up to 15, its inputs to 14" in str(found)


def test_c2_one_event_of_a_payload_and_a_begin() -> None:
    found = pk.compatible(events(("X", 30, 40), ("X", 30, 50)), [I1, I2])
    assert [v.reason for v in found.violations] == ["the output has more than one event"]


def test_an_output_may_lag_behind_its_only_input() -> None:
    assert pk.compatible(events(("A", 2, INF), ("B", 3, 10), ("C", 4, INF), stable=11), [I1])


def test_several_events_of_a_payload_and_a_begin() -> None:
    """The end of III-D: all fully frozen events, and as many half frozen ones."""
    copy = events(("A", 2, 5), ("A", 2, 5), ("A", 2, 9), ("A", 2, INF), stable=8)
    assert pk.compatible(events(("A", 2, 5), ("A", 2, 5), ("A", 2, 8), ("A", 2, 8), stable=8), [copy])
    assert not pk.compatible(events(("A", 2, 5), ("A", 2, 8), ("A", 2, 8), ("A", 2, 8), stable=8), [copy])
    assert not pk.compatible(events(("A", 2, 5), ("A", 2, 5), ("A", 2, 8), stable=8), [copy])
    assert pk.compatible(events(("A", 2, INF), ("A", 2, INF), ("A", 2, INF), ("A", 2, INF), stable=4), [copy])
    assert pk.compatible(events(("A", 2, 3), stable=2), [copy])
