"""Tables as people read them: a line of names, then a line for each tuple; `-` is NULL."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

import penstock as pk


def rows(text: str) -> list[tuple[Any, ...]]:
    """The tuples of a drawn table, without its line of names. What stands behind `|` is a remark."""
    lines = [line.split("|")[0].split() for line in text.strip().splitlines()]
    return [tuple(_value(word) for word in line) for line in lines[1:]]


def same(found: pa.Table, text: str) -> None:
    """The table has these columns and these tuples, in any order."""
    names = text.strip().splitlines()[0].split("|")[0].split()
    assert found.column_names == names
    drawn, given = Counter(rows(text)), Counter(tuple(row.values()) for row in found.to_pylist())
    assert given == drawn, f"missing {drawn - given}, too much {given - drawn}"


def elements(result: pk.Result, output: str) -> list[Any]:
    """What left by an output: tuples without their names, and `("p", value)` for punctuation.

    Tuples between two punctuations are sorted: their order says nothing.
    """
    found: list[Any] = []
    burst: list[tuple[Any, ...]] = []
    for element in result.elements(output):
        if isinstance(element, dict):
            burst.append(tuple(element.values()))
            continue
        ((_, value),) = element.value
        found += [*sorted(burst), ("p", value)]
        burst = []
    return found + sorted(burst)


def _value(word: str) -> Any:
    if word == "-":
        return None
    if word in ("true", "false"):
        return word == "true"
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word
