"""Every box has a room in which all that concerns it is found: nothing is missed only when it runs."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock.boxes
from penstock.algebra.box import Box, End, Stateful, Stateless
from penstock.algebra.source import Source
from penstock.boxes.by_payload import ByPayload, JudgesInput
from penstock.boxes.filter.box import Sieve
from penstock.boxes.on_arrival import OnArrival
from penstock.language.box_list import boxes as all_cards

ROOT = Path(__file__).resolve().parents[2]
BASES = {Stateless, Stateful, End, OnArrival, Sieve, ByPayload, JudgesInput}
HEAVY = ("workers", "entry", "holder", "operator")
"""The modules of a room that nobody needs who only plans."""


def declarations() -> list[type[Box]]:
    """All boxes of the package."""
    for module in pkgutil.walk_packages(penstock.boxes.__path__, "penstock.boxes."):
        importlib.import_module(module.name)
    found: dict[type[Box], None] = {}
    waiting: list[type[Box]] = [Box]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind not in BASES and kind.__module__.startswith("penstock."):
                found[kind] = None
    return sorted(found, key=lambda kind: kind.__name__)


def worked(box: type[Box]) -> list[str]:
    return ["operator"] if issubclass(box, Stateless) else ["entry", "holder"] if issubclass(box, Stateful) else []


def imported(box: type[Box], method: str) -> Iterator[tuple[str, str]]:
    """What a method imports when it is called: module and name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(getattr(box, method))))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("box", declarations(), ids=lambda box: box.__name__)
def test_a_box_is_complete(box: type[Box]) -> None:
    assert not inspect.isabstract(box), f"{box.__name__} lacks {', '.join(sorted(box.__abstractmethods__))}"
    assert issubclass(box, Stateless | Stateful | Source | End)
    assert box.kind


@pytest.mark.parametrize("box", declarations(), ids=lambda box: box.__name__)
def test_a_box_has_a_page(box: type[Box]) -> None:
    assert (ROOT / "docs" / box.page).is_file()


@pytest.mark.parametrize("box", declarations(), ids=lambda box: box.__name__)
def test_who_does_the_work_of_a_box_is_in_its_room_or_shared(box: type[Box]) -> None:
    for method in worked(box):
        # A box may leave its work to those of the box that it is a kind of.
        owner = next(each for each in box.__mro__ if method in vars(each))
        room = ".".join(owner.__module__.split(".")[:3])
        names = list(imported(box, method))
        assert names, f"{box.__name__}.{method} names nobody"
        for module, name in names:
            assert module.startswith((f"{room}.", "penstock.operators."))
            assert inspect.isclass(getattr(importlib.import_module(module), name))


def test_a_box_that_can_be_built_by_a_method_has_a_card() -> None:
    built = {
        room.name
        for room in pkgutil.iter_modules(penstock.boxes.__path__)
        if room.ispkg and (ROOT / "src/penstock/boxes" / room.name / "verb.py").is_file()
    }
    carded = {room for room in built if (ROOT / "src/penstock/boxes" / room / "card.py").is_file()}
    # Joins with tables, and of temporal streams, are built by `join`; orders are assumed by `assuming=` of other boxes.
    assert built - carded == {"table_join", "temporal_join", "assume"}


PLANNED = """
import json, sys
import penstock as pk
from penstock.plan.compile import compile_network
from penstock.plan.explain import explain

SCHEMA = {"ts": "timestamp[us]", "srcIP": "int64", "destIP": "int64", "link": "string", "len": "int64"}
for example in json.loads(sys.argv[1]):
    net = pk.Network("examples")
    streams = {name: net.source(name, pk.memory([], schema=SCHEMA)) for name in ("packets", "replies", "ticks")}
    made = eval(example, {"pk": pk, **streams})
    for number, stream in enumerate(made if isinstance(made, tuple) else (made,)):
        stream.output(f"out {number}")
    explain(compile_network(net.network))
print(json.dumps([name for name in sys.modules if name.startswith("penstock.")]))
"""


def test_a_plan_is_made_without_those_who_do_the_work() -> None:
    examples = [re.sub(r"^[\w, ]+ = ", "", c.example) for c in all_cards() if c.name not in ("source", "output")]
    run = [sys.executable, "-c", PLANNED, json.dumps(examples)]
    loaded = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    heavy = [name for name in loaded if name.startswith("penstock.boxes.") and name.rsplit(".", 1)[-1] in HEAVY]
    shared = [
        name for name in loaded if name.startswith("penstock.operators.") and name != "penstock.operators.protocol"
    ]
    assert heavy + shared == []
