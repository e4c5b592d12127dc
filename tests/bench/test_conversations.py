"""The two links are what q7 needs: conversations whose replies come after every kind of wait."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock_bench.conversations import Replies, Requests, quadruples
from penstock_bench.throughput import connect, one
from penstock_bench.traffic import DELAY_US, SCHEMA, write

# 100 s of event time on each link.
SIZE = {"rows": 500_000, "groups": 400_000}
CONVERSATION = "m1.srcIP = m2.destIP AND m1.destIP = m2.srcIP AND m1.srcPort = m2.destPort AND m1.destPort = m2.srcPort"


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("links")
    write(Requests(**SIZE), folder / "m1")
    write(Replies(**SIZE), folder / "m2")
    return folder


@pytest.mark.parametrize("link", [Requests(**SIZE), Replies(**SIZE)])
def test_no_packet_is_more_than_two_seconds_behind_those_before_it(link: Requests) -> None:
    packets = pa.concat_tables(link.packets(index) for index in range(link.files))
    assert packets.schema.equals(SCHEMA)
    assert packets.num_rows == SIZE["rows"]
    ts = packets["ts"].cast(pa.int64()).to_numpy()
    behind = (np.maximum.accumulate(ts) - ts).max()
    assert DELAY_US * 0.9 < behind <= DELAY_US


def test_different_conversations_have_different_quadruples_and_no_column_tells_which() -> None:
    columns = quadruples(np.arange(400_000))
    assert len(np.unique(np.stack([np.asarray(column, np.int64) for column in columns]), axis=1).T) == 400_000
    for column in columns:
        assert len(np.unique(column)) < 40_000


def test_wider_bands_find_more_replies_but_never_too_many(links: Path) -> None:
    with connect() as connection:
        found = [
            one(
                connection,
                f"""SELECT count(*) FROM '{links}/m1/*.parquet' m1 JOIN '{links}/m2/*.parquet' m2 ON {CONVERSATION}
                AND abs(epoch_us(m1.ts) - epoch_us(m2.ts)) <= {band} * 1000000""",
            )
            / SIZE["rows"]
            for band in (1, 10, 60)
        ]
    # Half of what lies within a minute of a request is cut off here, at the ends of so short a stretch.
    assert found[0] == pytest.approx(0.29, abs=0.03)
    assert found[1] == pytest.approx(0.8, abs=0.1)
    assert 1.2 < found[2] < 2.3


def test_the_same_declaration_gives_the_same_packets_and_the_links_differ() -> None:
    small = {"rows": 100, "groups": 50}
    assert Replies(**small).packets(0).equals(Replies(**small).packets(0))
    assert not Replies(**small).packets(0)["ts"].equals(Requests(**small).packets(0)["ts"])
