"""Figure 8 of oop.md: Q3 with individual and with joint punctuation, batch by batch.

A punctuation (v) of the paper says that everything up to v has come: here it is written `ts >= v + 1`.

```
 r  4 │             . . .      band 2: pairs lie within 2 of each other
    3 │         . . .          (3) on S0 makes the individual punctuation (*, 1): everything with r <= 1 has come
    2 │   o o   . .            (2) on S0 and (1) on S1 make the joint punctuation (2, 1): everything with l <= 2
    1 │ o . . .                and r <= 1 has come, however wide the band
    0 └─────────────────
      0 1 2 3 4 5 6  l
```
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.golden.conftest import Runner
from tests.golden.tables import rows

import penstock as pk
from penstock.plan import compile as compiling
from penstock.plan.state_jointly import state_jointly
from penstock.runtime.board import Record

INPUTS = """
S0  S1
0   1    | tuples: SYN at 0, SYN_ACK at 1
1   2
-   -
(0) (0)
(1) (0)
(2) (0)
(2) (1)
(3) (1)
(3) (2)
(4) (2)
(9) (9)
"""
# The batch in which each group (l_ts, r_ts) leaves.
INDIVIDUAL = {(0, 1): "(3) (1)", (0, 2): "(4) (2)", (1, 2): "(4) (2)"}
JOINT = {(0, 1): "(2) (1)", (0, 2): "(3) (2)", (1, 2): "(3) (2)"}


def element(word: Any) -> Any:
    if word is None:
        return pk.punctuation(ts=0)
    return (word,) if isinstance(word, int) else pk.punctuation(ts=int(word[1:-1]) + 1)


@pytest.mark.parametrize(("jointly", "expected"), [(False, INDIVIDUAL), (True, JOINT)], ids=["individual", "joint"])
def test_q3_leaves_with_the_punctuation_of_figure_8(
    run: Runner, monkeypatch: pytest.MonkeyPatch, jointly: bool, expected: dict[tuple[int, int], str]
) -> None:
    if not jointly:
        monkeypatch.setattr(compiling, "RULES", tuple(r for r in compiling.RULES if r is not state_jointly))
    net = pk.Network("q3")
    script = rows(INPUTS)
    s0, s1 = (
        net.source(
            f"s{i}",
            pk.memory([element(row[i]) for row in script], schema={"ts": "int64"}, train=1),
            progress=pk.punctuated(),
        )
        for i in (0, 1)
    )
    pairs = s0.join(s1, "l.ts < r.ts", on="ts", size=2)
    pairs.aggregate({"n": "count(*)"}, on="r_ts", size=1, by="l_ts").output("connections")
    left: list[int] = []
    held: list[int] = []

    def look(record: Record) -> None:
        left.append(record.outputs["connections"])
        held.append(record.boxes["aggregate1"].held_rows if "aggregate1" in record.boxes else 0)

    result = run(net, on_batch=look)["connections"]
    assert result["n"].to_pylist() == [1, 1, 1]
    groups = list(zip(result["l_ts"].to_pylist(), result["r_ts"].to_pylist(), strict=True))
    words = [" ".join(str(word) for word in row) for row in script]
    found = {group: words[sum(count <= place for count in left)] for place, group in enumerate(groups)}
    assert found == expected
    # What has left is not held any more.
    assert held[1:] == [3 - n for n in left[1:]]
