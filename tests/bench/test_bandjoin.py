"""bandjoin: counts of pairs in a band, and what their order costs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console
from tests.bench.test_held import weighed

from penstock_bench.bandjoin import BANDJOIN, links, matches
from penstock_bench.contract import Run, Size
from penstock_bench.report import document

SIZE = Size(8_000, 200)


def test_links_are_in_order_and_wider_bands_find_more() -> None:
    m1, m2 = links(SIZE)
    for link in (m1, m2):
        times = link["ts"].cast(pa.int64()).combine_chunks()
        assert pc.all(pc.greater_equal(times[1:], times[:-1])).as_py()
    found = [pc.sum(matches(m1, m2, band).expected["matches"]["n"]).as_py() for band in (1, 10, 60)]
    assert found == sorted(set(found))


def test_in_order_pairs_wait_for_the_band_to_pass(tmp_path: Path) -> None:
    asked = matches(*links(SIZE), 60)
    orderly, freely = (weighed(asked, tmp_path / name, name)["60s"] for name in ("in-order", "out-of-order"))
    assert orderly["rows"] > 1.2 * freely["rows"]


def test_the_report_has_all_three_figures() -> None:
    point = {"rows": 10, "bytes": 1e6, "in_hand": 5, "all_rows": 15, "all_bytes": 2e6, "seconds": 3.0}
    points = {f"{band}s": {**point, "latency_ms": 120.0, "work_s": 1.0, "windows": 2} for band in (1, 10, 30, 60)}
    results = {p.label: Run(p.label, 100, 1.0, 10.0, True, {"points": points}) for p in BANDJOIN.peers}
    console = Console(width=200, record=True)
    for part in BANDJOIN.shown(document(BANDJOIN, SIZE, results)):
        console.print(part)
    text = console.export_text()
    for expected in (
        "(a) MB held",
        "(b) latency in ms",
        "(c) seconds of work",
        "latency, out of order / in order at 60s",
    ):
        assert expected in text


@pytest.mark.parametrize("peer", ["penstock", "in-order"])
def test_both_architectures_are_peers(peer: str) -> None:
    assert peer in [p.label for p in BANDJOIN.peers]
