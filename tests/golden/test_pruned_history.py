"""A query of one key and one of one stretch of time, fed from a connection point: what a full read gives."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.golden.conftest import Runner

import penstock as pk
from penstock.connectors.points import point_target

ROWS = 400


def test_a_filter_by_key_or_time_gives_what_a_full_read_gives(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(point_target, "GROUP_ROWS", 10)
    place = str(tmp_path / "point")
    writes = pk.Network("writes")
    table = pa.table({"ts": [t ^ 3 for t in range(ROWS)], "k": [t * 7 % 40 for t in range(ROWS)]})
    passing = writes.source("s", pk.memory(table, train=100), progress=pk.delayed(4))
    passing.connection_point("p", path=place, key="k")
    writes.run(engine="local")

    def asks(key: str, time: str) -> pk.Network:
        net = pk.Network("asks")
        history = net.source("h", pk.connection_point(place))
        history.where(key).aggregate({"n": "count(*)"}, size=100).output("counts")
        history.where(time).output("stretch")
        return net

    little = run(asks("k = 17", "ts BETWEEN 40 AND 45"))
    # No statistics answer these.
    full = run(asks("k + 0 = 17", "ts + 0 BETWEEN 40 AND 45"))
    assert full.record().inputs["h"].read == ROWS > 3 * little.record().inputs["h"].read
    assert little["counts"].to_pylist() == full["counts"].to_pylist() != []
    assert sorted(little["stretch"]["ts"].to_pylist()) == sorted(full["stretch"]["ts"].to_pylist()) == [*range(40, 46)]
