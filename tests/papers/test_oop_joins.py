"""Q3 and Q7 of oop.md on small data: a join that feeds a count.

```
 Q3  SYN on S0        t=0 a   t=1 b           t=4 a
     SYN_ACK on S1            t=1 a   t=2 b           t=5 a   t=9 b      band 0..2 after
```
"""

from __future__ import annotations

from tests.golden.conftest import Runner
from tests.golden.tables import rows, same

import penstock as pk


def test_q3_counts_connections_for_every_pair_of_times(run: Runner) -> None:
    net = pk.Network("q3")
    schema = {"ts": "int64", "host": "string", "port": "int64", "flag": "string"}
    syn = """
    ts host port flag
    0  a    80   SYN
    0  a    80   SYN
    1  b    22   SYN
    1  b    22   FIN    | no SYN
    4  a    80   SYN
    """
    ack = """
    ts host port flag
    1  a    80   SYN_ACK
    2  b    22   SYN_ACK
    2  b    23   SYN_ACK | another port
    5  a    80   SYN_ACK
    9  b    22   SYN_ACK | after the band
    """
    s0, s1 = (
        net.source(name, pk.memory(rows(table), schema=schema, train=2)) for name, table in (("s0", syn), ("s1", ack))
    )
    pairs = s0.join(
        s1,
        "l.host = r.host AND l.port = r.port AND l.flag = 'SYN' AND r.flag = 'SYN_ACK' AND l.ts < r.ts",
        on="ts",
        size=2,
    )
    pairs.aggregate({"n": "count(*)"}, on="l_ts", size=1, by="r_ts").output("connections")
    same(
        run(net)["connections"],
        """
        l_ts r_ts n
        0    1    2
        1    2    1
        4    5    1
        """,
    )


def test_q7_counts_matches_per_minute_of_the_left_link(run: Runner) -> None:
    schema = {"ts": "int64", "srcIP": "int64", "srcPort": "int64", "destIP": "int64", "destPort": "int64"}
    m1 = """
    ts  srcIP srcPort destIP destPort
    5   1     10      2      20
    58  1     10      2      20
    61  1     10      2      20
    130 3     30      4      40
    """
    m2 = """
    ts  srcIP srcPort destIP destPort
    7   2     20      1      10
    59  2     20      1      10
    60  2     20      1      11       | another port
    68  2     20      1      10
    123 4     40      3      30
    """
    net = pk.Network("q7")
    left, right = (
        net.source(name, pk.memory(rows(table), schema=schema, train=2)) for name, table in (("m1", m1), ("m2", m2))
    )
    same_conversation = (
        "l.srcIP = r.destIP AND l.destIP = r.srcIP AND l.srcPort = r.destPort AND l.destPort = r.srcPort"
    )
    for band in (2, 7, 10):
        matches = left.join(right, same_conversation, on="ts", size=band)
        matches.aggregate({"n": "count(*)"}, on="l_ts", size=60).output(f"within {band}")
    result = run(net)
    # Within 2: (5,7) (58,59) (61,59). Within 7 also (61,68) and (130,123); within 10 also (58,68).
    same(result["within 2"], "l_ts n\n0 2\n60 1")
    same(result["within 7"], "l_ts n\n0 2\n60 2\n120 1")
    same(result["within 10"], "l_ts n\n0 3\n60 2\n120 1")
