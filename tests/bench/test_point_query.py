"""The packets of one key, by statistics and by reading everything: both give what DuckDB counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock_bench.contract import OURS, Job, Run, Size
from penstock_bench.measure import run
from penstock_bench.point_query import FULL, POINT_QUERY, bytes_read, key_of

SIZE = Size(rows=100_000, groups=1 << 10)


@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.parametrize("peer", [OURS, FULL, "duckdb"])
def test_every_peer_is_right(tmp_path: Path, peer: str) -> None:
    POINT_QUERY.prepare(SIZE, tmp_path / "data", lambda rows: None)
    (tmp_path / "scratch").mkdir()
    measured = run(POINT_QUERY, Job("point-query", peer, SIZE, tmp_path / "data", tmp_path / "scratch"))
    assert measured.correct
    assert measured.detail["read_bytes"] > 0


def test_bytes_are_those_of_read_calls(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    before = bytes_read()
    (tmp_path / "file").read_bytes()
    assert 3_000_000 <= bytes_read() - before < 4_000_000


def test_what_is_told_is_what_the_aims_are_about() -> None:
    def measured(peer: str, seconds: float, share: float) -> Run:
        detail = {"read_bytes": int(1e8 * share), "point_bytes": int(1e8), "share": share}
        return Run(peer, 1_000, seconds, 1.0, True, detail)

    told = POINT_QUERY.told({OURS: measured(OURS, 2.0, 0.02), FULL: measured(FULL, 30.0, 0.6)})
    assert [aim["found"] for aim in told["point_query"]["aims"]] == [0.02, 15.0]
    assert len(POINT_QUERY.shown(told)) == 2
    assert key_of(SIZE) == key_of(Size(rows=5, groups=1 << 10))
