"""Golden cases of LMerge: copies of ordinary and of temporal streams (lmerge.md)."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from tests.algebra.temporal.prefixes import SCHEMA as ELEMENTS
from tests.algebra.temporal.prefixes import adjust, database, insert
from tests.boxes.lmerge.copies import element_source
from tests.golden.conftest import Runner
from tests.golden.tables import elements

import penstock as pk

INF = math.inf
SCHEMA = {"ts": "int64", "k": "string", "v": "double"}
NAN = math.nan


def copies(net: pk.Network, *scripts: list[Any]) -> list[pk.Stream]:
    return [
        net.source(f"copy {at}", pk.memory(script, schema=SCHEMA, train=3), progress=pk.punctuated())
        for at, script in enumerate(scripts)
    ]


@pytest.mark.parametrize("case", ["R3", "R3-", "R4"])
def test_copies_of_facts_in_any_order(run: Runner, case: str) -> None:
    """
    copy 0    1a 3b |3  | 2c(late for all) 4-  | 6d |7       its 2c comes below its own mark: late at the input
    copy 1    3b 1a 5e  | |5 4- 5e            | 6d end       its second 5e breaks the promise of R3
    """
    net = pk.Network("copies")
    left: list[Any] = [(1, "a", 1.0), (3, "b", NAN), pk.punctuation(ts=3), (2, "c", 0.0), (4, None, None)]
    left += [(5, "e", 0.5), (6, "d", -0.0), pk.punctuation(ts=7)]
    right: list[Any] = [(3, "b", NAN), (1, "a", 1.0), (5, "e", 0.5), pk.punctuation(ts=4), (4, None, None)]
    right += [(5, "e", 0.5), (6, "d", 0.0)]
    merged = pk.lmerge(*copies(net, left, right), case=case, name="merged")
    merged.output("out")
    merged.errors().output("errors")
    result = run(net)
    found = Counter((row["ts"], row["k"], str(row["v"]).lstrip("-")) for row in result["out"].to_pylist())
    expected = Counter([(1, "a", "1.0"), (3, "b", "nan"), (4, None, "None"), (5, "e", "0.5"), (6, "d", "0.0")])
    expected[5, "e", "0.5"] += case == "R4"
    assert found == expected
    assert result.late("copy 0")["ts"].to_pylist() == [2]
    assert [e[1] for e in elements(result, "out") if e[0] == "p"] == [3, 4, math.inf]
    assert result["errors"]["reason"].to_pylist() == ([] if case == "R4" else ["its event is there already"])
    assert result.record().boxes["merged"].held_rows == 0


@pytest.mark.parametrize("case", ["R0", "R1", "R2"])
def test_copies_of_facts_in_order(run: Runner, case: str) -> None:
    """The second copy has a gap: what it lacks leaves if another brings it in time (lmerge.md V-C)."""
    net = pk.Network("copies")
    tuples = [(ts, "xyz"[ts % 3], float(ts)) for ts in range(12)]
    gap = [row for row in tuples if row[0] != 1]
    merged = pk.lmerge(*copies(net, [*tuples[:6], pk.punctuation(ts=5), *tuples[6:]], gap), case=case)
    merged.output("out")
    found = run(net)["out"]["ts"].to_pylist()
    assert sorted(found) == list(range(12))


def test_two_plans_of_one_query_are_one_stream(run: Runner) -> None:
    """Both count packets by minute, of inputs that are cut in other ways; each result leaves once."""
    net = pk.Network("plans")
    rows = [(ts, "abc"[ts % 3], 1.0) for ts in range(200)]
    counts = []
    for name, train in (("fast", 50), ("slow", 7)):
        source = net.source(name, pk.memory(rows, schema=SCHEMA, train=train))
        counts.append(source.aggregate({"n": "count(*)"}, on="ts", size=60, by="k"))
    pk.lmerge(*counts, name="one").output("out")
    result = run(net)
    expected = Counter((ts // 60 * 60, k) for ts, k, _ in rows)
    assert Counter({(row["ts"], row["k"]): row["n"] for row in result["out"].to_pylist()}) == expected
    assert result["out"].num_rows == len(expected)


def test_table_1_as_a_network(run: Runner) -> None:
    """Phy1 and Phy2 of lmerge.md; what leaves reconstitutes to their database."""
    net = pk.Network("table 1")
    phy1 = [insert("B", 8, INF), insert("A", 6, 12), adjust("B", 8, INF, 10), pk.punctuation(sync=11)]
    phy2 = [insert("A", 6, 7), insert("B", 8, 15), adjust("A", 6, 7, 12), adjust("B", 8, 15, 10)]
    streams = [element_source(net, name, script, train=1) for name, script in (("Phy1", phy1), ("Phy2", phy2))]
    merged = pk.lmerge(*streams, case="R3")
    merged.output("out")
    result = run(net)
    assert database(result["out"].select(ELEMENTS.names)) == [("A", 6, 12), ("B", 8, 10)]
    assert [e.value for e in result.elements("out") if not isinstance(e, dict)] == [(("sync", math.inf),)]
