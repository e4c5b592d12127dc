from __future__ import annotations

import random

import pyarrow as pa
import pytest

from penstock.algebra.expressions.binding import bind
from penstock.algebra.expressions.expression import evaluate
from penstock.algebra.expressions.monotone import progression
from penstock.algebra.ticks import BEGINNING, END, from_ticks, to_ticks

SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "i": pa.int32(),
        "u": pa.uint64(),
        "d": pa.date32(),
        "s": pa.timestamp("s"),
        "ms": pa.timestamp("ms"),
        "us": pa.timestamp("us"),
        "t": pa.timestamp("us", tz="UTC"),
        "ns": pa.timestamp("ns"),
        "b": pa.int64(),
    }
)

MONOTONE = [
    ("ts", "ts"),
    ("ts", "TS"),
    ("ts", "ts / 60"),
    ("ts", "ts // 7"),
    ("ts", "(ts - 3) / 60 * 60 + 5"),
    ("ts", "5 + ts"),
    ("ts", "1000 * ts"),
    ("ts", "ts / (2 + 1)"),
    ("ts", "CAST(ts AS DOUBLE)::BIGINT"),
    ("ts", "floor(ts * 0.3)::BIGINT"),
    ("ts", "CAST(ceil(ts / 7.5) AS INTEGER)"),
    ("ts", "round(ts, -2)"),
    ("ts", "trunc(ts * 1.5)::BIGINT"),
    ("ts", "make_timestamp(ts)"),
    ("ts", "to_timestamp(ts)"),
    ("ts", "epoch_ms(ts)::DATE"),
    ("ts", "greatest(ts, 5)"),
    ("ts", "least(ts, ts / 2, 100)"),
    ("i", "i::BIGINT * 1000"),
    ("i", "i::SMALLINT"),
    ("u", "u / 60"),
    ("d", "d + 1"),
    ("d", "d + INTERVAL 1 day"),
    ("d", "d::TIMESTAMP"),
    ("d", "d - DATE '2020-01-01'"),
    ("s", "s::TIMESTAMP"),
    ("ms", "date_trunc('hour', ms)"),
    ("ms", "ms::TIMESTAMP_NS"),
    ("us", "us::DATE"),
    ("us", "us - INTERVAL '36 hours'"),
    ("us", "us::TIMESTAMP_S"),
    ("us", "us AT TIME ZONE 'UTC'"),
    ("t", "date_trunc('month', t)"),
    ("t", "time_bucket(INTERVAL '5 minutes', t)"),
    ("t", "time_bucket(INTERVAL '1 month', t)"),
    ("t", "time_bucket(INTERVAL '7 minutes', t, TIMESTAMPTZ '2020-01-01 00:01:00Z')"),
    ("t", "epoch_ms(t)"),
    ("t", "epoch_us(t) / 1000"),
    ("t", "epoch(t)::BIGINT"),
    ("ns", "epoch_ns(ns)"),
]


@pytest.mark.parametrize(
    "text",
    [
        "ts % 60",
        "ts * ts",
        "ts + b",
        "ts * 0",
        "ts / -2",
        "ts / 0",
        "ts / b",
        "60 / ts",
        "abs(ts)",
        "ts::VARCHAR",
        "ts::DOUBLE",
        "floor(ts / 60)",
        "TRY_CAST(ts AS INTEGER)",
        "greatest(ts, b)",
        "greatest(ts, -ts)",
        "nullif(ts, 3)",
        "CASE WHEN ts > 5 THEN ts END",
        "b",
        "1",
        "ts > 5",
        "xor(ts, 1)",
    ],
)
def test_does_not_progress(text: str) -> None:
    assert progression(bind(text, SCHEMA), "ts", SCHEMA) is None


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ("t", "t + INTERVAL 1 month"),
        ("t", "t::TIME"),
        ("t", "hour(t)"),
        ("t", "epoch(t)"),
        ("t", "t AT TIME ZONE 'Europe/Berlin'"),
        ("us", "strftime(us, '%Y')"),
    ],
)
def test_times_that_do_not_progress(attribute: str, text: str) -> None:
    assert progression(bind(text, SCHEMA), attribute, SCHEMA) is None


@pytest.mark.parametrize(("attribute", "text"), MONOTONE)
def test_never_decreases_and_marks_stay_below(attribute: str, text: str) -> None:
    bound = bind(text, SCHEMA)
    found = progression(bound, attribute, SCHEMA)
    assert found is not None
    assert (found.apply(BEGINNING), found.apply(END)) == (BEGINNING, END)

    source = SCHEMA.field(attribute).type
    chance = random.Random(text)
    reach = (
        30_000
        if pa.types.is_date(source) or pa.types.is_integer(source)
        else {"s": 10**10, "ms": 10**12}.get(source.unit, 10**15)
    )
    low = 0 if pa.types.is_unsigned_integer(source) else -reach
    values = sorted(chance.randint(low, reach) for _ in range(300)) + [reach + near for near in range(200)]
    column = from_ticks(pa.array(values, pa.int64()), source)
    results = to_ticks(evaluate([("y", bound)], pa.table({attribute: column}))["y"]).to_pylist()
    assert None not in results
    assert results == sorted(results)
    for at in range(0, len(values), 25):
        assert found.apply(values[at]) == results[at]
        assert found.apply(values[at] - chance.randint(0, 1000)) <= results[at]


@pytest.mark.parametrize(
    ("text", "tick", "mark"),
    [
        ("ts / 60", -1, -1),
        ("ts / 60", 125, 2),
        ("ts + 5", END - 2, END - 1),
        ("ts - 5", BEGINNING + 2, BEGINNING),
        ("ts * 1000", 2**60, END - 1),
        ("ts * 1000", -(2**60), BEGINNING),
        ("ts::INTEGER", 2**40, 2**31 - 1),
        # Far from where it is defined, and still below it: 5 overflows downwards here.
        ("ts - 9223372036854775807 - 100", 5, BEGINNING),
        ("to_timestamp(ts)", 2**60, END - 1),
    ],
)
def test_marks_out_of_range_are_clamped(text: str, tick: int, mark: int) -> None:
    found = progression(bind(text, SCHEMA), "ts", SCHEMA)
    assert found is not None
    assert found.apply(tick) == mark


def test_a_mark_that_the_attribute_cannot_hold_is_clamped() -> None:
    found = progression(bind("u / 60", SCHEMA), "u", SCHEMA)
    assert found is not None
    assert found.apply(-5) == 0


@pytest.mark.parametrize(("attribute", "text"), MONOTONE)
def test_stronger_marks_never_give_weaker_ones(attribute: str, text: str) -> None:
    found = progression(bind(text, SCHEMA), attribute, SCHEMA)
    assert found is not None
    ladder = [BEGINNING, BEGINNING + 1, -(2**62), -(2**31), -60, -1, 0, 1, 59, 2**15, 2**31, 2**45, 2**62, END - 1, END]
    marks = [found.apply(tick) for tick in ladder]
    assert marks == sorted(marks)


@pytest.mark.parametrize(
    ("text", "falls", "mark", "expected"),
    [
        # an attribute that goes up, and an expression that goes down: ts >= 30, so 5 - ts <= -25
        ("5 - ts", False, 30, 25),
        ("-ts", False, 30, 30),
        ("ts * -2", False, 30, 60),
        ("CAST(-ts AS INTEGER) + 1", False, 30, 29),
        # an attribute that goes down, and one that turns it round: ts <= 30, so 100 - ts >= 70
        ("100 - ts", True, -30, 70),
        ("-(ts // 7)", True, -30, -4),
        # one that goes down, and stays so: ts <= 30, so ts + 1 <= 31
        ("ts + 1", True, -30, -31),
    ],
)
def test_marks_of_what_decreases_are_of_its_negative(text: str, falls: bool, mark: int, expected: int) -> None:
    found = progression(bind(text, SCHEMA), "ts", SCHEMA, falls=falls)
    assert found is not None
    assert found.apply(mark) == expected
    assert found.result_falls == (text in ("5 - ts", "-ts", "ts * -2", "CAST(-ts AS INTEGER) + 1", "ts + 1"))


@pytest.mark.parametrize(
    "text", ["ts % 7", "-(ts % 7)", "abs(ts)", "ts * ts", "5 - ts - ts", "TRY_CAST(-ts AS INTEGER)"]
)
def test_what_goes_up_and_down_does_not_progress_either_way(text: str) -> None:
    assert progression(bind(text, SCHEMA), "ts", SCHEMA, falls=True) is None


def test_times_do_not_decrease() -> None:
    assert progression(bind("make_timestamp(-epoch_us(us))", SCHEMA), "us", SCHEMA) is None
