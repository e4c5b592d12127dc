"""Attributes that decrease: what comes first has the largest value, in aggregates, lists, origins and functions."""

from __future__ import annotations

from typing import Any

import pytest
from tests.golden.conftest import Runner

import penstock as pk
from penstock.errors import QueryError

SCHEMA = {"left": "int64", "k": "string", "v": "int64"}
ROWS = [(19, "a", 1), (17, "b", 2), (14, "a", 3), (9, "a", 4), (8, "b", 5), (3, "a", 6), (-2, "b", None)]


def _ticks(net: pk.Network, name: str = "ticks", rows: Any = ROWS) -> pk.Stream:
    connector = pk.memory(rows, schema=SCHEMA, train=2)
    return net.source(name, connector, on="left", progress=pk.ordered(descending=True))


def test_first_last_and_list_go_in_the_direction_of_progress(run: Runner) -> None:
    net = pk.Network("countdown")
    ticks = _ticks(net)
    ticks.aggregate(
        {"first": "first(v)", "last": "last(v)", "all": "list(v)", "lowest": "first(v, left)"},
        on="left", size=10, name="windows",
    ).output("windows")  # fmt: skip
    result = run(net)
    assert result["windows"].to_pylist() == [
        {"left": 10, "first": 1, "last": 3, "all": [1, 2, 3], "lowest": 3},
        {"left": 0, "first": 4, "last": 6, "all": [4, 5, 6], "lowest": 6},
        {"left": -10, "first": None, "last": None, "all": [None], "lowest": None},
    ]


def test_windows_from_the_first_value_go_down_from_the_largest(run: Runner) -> None:
    """Of a countdown the smallest value is the last to come: no window could close before the end."""
    net = pk.Network("countdown")
    _ticks(net).aggregate({"n": "count(*)"}, on="left", size=10, by="k", origin="first").output("windows")
    left: list[int] = []
    result = run(net, on_batch=lambda record: left.append(record.outputs["windows"]))
    assert result["windows"].sort_by([("left", "descending")]).to_pylist() == [
        {"left": 10, "k": "a", "n": 2},  # 19 down to 10
        {"left": 8, "k": "b", "n": 2},  # 17 down to 8
        {"left": 0, "k": "a", "n": 2},  # 9 down to 0
        {"left": -2, "k": "b", "n": 1},  # 7 down to -2
    ]
    assert left[0] == 0
    assert left[-2] > 0, "windows leave before the end"


def test_functions_in_python_see_the_tuples_in_that_order_and_no_others_columns(run: Runner) -> None:
    def shown(window: Any) -> str:
        return " ".join(f"{value}" for value in window["left"]) + f" of {sorted(window)}"

    net = pk.Network("countdown")
    outputs = {"seen": pk.window_function(final=shown, returns="string")}
    _ticks(net).aggregate(outputs, on="left", size=10).output("windows")
    seen = run(net)["windows"]["seen"].to_pylist()
    assert seen[0] == "19 17 14 of ['k', 'left', 'v']"


def test_downward_progress_goes_through_a_lookup(run: Runner, tmp_path: Any) -> None:
    (tmp_path / "hosts.csv").write_text("k,site\na,cern\nb,jinr\n")
    net = pk.Network("countdown")
    found = _ticks(net).join(pk.table(str(tmp_path / "hosts.csv")), "l.k = r.k")
    found.aggregate({"n": "count(*)"}, on="left", size=10).output("windows")
    assert [row["n"] for row in run(net)["windows"].to_pylist()] == [3, 3, 1]


UP = "to do: turn it round before, with map(turned='-left', ...), and use that"


@pytest.mark.parametrize(
    "build",
    [
        lambda s, o: s.join(o, "l.k = r.k", on="left", size=5),
        lambda s, o: s.join(o, "l.k = r.k", size=5),
        lambda s, o: pk.merge(s, o, on="left"),
        lambda s, o: pk.merge(s, o),
        lambda s, o: s.cleanse(on="left"),
        lambda s, o: s.cleanse(),
        lambda s, o: s.dedupe(on="left"),
        lambda s, o: s.dedupe(),
        lambda s, o: s.resample(o, {"n": "count(*)"}, on="left", size=5),
        lambda s, o: s.resample(o, {"n": "count(*)"}, size=5),
        lambda s, o: s.aggregate({"n": "count(*)"}, on="left", size=5, assuming=pk.order("left")),
        lambda s, o: s.aggregate({"n": "count(*)"}, size=5, assuming=pk.order("left")),
        lambda s, o: s.join(o, size=5, assuming=(pk.order("left"), pk.order("left"))),
        lambda s, o: s.map(up="-left", left="left", k="k").resample(
            o, {"n": "count(*)"}, on=("up", "left"), size=5, assuming=pk.order("left")
        ),
    ],
)
def test_boxes_that_need_values_that_grow_say_so(build: Any) -> None:
    net = pk.Network("countdown")
    with pytest.raises(QueryError) as refused:
        build(_ticks(net), _ticks(net, "other"))
    text = str(refused.value)
    assert "'left' progresses downwards" in text
    assert UP in text
    assert "no progress" not in text


def test_what_they_say_to_do_does_it(run: Runner) -> None:
    net = pk.Network("countdown")
    one, two = (_ticks(net, name).map(turned="-left", left="left", k="k", v="v") for name in ("one", "two"))
    one.join(two, "l.k = r.k", on="turned", size=1).map(left="l_left").output("pairs")
    order = pk.order("turned")
    one.aggregate({"n": "count(*)"}, on="turned", size=10, assuming=order, name="assumed").output("windows")
    result = run(net)
    assert sorted(result["pairs"]["left"].to_pylist()) == sorted(row[0] for row in ROWS)
    assert [tuple(row.values()) for row in result["windows"].to_pylist()] == [(-20, 3), (-10, 3), (0, 1)]
    assert result.late("assumed").num_rows == 0


def test_a_box_that_loses_downward_progress_is_named() -> None:
    net = pk.Network("countdown")
    lost = _ticks(net).bsort(on="v", slack=1, name="sorted")
    with pytest.raises(QueryError, match=r"makes no progress on it; box 'sorted' .* lost it"):
        lost.aggregate({"n": "count(*)"}, on="left", size=5)
