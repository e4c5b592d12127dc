"""Every connector, feed, target, store and policy has all that its protocol declares, and nobody asks past it."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as pk
import penstock.connectors
import penstock.progress
from penstock.connectors.connector import Connector, Feed, Journal, Split
from penstock.connectors.files.feed import FileSplit
from penstock.connectors.files.formats.format import Format
from penstock.connectors.tables.store import Store
from penstock.connectors.targets.handover import HandedOver
from penstock.connectors.targets.part_files import PartFormat
from penstock.connectors.targets.target import Target
from penstock.connectors.temporal.temporal_rows import TemporalRows
from penstock.progress.policy import Policy

PROTOCOLS = (Connector, Feed, Journal, Target, Store, Format, PartFormat, Policy)
SHARED = (HandedOver, TemporalRows)
"""What several of them have in common: those that are made of it are looked at."""
SCHEMA = {"ts": "int64"}


def modules() -> Iterator[Any]:
    for package in (penstock.connectors, penstock.progress):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)
    yield importlib.import_module("penstock.spark.dataframe")


def classes() -> list[type]:
    found = {c for m in modules() for c in vars(m).values() if inspect.isclass(c) and c.__module__ == m.__name__}
    return sorted(found, key=lambda c: c.__qualname__)


def required(protocol: type) -> set[str]:
    return set(protocol.__abstractmethods__)  # type: ignore[attr-defined]


def members(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")}


def implementations() -> list[tuple[type, type]]:
    return [
        (c, p) for c in classes() for p in PROTOCOLS if c not in (*PROTOCOLS, *SHARED) and required(p) <= set(dir(c))
    ]


@pytest.mark.parametrize(
    ("made", "protocol"), [pytest.param(c, p, id=f"{c.__qualname__}-{p.__name__}") for c, p in implementations()]
)
def test_what_looks_like_one_derives_from_its_protocol_and_lacks_nothing(made: type, protocol: type) -> None:
    assert protocol in made.__mro__
    assert not inspect.isabstract(made)
    assert members(protocol) <= set(dir(made))


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p.__name__)
def test_each_protocol_has_implementations_and_says_what_its_members_are(protocol: type) -> None:
    assert any(p is protocol for _, p in implementations())
    for name in members(protocol):
        assert inspect.getdoc(inspect.getattr_static(protocol, name)), name


@pytest.mark.parametrize(
    "connector",
    [
        pk.memory([(1,)], schema=SCHEMA),
        pk.memory([pk.punctuation(ts=1)], schema=SCHEMA),
        pk.generator(rate=10),
        pk.files("nowhere/*.csv", schema=SCHEMA, follow=True),
        pk.files("nowhere", format="csv", schema=SCHEMA, lanes="file"),
        pk.delta("nowhere", follow=True),
    ],
    ids=lambda c: c.describe(),
)
def test_what_a_connector_says_of_itself_has_the_declared_type(connector: Connector) -> None:
    assert isinstance(connector, Connector)
    flags = (
        connector.bounded,
        connector.in_sequence,
        connector.planned_elsewhere,
        connector.more_shards,
        connector.punctuated,
    )
    assert all(isinstance(flag, bool) for flag in flags)
    assert isinstance(connector.states, Sequence)
    assert isinstance(connector.shards(), Sequence)
    assert isinstance(connector.schema(), pa.Schema | None)
    assert isinstance(connector.describe(), str)


def test_a_connector_that_lacks_a_member_cannot_be_made() -> None:
    class Half(Connector):
        bounded = True

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]


def test_a_split_names_what_its_records_were_found_in() -> None:
    assert Split("0", 0, 1).found_in is None
    assert FileSplit("0", 0, 1, "a.csv", 9, "csv", 0, 9, 9, 0).found_in == "a.csv"


def test_nobody_asks_for_a_member_with_a_default() -> None:
    declared = set().union(*(members(p) for p in PROTOCOLS)) | {"found_in"}
    asked = []
    for path in Path(penstock.connectors.__file__).parents[1].rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1
            if named and node.func.id in ("getattr", "hasattr") and isinstance(node.args[1], ast.Constant):  # type: ignore[attr-defined]
                asked += [(path.name, node.args[1].value)] if node.args[1].value in declared else []  # type: ignore[attr-defined]
    assert asked == []
