"""Both halves of Join: who meets whom, and what is held on each side after every punctuation."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.scripted import box_of, stamped

import penstock as pk
from penstock.algebra.hidden import ARRIVED
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.join import matching as join_match
from penstock.boxes.join.box import SEGMENT
from penstock.boxes.join.entry import JoinEntryOp
from penstock.boxes.join.held_side import MET, TUPLES
from penstock.boxes.join.holder import JoinOp
from penstock.operators.state.chunks import MERGE_CHUNKS
from penstock.operators.state.segments import MOST_SEGMENTS
from penstock.testing.memory_slots import MemorySlots

SCHEMA = {"ts": "int64", "k": "string"}


class Bench:
    """A join in one bucket, fed by hand."""

    def __init__(self, predicate: str | None = "l.k = r.k", **options: Any) -> None:
        net = pk.Network("net")
        left, right = (net.source(name, pk.memory([], schema=SCHEMA)) for name in ("a", "b"))
        self.box = box_of(left.join(right, predicate, **options))
        self.slots = MemorySlots()
        self.needed = (frozenset(self.box.schema(0).names),)
        self.operator = JoinOp(self.box, self.slots, self.needed)

    def step(self, left: str = "", right: str = "", marks: tuple[int, int] = (BEGINNING, BEGINNING)) -> list[Any]:
        """One batch: tuples as `x3 y5`, then punctuation; what leaves, drawn the same way."""
        entry = JoinEntryOp(self.box, self.needed)
        for slot, text in enumerate((left, right)):
            if text:
                entry.process(slot, tuples(text))
        for part, sent in entry.flush():
            self.operator.receive(part, stamped(sent))
        found = self.operator.punctuate([Marks({"ts": mark}) for mark in marks], now=0)
        return sorted(drawn(row) for _, table in found for row in table.drop_columns([ARRIVED]).to_pylist())

    @property
    def held(self) -> tuple[int, int]:
        left, right = self.operator.sides
        return left.count(), right.count()


def tuples(text: str) -> pa.Table:
    words = text.split()
    return pa.table({"ts": pa.array([int(w[1:]) for w in words], pa.int64()), "k": [w[0] for w in words]})


def drawn(row: dict[str, Any]) -> str:
    if "ts" in row and "k" in row:
        return f"{row['k']}{row['ts']}"
    return " ".join("-" if row[f"{s}_ts"] is None else f"{row[f'{s}_k']}{row[f'{s}_ts']}" for s in "lr")


def test_a_pair_leaves_when_the_later_of_its_tuples_arrives() -> None:
    bench = Bench(size=2)
    assert bench.step(left="x5 y5") == []
    assert bench.step(right="x7 x8") == ["x5 x7"]
    assert bench.step(left="x6", right="x4 y3") == ["x5 x4", "x6 x4", "x6 x7", "x6 x8", "y5 y3"]


@pytest.mark.parametrize(
    ("band", "pairs"),
    [
        #            u.B:                 7  8  9 10 11 12 13       t.A = 10
        ((2, 1), ["x10 x8", "x10 x9", "x10 x10", "x10 x11"]),
        ((0, 0), ["x10 x10"]),
        ((-1, 2), ["x10 x11", "x10 x12"]),
        ((3, -2), ["x10 x7", "x10 x8"]),
    ],
)
def test_the_ends_of_a_band_belong_to_it(band: tuple[int, int], pairs: list[str]) -> None:
    for predicate in ("l.k = r.k", None):
        arrived = "x7 x8 x9 x10 x11 x12 x13"
        assert sorted(Bench(predicate, band=band).step(left="x10", right=arrived)) == sorted(pairs)
        late = Bench(predicate, band=band)
        late.step(right=arrived)
        assert sorted(late.step(left="x10")) == sorted(pairs)


def test_each_side_is_purged_by_the_mark_of_the_other_alone() -> None:
    # before 2, after 3: a left tuple is kept while A + 3 >= right mark, a right one while B + 2 >= left mark
    bench = Bench(band=(2, 3))
    bench.step(left="x1 x2 x3 x4", right="x1 x2 x3 x4")
    assert bench.held == (4, 4)
    bench.step(marks=(6, BEGINNING))
    assert bench.held == (4, 1)  # 4 + 2 >= 6
    bench.step(marks=(6, 6))
    assert bench.held == (2, 1)  # 3 + 3 >= 6
    bench.step(marks=(7, 8))
    assert bench.held == (0, 0)
    assert bench.operator.released == 8
    assert bench.slots.numbers() == []


def test_a_tuple_whose_partners_have_all_arrived_is_not_stored() -> None:
    bench = Bench(size=2)
    assert bench.step(left="x20", right="x21", marks=(20, 21)) == ["x20 x21"]
    assert bench.held == (1, 1)
    assert bench.step(left="x20", marks=(20, 23)) == ["x20 x21"]
    assert bench.held == (0, 1)
    assert bench.step(left="x22", right="x24", marks=(END, END)) == ["x22 x21", "x22 x24"]
    assert bench.slots.numbers() == []
    assert bench.operator.released == 5


def test_infinities_decide_without_arithmetic() -> None:
    ends = f"x{2**63 - 2} x{-(2**63) + 1}"
    bench = Bench(size=2**60)
    assert len(bench.step(left=ends, right=ends)) == 2
    assert bench.held == (2, 2)
    bench.step(marks=(0, 0))
    assert bench.held == (1, 1)
    bench.step(marks=(END, END))
    assert bench.held == (0, 0)


def test_s0_late_by_five_minutes_s1_in_order() -> None:
    """oop.md 5.3, Figure 5(b): band 2, one tuple a minute on either side, marks T - 5 and T.

    By Figure 4 the join keeps the S1 tuples from T - 5 - 2 on, which is 7 minutes, and the S0 tuples from T - 2 on.
    """
    bench = Bench(size=2)
    for now in range(20):
        bench.step(left=f"x{now}", right=f"x{now}", marks=(now - 5, now))
        assert bench.held == (min(now, 2) + 1, min(now, 7) + 1)


def test_an_outer_join_lets_go_of_what_stays_alone_once_nothing_can_come() -> None:
    bench = Bench(size=2, how="left")
    assert bench.step(left="x5 y5 z5", right="x4") == ["x5 x4"]
    assert bench.step(right="y6", marks=(5, 7)) == ["y5 y6"]
    assert bench.held == (3, 2)
    assert bench.step(marks=(5, 8)) == ["z5 -"]
    assert bench.held == (0, 2)
    assert bench.step(left="z6 x6", marks=(6, 9)) == ["x6 x4", "z6 -"]  # they need not be stored: they leave at once
    assert bench.step(marks=(END, END)) == []
    assert bench.operator.released == 7


def test_a_full_outer_join_preserves_both_sides() -> None:
    for predicate in ("l.k = r.k", "l.k = r.k OR false"):
        bench = Bench(predicate, size=1, how="full")
        assert bench.step(left="x1 y1", right="x2 z1") == ["x1 x2"]
        assert bench.step(marks=(3, BEGINNING)) == ["- z1"]
        assert bench.step(left="x3", marks=(3, 3)) == ["x3 x2", "y1 -"]
        assert bench.step(marks=(END, END)) == []


def test_a_tuple_of_a_semi_join_leaves_once_and_is_not_kept_any_more() -> None:
    bench = Bench(size=5, how="semi")
    assert bench.step(left="x1 x2 y1", right="x1") == ["x1", "x2"]
    assert bench.held == (1, 1)
    assert bench.step(left="y2 y3 z3", right="y4") == ["y1", "y2", "y3"]
    assert bench.held == (1, 2)
    assert bench.step(right="y5 x5") == []
    assert bench.step(marks=(END, END)) == []
    assert bench.operator.released == 10


def test_a_tuple_of_an_anti_join_leaves_when_no_partner_can_come() -> None:
    bench = Bench(size=5, how="anti")
    assert bench.step(left="x1 y1 z1", right="x1") == []
    assert bench.held == (2, 1)
    assert bench.step(right="y6") == []
    assert bench.held == (1, 2)
    assert bench.step(marks=(BEGINNING, 7)) == ["z1"]
    assert bench.step(left="w1 x1", marks=(BEGINNING, 7)) == ["w1"]
    assert bench.operator.released == 5


def test_who_has_met_a_partner_is_noted_beside_the_tuples() -> None:
    bench = Bench(size=100, how="left")
    bench.step(left="x1 y2 z3 x4")
    chunks = dict(bench.slots.held)
    bench.step(right="y2 z4")
    for slot, parts in bench.slots.held.items():
        if slot in chunks:
            assert parts[TUPLES] is chunks[slot][TUPLES]  # not rewritten
    assert any(MET in parts for parts in bench.slots.held.values())
    assert bench.step(marks=(END, END)) == ["x1 -", "x4 -"]


def test_tuples_that_are_of_no_use_any_more_go_when_they_are_the_greater_part_of_a_slot() -> None:
    bench = Bench(size=100, how="semi")
    bench.step(left="x1 x1 x1 y1 z1 w1")
    assert len(bench.step(right="x1")) == 3
    assert sum(len(c) for parts in bench.slots.held.values() for c in parts[TUPLES]) == 7  # half: they stay
    assert bench.held == (3, 1)
    assert bench.step(right="y1") == ["y1"]
    assert sum(len(c) for parts in bench.slots.held.values() for c in parts[TUPLES]) == 4
    assert bench.held == (2, 2)


def test_only_slots_that_can_be_reached_are_read() -> None:
    bench = Bench(size=1)
    for at in (0, 1000, 2000, 3000):
        bench.step(right=f"x{at}")
    bench.slots.reads = 0
    assert bench.step(left="x1001") == ["x1001 x1000"]
    assert bench.slots.reads == 1


def test_slots_stay_few_and_their_chunks_too() -> None:
    bench = Bench(size=1)
    for at in range(400):
        bench.step(right=f"x{at} x{at + 3}", marks=(at - 300, BEGINNING))
        assert bench.held[1] == len([1 for t in range(at + 1) for b in (t, t + 3) if b + 1 >= at - 300])
    assert len(bench.slots.numbers()) < 4 * MOST_SEGMENTS
    assert all(len(parts[TUPLES]) < MERGE_CHUNKS for parts in bench.slots.held.values())


def test_without_keys_a_tuple_is_sent_wherever_it_can_meet_a_partner() -> None:
    # before 1, after 2: segments of 6 ticks; the left side is at home, right ones go where B - 2 .. B + 1 lies
    bench = Bench(None, band=(1, 2))
    entry = JoinEntryOp(bench.box, bench.needed)
    entry.process(0, tuples("x5 x6 x-1"))
    entry.process(1, tuples("x5 x6 x7 x8 x3"))
    sent = {part: Counter(zip(t["ts"].to_pylist(), t[SEGMENT].to_pylist(), strict=True)) for part, t in entry.flush()}
    assert sent["left"] == Counter([(5, 0), (6, 1), (-1, -1)])
    assert sent["right"] == Counter([(5, 0), (5, 1), (6, 0), (6, 1), (7, 0), (7, 1), (8, 1), (3, 0)])


def test_a_copy_is_let_go_of_when_its_segment_has_passed_and_counts_once() -> None:
    bench = Bench(None, band=(1, 2))
    bench.step(right="x6")  # copies in the segments 0..5 and 6..11: until 5 and until 7
    assert bench.held == (0, 2)
    bench.step(marks=(6, BEGINNING))
    assert (bench.held, bench.operator.released) == ((0, 1), 0)
    bench.step(marks=(8, BEGINNING))
    assert (bench.held, bench.operator.released) == ((0, 0), 1)


def test_the_qos_timestamp_of_a_pair_is_the_older_one() -> None:
    bench = Bench(size=9, how="full")
    for now, part, text in ((30, "left", "x1 y1"), (20, "right", "x2 z2")):
        bench.operator.receive(part, stamped(tuples(text), now))
    tables = [t for _, t in bench.operator.punctuate([Marks({"ts": END}), Marks({"ts": END})], now=30)]
    arrived = {drawn(row): row[ARRIVED] for t in tables for row in t.to_pylist()}
    assert arrived == {"x1 x2": 20, "y1 -": 30, "- z2": 20}


def test_only_needed_columns_are_sent_held_and_let_go_of() -> None:
    bench = Bench("l.k = r.k", size=2)
    needed = (frozenset({"r_k"}),)
    entry = JoinEntryOp(bench.box, needed)
    wide = tuples("x1").append_column("junk", pa.array([1]))
    for slot in (0, 1):
        entry.process(slot, wide)
    parts = dict(entry.flush())
    assert [t.column_names for t in parts.values()] == [["ts", "k"], ["ts", "k"]]
    operator = JoinOp(bench.box, bench.slots, needed)
    for part, table in parts.items():
        operator.receive(part, stamped(table))
    ((_, pairs),) = operator.punctuate([Marks({"ts": BEGINNING})] * 2, now=0)
    assert pairs.column_names == ["r_k", ARRIVED]


def test_many_tuples_are_matched_by_slices_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(4)
    texts = [" ".join(f"{'xyz'[k]}{t}" for k, t in random.integers((0, 0), (3, 400), (300, 2))) for _ in range(2)]
    for band in ((0, 0), (3, 5), (-2, 4), (500, 500)):
        for predicate in ("l.k = r.k", None):
            whole = Bench(predicate, band=band).step(*texts)
            with monkeypatch.context() as patch:
                patch.setattr(join_match, "SLICE_ROWS", 50)
                patch.setattr(join_match, "BLOCK_ROWS", 16)
                assert Bench(predicate, band=band).step(*texts) == whole
            assert len(whole) > 50
