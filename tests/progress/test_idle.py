"""What a silent input states, and when."""

from __future__ import annotations

import pyarrow as pa
import pytest

import penstock as pk
from penstock.progress.extremes import NOTHING, Extremes
from penstock.progress.idle import Idle, heartbeat, on_demand
from penstock.progress.policies.delayed import delayed
from penstock.progress.policies.ordered import ordered
from penstock.progress.policies.punctuated import punctuated

SECONDS = pa.timestamp("s")
INTEGER = pa.int64()


def test_a_heartbeat_states_the_clock_minus_the_skew() -> None:
    beat = heartbeat(every="1 second", skew="5 seconds")
    assert beat.statement(Extremes(largest=3, at=3_000_000), 100_000_000, SECONDS) == 95
    assert beat.statement(NOTHING, 100_000_000, SECONDS) == 95


@pytest.mark.parametrize(
    ("at", "last", "now", "due"),
    [
        (0, 0, 999_999, False),  # silent for less than the interval
        (0, 0, 1_000_000, True),
        (500_000, 0, 1_000_000, False),  # a tuple came in between
        (0, 500_000, 1_000_000, False),  # and so did a heartbeat
        (500_000, 700_000, 1_700_000, True),
    ],
)
def test_a_heartbeat_is_due_after_a_whole_interval_of_silence(at: int, last: int, now: int, due: bool) -> None:
    assert heartbeat(every="1 second").due(Extremes(largest=1, at=at), last, now) is due


def test_a_shard_that_has_ended_has_no_heartbeat() -> None:
    assert not heartbeat(every="1 second").due(Extremes(ended=True), 0, 10**12)


def test_on_demand_a_shard_states_its_last_value_plus_the_time_that_has_passed_minus_the_skew() -> None:
    # ets.md, section 5: t + tau - delta
    seen = Extremes(largest=50, at=1_000_000)
    assert on_demand(skew="3 seconds").statement(seen, 11_000_000, SECONDS) == 50 + 10 - 3


def test_on_demand_a_shard_that_never_spoke_states_the_clock_minus_the_skew() -> None:
    assert on_demand(skew="3 seconds").statement(NOTHING, 11_000_000, SECONDS) == 8


def test_rounding_never_makes_a_promise_stronger() -> None:
    assert heartbeat(skew="1500 ms").statement(NOTHING, 10_999_999, SECONDS) == 10 - 2


@pytest.mark.parametrize(("unit", "tick"), [("s", 7), ("ms", 7_000), ("us", 7_000_000), ("ns", 7_000_000_000)])
def test_an_integer_attribute_counts_what_its_unit_says(unit: str, tick: int) -> None:
    assert heartbeat(skew="0 s", unit=unit).statement(NOTHING, 7_000_000, INTEGER) == tick


@pytest.mark.parametrize("policy", [ordered, punctuated, lambda idle: delayed(2, idle=idle)])
def test_every_policy_takes_one(policy: object) -> None:
    idle = on_demand(skew="1 s", unit="s")
    made = policy(idle=idle)  # type: ignore[operator]
    assert made.idle is idle
    assert made.describe().endswith("on demand, skew 1 s")


def test_by_itself_it_is_the_policy_of_an_ordered_input() -> None:
    idle = heartbeat(unit="s")
    assert idle.idle is idle
    assert idle.low_water_mark(Extremes(largest=4, stated=9), INTEGER) == 9
    assert ordered().idle is None


@pytest.mark.parametrize(
    ("idle", "kind", "text"),
    [
        (heartbeat(skew="1 s"), INTEGER, "the wall clock cannot be compared with an integer attribute"),
        (heartbeat(every="0 seconds"), SECONDS, "the interval of heartbeats must be positive"),
        (on_demand(unit="h"), INTEGER, "unit='h' is unknown"),
        (heartbeat(every=3), SECONDS, "3 is no length of time"),  # type: ignore[arg-type]
    ],
)
def test_what_does_not_fit_is_refused(idle: Idle, kind: pa.DataType, text: str) -> None:
    with pytest.raises(pk.QueryError, match=text):
        idle.check(kind)


def test_silence_needs_a_policy_of_its_own() -> None:
    with pytest.raises(pk.QueryError, match="is no policy for silence"):
        ordered(idle=ordered()).check(SECONDS)  # type: ignore[arg-type]
