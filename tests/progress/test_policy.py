"""Input progress policies: what a shard has delivered, and the low-water mark that it justifies."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as pk
from penstock.algebra.ticks import BEGINNING, END
from penstock.progress.extremes import NOTHING, Extremes, Highest
from penstock.progress.policies.slack import MOST_SLACK

ticks = st.integers(BEGINNING, END)
extremes = st.builds(Extremes, ticks, ticks, st.booleans())


@pytest.mark.parametrize(
    ("policy", "seen", "mark"),
    [
        # what was delivered            stated
        (pk.ordered(), NOTHING, BEGINNING),
        (pk.ordered(), Extremes(largest=7), 7),
        (pk.ordered(), Extremes(largest=7, stated=9), 9),
        (pk.ordered(), Extremes(largest=7, stated=3), 7),
        (pk.delayed(5), NOTHING, BEGINNING),
        (pk.delayed(5), Extremes(largest=7), 2),
        (pk.delayed(5), Extremes(largest=7, stated=4), 4),
        (pk.delayed(5), Extremes(largest=BEGINNING + 3), BEGINNING),
        (pk.delayed(0), Extremes(largest=7), 7),
        (pk.punctuated(), Extremes(largest=7), BEGINNING),
        (pk.punctuated(), Extremes(largest=7, stated=4), 4),
        (pk.slack(1), Extremes(largest=7, highest=Highest(2, (7,))), BEGINNING),
        (pk.slack(1), Extremes(largest=7, highest=Highest(2, (7, 3))), 3),
        (pk.slack(1), Extremes(largest=7, stated=5, highest=Highest(2, (7, 3))), 5),
        (pk.slack(0), Extremes(largest=7, highest=Highest(1, (7,))), 7),
        (pk.slack(1), Extremes(largest=7, ended=True), END),
        (pk.ordered(), Extremes(ended=True), END),
        (pk.delayed(5), Extremes(largest=7, ended=True), END),
        (pk.punctuated(), Extremes(ended=True), END),
    ],
)
def test_the_mark_a_policy_states(policy: Any, seen: Extremes, mark: int) -> None:
    assert policy.low_water_mark(seen, pa.int64()) == mark


def test_a_delay_is_measured_in_the_ticks_of_the_attribute() -> None:
    seen = Extremes(largest=10_000)
    assert pk.delayed("2 seconds").low_water_mark(seen, pa.timestamp("ms")) == 8_000
    assert pk.delayed("2 ms").low_water_mark(seen, pa.timestamp("us")) == 8_000
    assert pk.delayed("2 days").low_water_mark(seen, pa.date32()) == 9_998


@given(one=extremes, two=extremes, three=extremes)
def test_extremes_merge_in_any_order_and_any_cut(one: Extremes, two: Extremes, three: Extremes) -> None:
    assert one.merge(two) == two.merge(one)
    assert one.merge(two).merge(three) == one.merge(two.merge(three))
    assert one.merge(NOTHING) == one
    assert one.merge(one) == one


@given(one=extremes, two=extremes, policy=st.sampled_from([pk.ordered(), pk.delayed(5), pk.punctuated()]))
def test_a_mark_never_falls_when_more_is_known(one: Extremes, two: Extremes, policy: Any) -> None:
    mark = policy.low_water_mark(one, pa.int64())
    assert policy.low_water_mark(one.merge(two), pa.int64()) >= mark


@pytest.mark.parametrize("tuples", [-1, True, 1.5, "2 seconds", None])
def test_slack_is_a_number_of_tuples(tuples: Any) -> None:
    with pytest.raises(pk.QueryError, match="slack is a number of tuples"):
        pk.slack(tuples)


def test_a_slack_that_no_record_should_carry_is_refused() -> None:
    with pytest.raises(pk.QueryError, match="a slack of 1,001 tuples is too long to be remembered"):
        pk.slack(MOST_SLACK + 1)
    assert pk.slack(MOST_SLACK).remembers == MOST_SLACK + 1


@pytest.mark.parametrize(
    ("values", "wanted"), [((), "needs 3, and 0 came"), ((9, 4), "needs 3, and 2 came"), ((9, 4, 1), None)]
)
def test_a_slack_says_how_many_tuples_it_waits_for(values: tuple[int, ...], wanted: str | None) -> None:
    said = pk.slack(2).wants(Extremes(highest=Highest(3, values)))
    assert said == (wanted and f"a slack of 2 tuples {wanted}")


def test_a_policy_says_what_it_is() -> None:
    policies = [
        pk.ordered(),
        pk.delayed("2 s"),
        pk.slack(1),
        pk.slack(20),
        pk.punctuated(),
        pk.punctuated(where="k = 'mark'"),
    ]
    assert [p.describe() for p in policies] == [
        "ordered",
        "delayed by 2 s",
        "slack of 1 tuple",
        "slack of 20 tuples",
        "punctuated",
        "punctuated where k = 'mark'",
    ]
