"""Marks of groups where streams come together, batch by batch.

```
 batch            0    1    2
 east   stream    5         9
        a        20
        b         7
 west   stream    3   12              a: min(20, west)     b: min(7, west)
```
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import penstock as pk
from penstock.algebra.hidden import ARRIVED
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.least_marks.box import LeastMarks
from penstock.plan.compile import compile_network
from penstock.testing.memory_slots import MemorySlots

N = {"n": "count(*)"}


class Bench:
    """The marks behind a union of three inputs, of which the last has none of groups; or behind a join of two."""

    def __init__(self, *, kind: str = "int64", band: tuple[int, int] | None = None) -> None:
        net = pk.Network("net")
        schema = {"ts": kind, "k": "string"}
        east, west = (
            net.source(name, pk.memory([], schema=schema), progress=pk.ordered(by="k")) for name in ("east", "west")
        )
        if band is None:
            plain = net.source("plain", pk.memory([], schema=schema))
            pk.union(east, west, plain).aggregate(N, size=10, by="k").output("o")
        else:
            pairs = east.join(west, "l.k = r.k", on="ts", band=band)
            pairs.aggregate(N, on="r_ts", size=10, by="l_k").output("o")
        self.box: Any = next(b for b in compile_network(net.network).network.boxes if isinstance(b, LeastMarks))
        self.schema = pa.schema([("k", pa.string()), ("ts", pa.type_for_alias(kind))])
        self.slots = MemorySlots()
        self.reached = {"east": BEGINNING, "west": BEGINNING, "plain": BEGINNING}

    def at(self, **streams: int) -> Bench:
        """What streams have reached from now on."""
        self.reached |= streams
        return self

    def step(self, east: str = "", west: str = "", ended: bool = False) -> list[str]:
        """Marks of groups such as `20a` come; which marks leave."""
        low = self.box.entry(())
        for number, text in enumerate((east, west)):
            said = [(word[-1], None if word[0] == "?" else int(word[:-1])) for word in text.split()]
            if said:
                columns = [list(column) for column in zip(*said, strict=True)]
                low.process(len(self.box.branches) + number, pa.table(columns, schema=self.schema))
        operator: Any = self.box.holder(self.slots, ())
        for part, table in low.flush():
            operator.receive(part, table)
        stated = [Marks({"ts": self.reached[name]}, ended=ended) for name in ("east", "west", "plain")]
        marks = [*stated[: len(self.box.branches)], *(Marks(ended=ended) for _ in self.box.speaking)]
        leaving = list(operator.punctuate(marks, now=0))
        assert all(port == 0 and ARRIVED in table.column_names for port, table in leaving)
        group, on = self.box.groups[0], self.box.on
        rows = [row for _, table in leaving for row in table.to_pylist()]
        return [f"{row[on]}{row[group]}" for row in sorted(rows, key=lambda row: row[group])]


def test_a_group_has_come_as_far_as_where_it_is_furthest_behind() -> None:
    bench = Bench().at(east=5, west=3, plain=100)
    # What has said nothing of a group may bring it from where the stream stands on.
    assert bench.step("20a 7b") == []
    assert bench.at(west=12).step() == ["12a", "7b"]
    assert bench.at(east=9).step() == []  # the stream behind says 9 itself
    assert bench.step("", "50a 13b") == ["20a"]
    assert bench.step("30a 30b") == ["30a", "13b"]


def test_what_the_stream_behind_says_itself_is_not_said_of_groups_and_not_kept() -> None:
    bench = Bench().at(east=5, west=3, plain=4)
    assert bench.step("20a") == []
    assert bench.slots.rows() == 1
    # The stream behind stands at 4, where the input without groups does.
    assert bench.at(east=19, west=25).step() == []
    assert bench.at(plain=22).step() == ["20a"]
    assert bench.at(east=20).step() == []
    assert bench.slots.rows() == 0


def test_an_input_that_has_ended_holds_nobody_back_and_at_the_end_nothing_is_kept() -> None:
    bench = Bench().at(east=1, west=END, plain=END)
    assert bench.step("20a") == ["20a"]
    assert bench.at(east=END).step(ended=True) == []
    assert bench.slots.rows() == 0


def test_no_group_is_read_when_nothing_is_new_and_only_what_changes_is_written() -> None:
    bench = Bench().at(plain=9)
    bench.step("20a 20b 20c 20d")
    bench.slots.reads = 0
    assert bench.step() == []
    assert bench.slots.reads == 1  # what the streams had reached
    before = {slot: parts["marks"][0] for slot, parts in bench.slots.held.items() if slot != BEGINNING}
    bench.step("30a")
    written = [slot for slot, table in before.items() if bench.slots.held[slot]["marks"][0] is not table]
    assert len(written) == 1 < len(before)


def test_marks_without_a_value_say_nothing() -> None:
    assert Bench().at(west=50, plain=50).step("?a 8b") == ["8b"]


def test_behind_a_join_the_band_moves_the_marks_of_a_side() -> None:
    bench = Bench(band=(3, 4))
    # The right tuple of a pair is not below its own mark, nor more than 3 before a left one.
    assert bench.step("20a 20b", "30a 11b") == ["17a", "11b"]
    assert bench.step("40a 40b") == ["30a"]
    # Where both streams stand at 40, the pairs stand at 37.
    assert bench.at(east=40, west=40).step("", "60a") == []
    assert bench.at(east=60).step() == ["57a"]


def test_a_narrow_attribute_says_no_more_than_it_can() -> None:
    # Right tuples are at least 100 behind left ones.
    assert Bench(kind="int8", band=(-100, 120)).step("100a -50b", "120a 110b") == ["120a", "50b"]
    assert Bench(kind="uint8", band=(30, 0)).step("10a", "10a") == ["0a"]
