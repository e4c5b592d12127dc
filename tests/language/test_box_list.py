"""The list of boxes: complete, in step with the methods, and its examples can be built."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as pk
from penstock.language.box_list import Card, boxes, card
from penstock.language.stream import Stream

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = {"ts": "timestamp[us]", "srcIP": "int64", "destIP": "int64", "link": "string", "len": "int64"}


def test_every_method_that_builds_a_box_is_in_it() -> None:
    builds = {name for name in dir(Stream) if not name.startswith("_")}
    builds -= {"schema", "progressing", "late", "errors", "only_progressing", "require_progress"}
    assert {c.name for c in boxes()} == {*builds, "source", "union", "merge", "lmerge"}


@pytest.mark.parametrize("box", boxes(), ids=lambda c: c.name)
def test_its_example_can_be_built(box: Card) -> None:
    net = pk.Network("examples")
    streams = {
        name: net.source(name if box.name != "source" else f"other {name}", pk.memory([], schema=SCHEMA))
        for name in ("packets", "replies", "ticks")
    }
    before = len(net._boxes)
    example = box.example.replace('pk.files("data/*.parquet")', "pk.memory([], schema=SCHEMA)")
    exec(example, {"pk": pk, "net": net, "SCHEMA": SCHEMA, **streams})
    assert len(net._boxes) > before


@pytest.mark.parametrize("box", boxes(), ids=lambda c: c.name)
def test_it_has_a_page(box: Card) -> None:
    assert (ROOT / "docs" / box.page).is_file()


def test_arguments_have_their_defaults() -> None:
    arguments = {a.name: a.default for a in card("join").arguments}
    assert arguments["other"] is None
    assert arguments["how"] == "'inner'"
