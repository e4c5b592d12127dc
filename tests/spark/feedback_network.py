"""A network that writes a copy of a stream, in a process of its own: `python feedback_network.py FOLDER`.

It ends when its standard input does.
"""

from __future__ import annotations

import sys
from pathlib import Path

import penstock as pk

SCHEMA = {"ts": "int64", "k": "string"}


def writing(folder: Path) -> pk.Network:
    net = pk.Network("writing")
    rows = net.source(
        "rows", pk.files(str(folder / "rows"), "jsonl", follow=True), schema=SCHEMA, progress=pk.ordered()
    )
    rows.where("k <> 'z'", name="work").output("copy", to=pk.delta(str(folder / "slow"), feedback=True))
    return net


if __name__ == "__main__":
    place = Path(sys.argv[1])
    run = writing(place).start(master="local[1]", checkpoint=str(place / "writing"), buckets=1, durability="process")
    sys.stdin.read()
    run.stop()
