"""What an input refuses, by its text."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as pk
from penstock.errors import QueryError

SCHEMA = {"ts": "int64", "other": "int64", "at": "timestamp[us]", "small": "uint8", "text": "string"}


def _source(*elements: Any, **options: Any) -> pk.Stream:
    return pk.Network("net").source("in", pk.memory(elements, schema=SCHEMA), **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"progress": {"ts": pk.ordered(), "nothing": pk.ordered()}}, "nothing"),
        ({"progress": {"other": pk.ordered()}, "on": "ts"}, "on='ts' has no progress"),
        ({"progress": {}}, "progress={} names no attribute"),
        ({"progress": {1: pk.ordered()}}, "unknown column 1"),
        ({"on": 3}, "unknown column 3"),
        ({"progress": pk.ordered(by=["text", "text"])}, "'text' is named twice in by="),
        ({"progress": pk.delayed(1.5)}, "1.5 is no length"),
        ({"progress": pk.delayed(True)}, "True is no length"),
        ({"progress": pk.delayed(None)}, "None is no length"),
        ({"progress": pk.slack(1, idle=pk.ordered())}, "is no policy for silence"),
        ({"progress": pk.slack(1, idle=pk.heartbeat())}, "cannot be compared with an integer attribute"),
        ({"progress": {"ts": pk.ordered(), "text": pk.ordered()}}, "'text' cannot carry progress"),
        ({"progress": {"ts": "ordered"}}, "'ordered' is no progress policy"),
        ({"progress": {"ts": pk.ordered(by="text"), "other": pk.ordered()}}, "group-wise progress goes with one"),
        ({"progress": pk.ordered(by="nothing")}, "nothing"),
        ({"on": "at", "progress": pk.ordered(descending=True)}, "must be a signed integer"),
        ({"on": "small", "progress": pk.ordered(descending=True)}, "must be a signed integer"),
        ({"progress": pk.ordered(descending=True, by="text")}, "by= does not go with descending=True"),
        ({"progress": pk.ordered(descending=True, idle=pk.heartbeat(unit="s"))}, "idle= does not go with descending"),
        ({"overdue": "0 seconds"}, "overdue= must be a positive length of time"),
        ({"overdue": 5}, "is no length of time"),
        ({"when_overdue": "close"}, "when_overdue='close' without a time"),
        ({"overdue": "1 second", "when_overdue": "panic"}, "when_overdue='panic' is unknown"),
    ],
)
def test_bad_progress_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(QueryError, match=said):
        _source(**options)


def test_punctuation_on_an_attribute_without_progress_is_refused() -> None:
    with pytest.raises(QueryError, match="states 'other', on which the input makes no progress"):
        _source(pk.punctuation(other=5))
    assert _source(pk.punctuation(other=5), progress={"ts": pk.ordered(), "other": pk.punctuated()}) is not None


def test_on_is_the_first_of_several() -> None:
    stream = _source(progress={"other": pk.ordered(), "ts": pk.delayed(5)})
    assert stream.progressing == ("other", "ts")


def test_windows_on_an_attribute_that_decreases_must_fit() -> None:
    down = {"on": "ts", "progress": pk.ordered(descending=True)}
    with pytest.raises(QueryError, match="as long as several advances"):
        _source(**down).aggregate({"n": "count(*)"}, on="ts", size=5, advance=2)
    with pytest.raises(QueryError, match="advance= must be a number"):
        _source(**down).aggregate({"n": "count(*)"}, on="ts", size=5, advance="other > 3")
    with pytest.raises(QueryError, match="a dedupe needs values that grow, but 'ts' progresses downwards"):
        _source(**down).dedupe(by="other", on="ts")


def test_what_is_no_connector_is_refused_by_name() -> None:
    with pytest.raises(pk.QueryError, match=r"'data\.csv' is no input"):
        pk.Network("n").source("in", "data.csv")  # type: ignore[arg-type]
