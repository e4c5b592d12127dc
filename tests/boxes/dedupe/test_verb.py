"""What Dedupe refuses, word by word, and what it derives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import penstock as pk

SCHEMA = {"ts": "int64", "k": "string", "v": "double"}


def stream() -> pk.Stream:
    return pk.Network("net").source("in", pk.memory([], schema=SCHEMA))


REFUSALS: list[tuple[str, Callable[[], object], str]] = [
    ("on nothing known", lambda: stream().dedupe(on="x"), "unknown column 'x'\n  expected: one of ts, k, v"),
    ("by nothing known", lambda: stream().dedupe(by="x"), "unknown column 'x'\n  expected: one of ts, k, v"),
    ("by a group twice", lambda: stream().dedupe(by=["k", "k"]), "'k' is named twice in by="),
    (
        "without progress",
        lambda: stream().map(name="turn", ts="ts % 60", k="k").dedupe(on="ts"),
        "what a dedupe remembers on 'ts' would be kept for ever: the stream makes no progress on it; "
        "box 'turn' (ts=ts % 60, k) lost it\n"
        "  expected: an attribute that progresses\n"
        "  found: 'ts' of stream 'turn'\n"
        "  to do: keep the progressing attribute, or compute it with a monotone expression such as ts / 60 or "
        "date_trunc('minute', ts)",
    ),
    (
        "without a word on what",
        lambda: stream().map(a="ts", b="ts + 1").dedupe(),
        "say which attribute duplicates agree in\n  found: progress on a, b\n  to do: give on=",
    ),
]


@pytest.mark.parametrize(("build", "text"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_refusals_say_what_was_expected(build: Callable[[], object], text: str) -> None:
    with pytest.raises(pk.QueryError) as refused:
        build()
    assert str(refused.value) == f"network 'net', box 'dedupe1': {text}"


def test_a_dedupe_changes_neither_schema_nor_progress() -> None:
    source = stream().map(ts="ts", minute="ts / 60", k="k")
    made = source.dedupe(on="minute", by="k")
    assert made.schema == source.schema
    assert made.progressing == source.progressing == ("ts", "minute")


def test_groups_that_agree_share_a_stage() -> None:
    """Tuples are sent to their bucket by `by`, so what groups by the same attributes finds them there."""
    source = stream()
    once = source.dedupe(by="k")
    once.aggregate({"n": "count(*)"}, size=10, by="k").output("here")
    assert "1 stage" in source._builder.explain()  # type: ignore[attr-defined]
    once.aggregate({"n": "count(*)"}, size=10, by="v").output("elsewhere")
    text = source._builder.explain()  # type: ignore[attr-defined]
    assert "2 stages" in text
    assert "dedupe dedupe1 <- in: on ts by k" in text
