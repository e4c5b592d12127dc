"""`max_refused` and `max_late`: a run ends with an error when an input has brought more than is put up with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as pk
from penstock.runtime.limits import SHARE_FROM, Limit


def network(rows: list[Any], train: int = 2, **options: Any) -> pk.Network:
    net = pk.Network("net")
    source = net.source("in", pk.memory(rows, schema={"ts": "int64"}, train=train), progress=pk.ordered(), **options)
    source.aggregate({"n": "count(*)"}, size=10).output("counts")
    return net


REFUSED: list[Any] = [(1,), ("x",), (2,), ("y",), (3,), (30,)]
LATE = [(1,), (20,), (5,), (30,), (25,), (31,)]


@pytest.mark.parametrize(
    ("given", "count", "read", "ended", "exceeded"),
    [
        (0, 0, 10, False, False),
        (0, 1, 10, False, True),
        ("3", 3, 10, False, False),
        ("1_000", 1001, 2000, False, True),
        ("5%", 50, 1000, False, False),
        ("5%", 51, 1000, False, True),
        ("0.1 %", 2, 1000, False, True),
        ("5%", 9, SHARE_FROM - 1, False, False),
        ("5%", 900, SHARE_FROM - 1, False, False),  # too few to judge a share by
        ("5%", 900, SHARE_FROM - 1, True, True),  # but no more will come
        ("100%", 1000, 1000, True, False),
    ],
)
def test_a_limit_is_a_number_or_a_share(given: Any, count: int, read: int, ended: bool, exceeded: bool) -> None:
    assert Limit.of("max_late", given).exceeded(count, read, ended=ended) is exceeded


@pytest.mark.parametrize("given", ["", "many", "-1", "5 %%", "101%", "0.05", 0.05, True, "1.2.3%"])
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(pk.QueryError, match="is no limit") as refused:
        network(REFUSED).run("local", max_refused=given)
    assert refused.value.expected == "a number such as 100, or a share such as '5%'"


def test_too_many_refused_records_end_the_run_with_the_reasons(tmp_path: Path) -> None:
    with pytest.raises(pk.WorldError) as ended:
        network(REFUSED).run("local", max_refused=1, checkpoint=str(tmp_path))
    assert str(ended.value) == (
        "network 'net', box 'in': 2 of 4 records were refused, more than max_refused allows\n"
        "  expected: at most 1\n"
        "  found: 2 of 4: column 'ts': 'x' is no int64 and the like (2, first in memory at 2)\n"
        "  to do: mend the input or its schema, or allow more with max_refused= (--max-refused); what was "
        "committed up to batch 1 stays, and a wider limit goes on from there with the same checkpoint"
    )


def test_too_many_late_tuples_end_the_run_with_the_promise(tmp_path: Path) -> None:
    with pytest.raises(pk.WorldError) as ended:
        network(LATE).run("local", max_late="10%", checkpoint=str(tmp_path))
    assert str(ended.value) == (
        "network 'net', box 'in': 2 of 6 tuples were late, more than max_late allows\n"
        "  expected: at most 10%\n"
        "  found: 2 of 6: input 'in': ts is up to 15 behind the largest before it, 99.9% of the tuples up to 15; "
        "declared: ordered; progress=pk.delayed(15) would be kept\n"
        "  to do: declare a weaker progress policy, or allow more with max_late= (--max-late); what was "
        "committed up to batch 2 stays, and a wider limit goes on from there with the same checkpoint"
    )


def test_what_was_committed_stays_and_a_wider_limit_goes_on(tmp_path: Path) -> None:
    rows, options = [*REFUSED, (41,), (42,)], {"checkpoint": str(tmp_path)}
    for _ in range(3):  # the same limit does not creep on, a batch with every start
        with pytest.raises(pk.WorldError, match="2 of 4 records were refused"):
            network(rows).run("local", max_refused=1, **options)
        assert network(rows).look(str(tmp_path)).record().batch == 1
    result = network(rows).run("local", max_refused=2, **options)
    assert result["counts"].to_pylist() == network(rows).run("local")["counts"].to_pylist()
    assert result.record().inputs["in"].refused == 2


def test_a_run_that_keeps_to_its_limits_is_left_alone() -> None:
    result = network(REFUSED).run("local", max_refused=2, max_late="0%")
    assert result.record().ended


def test_limits_are_of_each_input(tmp_path: Path) -> None:
    net = pk.Network("net")
    for name in ("one", "two"):
        net.source(name, pk.memory([("x",), (1,)], schema={"ts": "int64"})).output(name)
    assert net.run("local", max_refused=1).record().ended
    with pytest.raises(pk.WorldError, match="box 'one'"):
        net.run("local", max_refused=0)
