"""The marks of groups, and what is known of them after every batch.

```
 delay 2                batch   0     1     2
 a                             10    20              mark  8   18
 b                             11          12        mark  9        10
```
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.operators.scripted import stamped

import penstock as pk
from penstock.algebra.hidden import ARRIVED
from penstock.algebra.marks import Marks
from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.group_marks.box import GroupMarks
from penstock.errors import WorldError
from penstock.plan.compile import compile_network
from penstock.testing.memory_slots import MemorySlots

PORTS = ("", "late", "marks")


class Bench:
    """A GroupMarks box in one bucket, or in several that hear of each other's groups."""

    def __init__(self, buckets: int = 1, *, kind: str = "int64", late: str = "route", delay: int = 2) -> None:
        net = pk.Network("net")
        schema = {"ts": kind, "k": "string"}
        source = net.source("in", pk.memory([], schema=schema), progress=pk.delayed(delay, by="k"), late=late)
        source.aggregate({"n": "count(*)"}, size=10, by="k").output("o")
        plan = compile_network(net.network)
        self.box: Any = next(b for b in plan.network.boxes if isinstance(b, GroupMarks))
        self.schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in schema.items()])
        self.needed = tuple(frozenset(self.box.schema(i).names) for i in range(3))
        self.slots = [MemorySlots() for _ in range(buckets)]

    def step(self, text: str = "", stated: int = BEGINNING, ended: bool = False) -> dict[str, list[str]]:
        """Tuples such as `10a` come, those of one letter to one bucket; what leaves, by port, and the stream's mark."""
        low = self.box.entry(self.needed)
        words = [(int(word[:-1]), word[-1]) for word in text.split()]
        if words:
            low.process(0, pa.table([list(c) for c in zip(*words, strict=True)], schema=self.schema))
        parts = {part: stamped(table) for part, table in low.flush()}
        found: dict[str, list[str]] = {port: [] for port in PORTS}
        marks = [Marks({"ts": stated}, ended=ended)]
        said = set()
        for bucket, slots in enumerate(self.slots):
            operator: Any = self.box.holder(slots, self.needed)
            for part, table in parts.items():
                own = [ord(k) % len(self.slots) == bucket for k in table["k"].to_pylist()]
                mine = table if part == GroupMarks.LARGEST else table.filter(pa.array(own))
                if mine.num_rows:
                    operator.receive(part, mine)
            for port, leaving in operator.punctuate(marks, now=0):
                assert ARRIVED in leaving.column_names
                found[PORTS[port]] += [f"{row['ts']}{row['k']}" for row in leaving.to_pylist()]
            said.add(operator.output_marks(marks).of("ts"))
        (self.mark,) = said
        return {port: leaving for port, leaving in found.items() if leaving}


def test_a_group_has_a_mark_of_its_own_and_the_stream_has_the_smallest() -> None:
    bench = Bench()
    assert bench.step("10a 11b") == {"": ["10a", "11b"], "marks": ["8a", "9b"]}
    assert bench.mark == 8
    assert bench.step("20a") == {"": ["20a"], "marks": ["18a"]}
    assert (bench.mark, bench.slots[0].rows()) == (9, 2)
    assert bench.step("12b") == {"": ["12b"], "marks": ["10b"]}
    assert bench.mark == 10


def test_a_tuple_is_judged_by_what_was_stated_of_its_group_before_its_batch() -> None:
    bench = Bench()
    assert bench.step("10a 1a 11b") == {"": ["10a", "1a", "11b"], "marks": ["8a", "9b"]}
    assert bench.step("8b 9b 8a 7a") == {"": ["9b", "8a"], "late": ["8b", "7a"]}


def test_a_new_group_takes_nothing_back_and_late_tuples_alone_make_no_group() -> None:
    bench = Bench()
    bench.step("10a")
    assert bench.step("7c 3c") == {"late": ["7c", "3c"]}
    assert (bench.mark, bench.slots[0].rows()) == (8, 1)
    # Above the stream's mark it is taken, and holds it back from then on.
    assert bench.step("8c 50a") == {"": ["8c", "50a"], "marks": ["48a"]}
    assert (bench.mark, bench.slots[0].rows()) == (8, 2)
    assert bench.step("7c 30c") == {"": ["30c"], "late": ["7c"], "marks": ["28c"]}
    assert bench.mark == 28


def test_what_the_input_states_counts_for_all_groups() -> None:
    bench = Bench()
    bench.step("10a 100b")
    assert bench.step(stated=50) == {}
    assert bench.mark == 50
    assert bench.step("49a 51a 97b 98b", stated=50) == {"": ["51a", "98b"], "late": ["49a", "97b"]}
    bench.step(stated=END, ended=True)
    assert (bench.mark, bench.slots[0].rows()) == (END, 0)


def test_every_bucket_knows_all_groups_and_tells_of_its_own() -> None:
    one, three = Bench(1), Bench(3)
    for text in ("10a 11b 30c", "20a 5d 9c", "12b 40d", "9a 17a 18a"):
        alone, spread = one.step(text), three.step(text)
        assert {port: sorted(rows) for port, rows in alone.items()} == {p: sorted(rows) for p, rows in spread.items()}
        assert one.mark == three.mark
    assert [slots.rows() for slots in three.slots] == [one.slots[0].rows()] * 3


def test_only_slots_of_groups_that_come_are_read() -> None:
    bench = Bench()
    bench.step(" ".join(f"10{chr(ord('a') + n)}" for n in range(26)))
    bench.slots[0].reads = 0
    bench.step("20a")
    # The ledger, and the slot of the group.
    assert bench.slots[0].reads == 2


def test_nothing_can_be_stated_below_the_smallest_value_of_a_narrow_attribute() -> None:
    bench = Bench(kind="uint8", delay=20)
    assert bench.step("10a 30b") == {"": ["10a", "30b"], "marks": ["0a", "10b"]}
    assert bench.mark == -10


def test_late_error_says_what_was_expected_of_the_group() -> None:
    bench = Bench(late="error")
    bench.step("10a 50b")
    with pytest.raises(WorldError, match=r"1 late tuple, and the input was declared with late='error'") as caught:
        bench.step("9a 47b")
    assert "ts >= 48 in its group (a mark for each group of k: the largest ts, less 2)" in str(caught.value)
    assert "ts = 47" in str(caught.value)
