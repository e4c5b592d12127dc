"""lull: what is held while a link is silent and only heartbeats speak for it (Fig. 3 and 6 of heartbeat.md).

Two busy links and a control link that never has a packet, but states the clock every 1 to 30 seconds.

- *merge*: packets of all three links counted per flow and 10 seconds. In order they are merged first.
- *join*: such counts over main1 and control joined with those over main2, a full outer join on the flow.

The clock is a script: a batch is one second of it, and of packets. `rows` are those of all links and intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

import penstock as pk
from penstock.connectors.memory import Memory
from penstock_bench.contract import Size
from penstock_bench.held import SECOND_US, HeldBenchmark, Points, Question, answer, grown, packets, share
from penstock_bench.traffic import EPOCH_US, SCHEMA

INTERVALS_S: Final = (1, 10, 20, 30)
SECONDS: Final = 34
N: Final = {"n": "count(*)"}
FLOW: Final = ["srcIP", "destIP"]

COUNTS: Final = (
    "SELECT time_bucket(INTERVAL '10 seconds', ts) AS ts, srcIP, destIP, count(*) AS n FROM {links} GROUP BY ALL"
)
MERGE_SQL: Final = COUNTS.format(links="(FROM main1 UNION ALL FROM main2)")
JOIN_SQL: Final = f"""
    SELECT l.ts AS l_ts, l.srcIP AS l_srcIP, l.destIP AS l_destIP, l.n AS l_n,
           r.ts AS r_ts, r.srcIP AS r_srcIP, r.destIP AS r_destIP, r.n AS r_n
    FROM ({COUNTS.format(links="main1")}) AS l FULL JOIN ({COUNTS.format(links="main2")}) AS r
    ON l.ts = r.ts AND l.srcIP = r.srcIP AND l.destIP = r.destIP
"""


class Lull(HeldBenchmark):
    """The benchmark."""

    name = "lull"
    summary = "a silent link with a heartbeat every 1 to 30 s: tuples and bytes held, in order and out of order"
    size = Size(rows=1_360_000, groups=256)
    parameter = "interval"
    cases: Sequence[str] = ("merge", "join")

    def question(self, case: str, size: Size) -> Question:
        net, expected = pk.Network(f"lull-{case}"), {}
        rate = max(1, size.rows // (2 * len(INTERVALS_S) * SECONDS))
        for interval in INTERVALS_S:
            label = f"{interval}s"
            links = {f"main{n}": packets(rate, SECONDS, groups=size.groups, seed=n) for n in (1, 2)}
            main1, main2 = (
                net.source(f"{label}-{name}", pk.memory(own, train=rate), on="ts") for name, own in links.items()
            )
            control = net.source(
                f"{label}-control", silent(SECONDS), on="ts", progress=pk.heartbeat(every=f"{interval} seconds")
            )
            build = _merge if case == "merge" else _join
            build(label, main1, main2, control).output(f"{label}-flows")
            expected[f"{label}-flows"] = answer(MERGE_SQL if case == "merge" else JOIN_SQL, **links)
        return Question(net, expected, width=24)

    def aims(self, both: Mapping[str, Points]) -> list[dict[str, str]]:
        first, last = f"{INTERVALS_S[0]}s", f"{INTERVALS_S[-1]}s"
        return [
            {"what": f"in order, {last} / {first}", "found": f"{grown(both['in-order']):.2f}", "aim": "grows"},
            {
                "what": f"out of order, {last} / {first}",
                "found": f"{grown(both['out-of-order']):.2f}",
                "aim": "does not grow",
            },
            {
                "what": "the same without the batch in hand",
                "found": f"{grown(both['out-of-order'], 'rows'):.2f}",
                "aim": "",
            },
            {"what": f"tuples out of order / in order at {last}", "found": f"{share(both, last):.0%}", "aim": ""},
        ]


LULL: Final = Lull()


def silent(seconds: int) -> Memory:
    """A link without packets, whose script moves the clock on by a second with every batch."""
    moments = [pk.clock(EPOCH_US / SECOND_US + second + 1) for second in range(seconds)]
    # Of a link with shards a train of clock readings alone is silence.
    return pk.memory(moments, schema=pa.schema(SCHEMA), train=1, shard_by="len")


def _merge(label: str, main1: pk.Stream, main2: pk.Stream, control: pk.Stream) -> pk.Stream:
    links = pk.union(main1, main2, control, name=f"{label}-links")
    return links.aggregate(N, on="ts", size="10 seconds", by=FLOW, name=f"{label}-counts")


def _join(label: str, main1: pk.Stream, main2: pk.Stream, control: pk.Stream) -> pk.Stream:
    links = pk.union(main1, control, name=f"{label}-links")
    flow1, flow2 = (
        stream.aggregate(N, on="ts", size="10 seconds", by=FLOW, name=f"{label}-flow{number}")
        for number, stream in enumerate((links, main2), start=1)
    )
    same = "l.ts = r.ts AND l.srcIP = r.srcIP AND l.destIP = r.destIP"
    return flow1.join(flow2, same, on=("ts", "ts"), how="full", name=f"{label}-full")
