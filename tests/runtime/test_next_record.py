"""The board's next record: it follows from the one before and the reports, and changes neither."""

from __future__ import annotations

from copy import deepcopy

import penstock as pk
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING
from penstock.progress.disorder import Disorder, Stretch
from penstock.progress.extremes import Extremes
from penstock.runtime.board import Need, Record
from penstock.runtime.next_record import next_record
from penstock.runtime.notes import Report
from penstock.runtime.work import BoxWork, InputCount


def network() -> pk.Network:
    net = pk.Network("net")
    source = net.source("in", pk.memory([], schema={"ts": "int64"}))
    source.aggregate({"n": "count(*)"}, size=10, name="counts").output("out")
    return net


INTAKE = Report(
    "intake 0000",
    now=7,
    shards={"in": {"a": Extremes(12)}},
    inputs={"in": InputCount(read=3, taken=3)},
    disorder={"in": {"a": {"ts": Stretch(4, 12, Disorder(3, 2, {"9": 1}))}}},
    boxes={"counts": BoxWork(tuples_in=3)},
)


def stage(bucket: int, mark: int, held: int, need: int) -> Report:
    return Report(
        f"stage 1 bucket {bucket:04d}",
        now=7,
        boxes={"counts": BoxWork(tuples_out=1, held_rows=held, open_windows=1)},
        bucket=bucket,
        marks={"counts": Marks({"ts": mark})},
        needs={"counts": [(0, "ts", need)]},
    )


REPORTS = (INTAKE, stage(0, 10, 2, 20), stage(1, 0, 1, 30))


def test_counts_add_up_and_what_is_held_is_what_is_held_now() -> None:
    first = next_record(network().network, 0, Record(), REPORTS, {"out": 2})
    second = next_record(network().network, 1, first, REPORTS, {"out": 0})
    assert second.inputs == {"in": InputCount(read=6, taken=6)}
    assert second.boxes == {"counts": BoxWork(tuples_in=6, tuples_out=4, held_rows=3, open_windows=2)}
    assert second.outputs == {"out": 2}
    assert second.disorder == {"in": {"ts": Disorder(6, 2, {"9": 2})}}


def test_the_mark_of_a_port_is_the_least_of_its_buckets() -> None:
    record = next_record(network().network, 0, Record(), REPORTS, {"out": 0})
    assert record.marks["in"] == Marks({"ts": 12})
    assert record.marks["counts"] == Marks({"ts": 0})
    assert next_record(network().network, 0, Record(), [], {}).marks["in"] == Marks({"ts": BEGINNING})


def test_who_waited_for_the_same_before_has_waited_since_then() -> None:
    before = Record(waiting=(Need("counts", 0, "ts", 20, 2, 5),), began=1)
    record = next_record(network().network, 3, before, REPORTS, {})
    assert record.waiting == (Need("counts", 0, "ts", 20, 3, 5),)
    assert (record.now, record.began) == (7, 1)
    (anew,) = next_record(network().network, 3, before, [INTAKE, stage(0, 10, 2, 30)], {}).waiting
    assert (anew.tick, anew.since) == (30, 7)


def test_the_record_before_stays_as_it_was() -> None:
    before = next_record(network().network, 0, Record(), REPORTS, {"out": 2})
    copy = deepcopy(before)
    once, again = (next_record(network().network, 1, before, REPORTS, {"out": 2}) for _ in range(2))
    assert before == copy
    assert once == again
