"""late: an equality join of which one input contains late tuples (Fig. 12 and Q8 of oop.md).

    SELECT M1.srcIP, M1.destIP, M1.ts FROM M1, M2 UNION C AS M3
    WHERE M1.ts = M3.ts AND M1.srcIP = M3.destIP AND M1.destIP = M3.srcIP
      AND M1.srcPort = M3.destPort AND M1.destPort = M3.srcPort

Times are whole seconds. M1 and M2 arrive together and in order; C carries one packet in ten and is 1 to 40 seconds
late. In either architecture M1 must be kept until C has come. In order, M2 has to wait for C too, in the merge; out of
order its packets meet their partners at once, and M1's progress lets them go. `rows` are those of all links and values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

import penstock as pk
from penstock_bench.contract import Size
from penstock_bench.conversations import quadruples
from penstock_bench.held import SECOND_US, HeldBenchmark, Points, Question, answer, grown, share
from penstock_bench.traffic import EPOCH_US, SCHEMA

DELAYS_S: Final = (1, 10, 20, 40)
SECONDS: Final = 60
BATCHES: Final = 30
C_SHARE: Final = 10

MATCH: Final = (
    "l.ts = r.ts AND l.srcIP = r.destIP AND l.destIP = r.srcIP AND l.srcPort = r.destPort AND l.destPort = r.srcPort"
)
MATCHES_SQL: Final = f"SELECT l.ts, l.srcIP, l.destIP FROM m1 AS l JOIN (FROM m2 UNION ALL FROM c) AS r ON {MATCH}"


class Late(HeldBenchmark):
    """The benchmark."""

    name = "late"
    summary = "two links joined on equal times, part of one 1 to 40 s late: tuples and bytes held in both architectures"
    size = Size(rows=800_000, groups=4_000)
    parameter = "delay"
    cases: Sequence[str] = ("",)

    def question(self, case: str, size: Size) -> Question:
        net, expected = pk.Network("late"), {}
        rate = max(1, size.rows // (2 * len(DELAYS_S) * SECONDS))
        for delay in DELAYS_S:
            label = f"{delay}s"
            links = {
                "m1": link(rate, 0, size.groups, seed=1, swapped=False),
                "m2": link(rate, 0, size.groups, seed=2),
                "c": link(max(1, rate // C_SHARE), delay, size.groups, seed=3),
            }
            m1, m2, c = (
                net.source(f"{label}-{name}", pk.memory(own, train=-(-own.num_rows // BATCHES)), on="ts")
                for name, own in links.items()
            )
            replies = pk.union(m2, c, name=f"{label}-m3")
            pairs = m1.join(replies, MATCH, on=("ts", "ts"), name=f"{label}-pairs")
            matches = pairs.map(ts="l_ts", srcIP="l_srcIP", destIP="l_destIP", name=f"{label}-shown")
            matches.output(f"{label}-matches")
            expected[f"{label}-matches"] = answer(MATCHES_SQL, **links)
        return Question(net, expected, width=32)

    def aims(self, both: Mapping[str, Points]) -> list[dict[str, str]]:
        last = f"{DELAYS_S[-1]}s"
        free, orderly = grown(both["out-of-order"]), grown(both["in-order"])
        return [
            {"what": f"tuples out of order / in order at {last}", "found": f"{share(both, last):.0%}", "aim": "less"},
            {"what": f"growth to {last}, out of order", "found": f"{free:.2f}", "aim": f"< {orderly:.2f} (in order)"},
        ]


LATE: Final = Late()


def link(rate: int, behind: int, groups: int, *, seed: int, swapped: bool = True) -> pa.Table:
    """Packets of random conversations in order of time, in whole seconds; those of replies have their ends swapped."""
    count = rate * SECONDS
    random = np.random.default_rng([seed, groups])
    source, source_port, destination, destination_port = quadruples(random.integers(0, groups, count))
    ends = (destination, destination_port, source, source_port) if swapped else (
        source, source_port, destination, destination_port)  # fmt: skip
    times = EPOCH_US + (np.arange(count, dtype=np.int64) // rate - behind) * SECOND_US
    columns = [times, *ends, random.integers(40, 1501, count, dtype=np.int32)]
    arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)
