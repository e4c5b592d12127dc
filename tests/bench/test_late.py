"""late: C holds the join back, and only in order it holds M2 back too."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.bench.test_held import weighed

from penstock_bench.contract import Size
from penstock_bench.late import LATE, link
from penstock_bench.traffic import EPOCH_US


def test_times_are_whole_seconds_and_replies_have_their_ends_swapped() -> None:
    requests, replies = link(5, 0, 3, seed=1, swapped=False), link(5, 2, 3, seed=1)
    assert replies["srcIP"].equals(requests["destIP"])
    assert replies["destPort"].equals(requests["srcPort"])
    times = replies["ts"].cast(pa.int64()).to_pylist()
    assert times[:6] == [EPOCH_US - 2_000_000] * 5 + [EPOCH_US - 1_000_000]


def test_in_order_both_links_wait_for_the_late_one(tmp_path: Path) -> None:
    asked = LATE.question("", Size(10_000, 40))
    orderly, freely = (weighed(asked, tmp_path / name, name) for name in ("in-order", "out-of-order"))
    for delay in ("20s", "40s"):
        assert 1.6 < orderly[delay]["rows"] / freely[delay]["rows"] < 2.4
