"""skew: what is held when one of two links arrives late (Fig. 1 and 13 of oop.md).

- *count*: packets of two links at equal rates counted per pair of addresses and minute (experiment G2, Q5); in every
  batch the second link brings packets that are 1 to 40 seconds older than those of the first. A pair has as many
  packets as in the paper, 3.3 a second: so one second after a window began, four of five pairs have a packet in it.
- *q9*: RANGE 5 minutes, SLIDE 1 minute over two links and a third that carries one packet in a hundred and is late.

    SELECT count(*) [RANGE 5 min, SLIDE 1 min, WA ts] FROM M1 UNION M2 UNION C

All links arrive in order of time. `rows` are those of all links and all values together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

import penstock as pk
from penstock_bench.contract import Size
from penstock_bench.held import HeldBenchmark, Points, Question, answer, grown, packets, share

SKEWS_S: Final = (1, 5, 10, 20, 40)
SECONDS: Final[Mapping[str, int]] = {"count": 180, "q9": 420}
"""How long the links talk."""
BATCHES: Final[Mapping[str, int]] = {"count": 90, "q9": 30}
C_SHARE: Final = 100

COUNT_SQL: Final = """
    SELECT time_bucket(INTERVAL '1 minute', ts) AS ts, srcIP, destIP, count(*) AS n
    FROM (FROM m1 UNION ALL FROM m2) GROUP BY ALL
"""
Q9_SQL: Final = """
    SELECT minute - before * INTERVAL '1 minute' AS ts, sum(packets)::BIGINT AS n
    FROM (
        SELECT time_bucket(INTERVAL '1 minute', ts) AS minute, count(*) AS packets
        FROM (FROM m1 UNION ALL FROM m2 UNION ALL FROM c) GROUP BY ALL
    ), range(5) AS starts(before) GROUP BY ALL
"""


class Skew(HeldBenchmark):
    """The benchmark."""

    name = "skew"
    summary = "a union of links of which one is 1 to 40 s late: tuples and bytes held, in order and out of order"
    size = Size(rows=3_000_000, groups=1_000)
    parameter = "skew"
    cases: Sequence[str] = ("count", "q9")

    def question(self, case: str, size: Size) -> Question:
        net, expected = pk.Network(f"skew-{case}"), {}
        seconds = SECONDS[case]
        rate = max(1, size.rows // (2 * len(SKEWS_S) * seconds))
        for skew in SKEWS_S:
            label = f"{skew}s"
            on_time = {"m1": packets(rate, seconds, groups=size.groups, seed=1)}
            if case == "count":
                links = {**on_time, "m2": packets(rate, seconds, behind=skew, groups=size.groups, seed=2)}
            else:
                small = max(1, rate // C_SHARE)
                on_time["m2"] = packets(rate, seconds, groups=size.groups, seed=2)
                links = {**on_time, "c": packets(small, seconds, behind=skew, groups=size.groups, seed=3)}
            merged = pk.union(
                *(_source(net, f"{label}-{link}", own, BATCHES[case]) for link, own in links.items()), name=f"{label}-u"
            )
            if case == "count":
                counts = merged.aggregate(
                    {"n": "count(*)"}, on="ts", size="1 minute", by=["srcIP", "destIP"], name=f"{label}-n"
                )
            else:
                counts = merged.aggregate(
                    {"n": "count(*)"}, on="ts", size="5 minutes", advance="1 minute", name=f"{label}-n"
                )
            counts.output(f"{label}-counts")
            expected[f"{label}-counts"] = answer(COUNT_SQL if case == "count" else Q9_SQL, **links)
        return Question(net, expected, width=24 if case == "count" else 8)

    def aims(self, both: Mapping[str, Points]) -> list[dict[str, str]]:
        last = f"{SKEWS_S[-1]}s"
        free = both["out-of-order"]
        return [
            {"what": f"tuples out of order / in order at {last}", "found": f"{share(both, last):.0%}", "aim": "<= 30%"},
            {
                "what": f"bytes out of order / in order at {last}",
                "found": f"{share(both, last, 'all_bytes'):.0%}",
                "aim": "<= 30%",
            },
            {"what": f"out of order, {last} / {SKEWS_S[0]}s", "found": f"{grown(free):.2f}", "aim": "<= 1.5"},
            {"what": "the same without the batch in hand", "found": f"{grown(free, 'rows'):.2f}", "aim": ""},
        ]


SKEW: Final = Skew()


def _source(net: pk.Network, name: str, link: pa.Table, batches: int) -> pk.Stream:
    return net.source(name, pk.memory(link, train=-(-link.num_rows // batches)), on="ts")
