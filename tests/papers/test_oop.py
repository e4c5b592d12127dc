"""Worked examples of oop.md that are not golden cases of their own."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as pk
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.algebra.window import Window
from penstock.boxes.union.box import Union


@pytest.mark.parametrize(
    ("size", "advance", "tick", "windows"),
    [
        # Appendix A.2.2, wids: the range of windows that a value of the window attribute belongs to
        (60, 60, 0, [0]),
        (60, 60, 59, [0]),
        (60, 60, 60, [1]),
        (60, 60, -1, [-1]),
        (5, 1, 0, [-4, -3, -2, -1, 0]),
        (5, 1, 7, [3, 4, 5, 6, 7]),
        (4, 2, 3, [0, 1]),
        (7, 3, 6, [0, 1, 2]),
        (7, 3, 7, [1, 2]),
        (3, 10, 2, [0]),
        (3, 10, 5, []),
        (3, 10, -8, [-1]),
    ],
)
def test_wids(size: int, advance: int, tick: int, windows: list[int]) -> None:
    window = Window(size, advance)
    pane = tick // window.pane
    assert list(range(window.first_of_pane(pane), window.last_of_pane(pane) + 1)) == windows
    assert all(window.start_of(w) <= tick < window.start_of(w) + size for w in windows)


@pytest.mark.parametrize(
    ("lwm", "last_closed", "output"),
    [
        # Figure A-3 with size 10, advance 5: what punctuation closes, and what the output may state of window starts
        (9, -1, 0),
        (10, 0, 5),
        (14, 0, 5),
        (15, 1, 10),
        (-1, -3, -10),
    ],
)
def test_punctuation_closes_windows_and_becomes_punctuation_on_their_starts(
    lwm: int, last_closed: int, output: int
) -> None:
    window = Window(10, 5)
    assert window.last_closed(lwm) == last_closed
    assert window.output_mark(lwm) == output
    assert window.start_of(last_closed) + window.size <= lwm < window.start_of(last_closed + 1) + window.size


def test_infinities_stay_what_they_are() -> None:
    assert Window(10, 5).output_mark(BEGINNING) == BEGINNING
    assert Window(10, 5).output_mark(END) == END


@pytest.mark.parametrize(
    ("left", "right", "out"),
    [
        # Figure A-1: bounds on both inputs, and the low-water mark of the output
        (BEGINNING, BEGINNING, BEGINNING),
        (5, BEGINNING, BEGINNING),
        (5, 3, 3),
        (7, 7, 7),
        (END, 7, 7),
        (END, END, END),
    ],
)
def test_union_states_the_minimum_of_its_inputs(left: int, right: int, out: int) -> None:
    net = pk.Network("net")
    streams = [net.source(name, pk.memory([], schema={"ts": "int64"})) for name in ("left", "right")]
    box = pk.union(*streams)._port.box
    assert isinstance(box, Union)
    assert box.progress(0, [Marks({"ts": left}), Marks({"ts": right})]) == Marks({"ts": out})


def test_figure_3_a_split_stream_is_counted_whole_however_its_branches_are_delayed() -> None:
    """Tuples that do not satisfy A go through B; both branches meet again below a window count.

    ```
             A: v < 5 ─────────────┐
    in ──> ─┤                      union ──> count per 10
             else ──> B: v % 2 = 0 ┘
    ```
    """
    net = pk.Network("figure3")
    rows: list[Any] = [(t, t % 9) for t in range(40)]
    source = net.source("in", pk.memory(rows, schema={"ts": "int64", "v": "int64"}, train=7))
    cheap, rest = source.filter("v < 5", name="A")
    merged = pk.union(cheap, rest.where("v % 2 = 0", name="B"))
    assert merged.progressing == ("ts",)
    merged.aggregate({"n": "count(*)"}, size=10).output("out")
    kept = [t for t, v in rows if v < 5 or v % 2 == 0]
    assert net.run("local")["out"].to_pylist() == [
        {"ts": start, "n": sum(start <= t < start + 10 for t in kept)} for start in (0, 10, 20, 30)
    ]
