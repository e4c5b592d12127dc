"""What Top refuses, word by word, and what it derives."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import penstock as pk

SCHEMA = {"ts": "int64", "k": "string", "v": "double", "l": "array<int64>"}


def stream(schema: dict[str, str] = SCHEMA) -> pk.Stream:
    return pk.Network("net").source("in", pk.memory([], schema=schema))


REFUSALS: list[tuple[str, Callable[[], object], str]] = [
    (
        "no tuple at all",
        lambda: stream().top(0, by="v", size=10),
        "the first argument of top is a number of tuples\n  expected: an integer of 1 or more\n  found: 0",
    ),
    (
        "half a tuple",
        lambda: stream().top(1.5, by="v", size=10),  # type: ignore[arg-type]
        "the first argument of top is a number of tuples\n  expected: an integer of 1 or more\n  found: 1.5",
    ),
    (
        "by nothing known",
        lambda: stream().top(1, by="x", size=10),
        "unknown column 'x' in the expression of by=\n  expected: one of ts, k, v, l",
    ),
    (
        "by what has no order",
        lambda: stream().top(1, by="l", size=10),
        "by='l' has no order\n  expected: a number, a time, a text or a boolean\n  found: list<item: int64>\n"
        "  to do: name what is to be compared, such as a field of it",
    ),
    (
        "on nothing known",
        lambda: stream().top(1, by="v", on="x", size=10),
        "unknown column 'x'\n  expected: one of ts, k, v, l",
    ),
    (
        "without progress",
        lambda: stream().map(name="turn", ts="ts % 60", v="v").top(1, by="v", on="ts", size=10),
        "a window on 'ts' would never close: the stream makes no progress on it; box 'turn' (ts=ts % 60, v) lost it\n"
        "  expected: an attribute that progresses\n"
        "  found: 'ts' of stream 'turn'\n"
        "  to do: keep the progressing attribute, or compute it with a monotone expression such as ts / 60 or "
        "date_trunc('minute', ts)",
    ),
    (
        "a group twice",
        lambda: stream().top(1, by="v", size=10, groups=["k", "k"]),
        "'k' is named twice in groups=",
    ),
    (
        "the time as a group",
        lambda: stream().top(1, by="v", size=10, groups="ts"),
        "'ts' is named twice: as the window attribute and in groups=",
    ),
    (
        "an attribute of results",
        lambda: stream({"ts": "int64", "Rank": "int64"}).top(1, by="ts", size=10),
        "the stream has an attribute 'Rank', as the results of a top do\n"
        "  expected: no attribute that is called window or rank\n"
        "  to do: give it another name with map()",
    ),
    (
        "a window of nothing",
        lambda: stream().top(1, by="v", size=0),
        "the size of a window must be positive\n  found: 0",
    ),
]


@pytest.mark.parametrize(("build", "text"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_refusals_say_what_was_expected(build: Callable[[], object], text: str) -> None:
    with pytest.raises(pk.QueryError) as refused:
        build()
    assert str(refused.value) == f"network 'net', box 'top1': {text}"


def test_results_are_tuples_behind_their_window_and_rank() -> None:
    made = stream({"ts": "uint8", "v": "double"}).top(2, by="v", size=10)
    assert made.schema == pa.schema(
        [("window", pa.int64()), ("rank", pa.int64()), ("ts", pa.uint8()), ("v", pa.float64())]
    )
    assert made.progressing == ("window", "ts")


def test_the_plan_says_what_is_kept() -> None:
    source = stream()
    source.top(3, by="abs(v)", size=60, advance=20, groups="k", ascending=True, name="least").output("out")
    text = source._builder.explain()  # type: ignore[attr-defined]
    assert "top least <- in: the 3 smallest abs(v) on ts, size 60, advance 20 by k" in text
    assert "keeps the best 3 of each pane of 20 and group" in text
    assert "exchange of in: by k" in text
    assert "-> least: progress on window, ts" in text


def test_groups_that_agree_share_a_stage() -> None:
    source = stream()
    source.top(3, by="v", size=60, groups="k").aggregate({"n": "count(*)"}, on="window", size=60, by="k").output("out")
    assert "1 stage" in source._builder.explain()  # type: ignore[attr-defined]
