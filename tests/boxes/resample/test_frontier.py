"""Frontiers of groups, against their definition, batch by batch."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from penstock.algebra.ticks import BEGINNING, END
from penstock.boxes.resample.frontier import FrontierStore, at_place, group_keys, number_groups, unknown
from penstock.testing.memory_slots import MemorySlots


def frontier(values: list[int], slack: int) -> int:
    return sorted(values)[-slack - 1] if len(values) > slack else BEGINNING


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("slack", [0, 1, 3])
def test_frontiers_late_tuples_and_moments_follow_the_definition(seed: int, slack: int) -> None:
    rng, slots = np.random.default_rng(seed), MemorySlots()
    seen: dict[str, list[int]] = defaultdict(list)
    seq = 0
    for _ in range(6):
        count = int(rng.integers(0, 9))
        keys = rng.choice(["a", "b", "c"], count).tolist()
        ticks = (rng.integers(0, 15, count) + seq).tolist()
        before = {k: frontier(v, slack) for k, v in seen.items()}
        late, moved = [], []
        for number, (key, tick) in enumerate(zip(keys, ticks, strict=True), seq):
            late.append(sum(v > tick for v in seen[key]) > slack)
            seen[key].append(tick)
            moved.append((number, key, frontier(seen[key], slack)))
        store = FrontierStore(slots, slack, lambda i: i)
        table = pa.table({"k": pa.array(keys, pa.string())})
        numbers = np.arange(seq, seq + count)
        found, judged = store.arrive(table, np.array(ticks, np.int64), numbers, BEGINNING)
        assert judged.tolist() == late
        known = found.groups["k"].to_pylist()
        assert known == sorted(k for k, v in seen.items() if v)
        assert found.after.tolist() == [frontier(seen[k], slack) for k in known]
        assert found.before.tolist() == [before.get(k, BEGINNING) for k in known]
        for place, key in enumerate(known):
            for tick in range(0, seq + 20, 3):
                first = next((n for n, k, f in moved if k == key and f > tick), END)
                passed = BEGINNING if before.get(key, BEGINNING) > tick else first
                assert found.passed(np.array([place]), np.array([tick])).tolist() == [passed]
        seq += count


def test_a_group_that_is_not_known_has_no_frontier() -> None:
    store = FrontierStore(MemorySlots(), 0, lambda i: i)
    found, _ = store.arrive(pa.table({"k": ["b"]}), np.array([7]), np.array([0]), BEGINNING)
    numbers, groups, places = found.find(pa.table({"k": ["c", "b", "a"]}))
    assert groups["k"].to_pylist() == ["a", "b", "c"]
    assert at_place(found.after, places)[numbers].tolist() == [BEGINNING, 7, BEGINNING]
    assert found.passed(places, np.array([6, 6, 6])).tolist() == [END, 0, END]
    nothing = unknown(pa.schema({"k": pa.string()}))
    assert nothing.of(pa.table({"k": ["a"]})).tolist() == [BEGINNING]


def test_only_the_slots_of_groups_that_arrive_are_rewritten() -> None:
    slots = MemorySlots()
    names = [str(n) for n in range(200)]
    FrontierStore(slots, 0, lambda i: i).arrive(pa.table({"k": names}), np.arange(200), np.arange(200), BEGINNING)
    before = {slot: parts["largest"][0] for slot, parts in slots.held.items()}
    FrontierStore(slots, 0, lambda i: i).arrive(pa.table({"k": ["7"]}), np.array([999]), np.array([0]), BEGINNING)
    changed = [slot for slot, parts in slots.held.items() if parts["largest"][0] is not before[slot]]
    assert len(changed) == 1
    assert slots.rows() == 200


def test_groups_are_numbered_in_their_order_whatever_they_are_made_of() -> None:
    keys = pa.table({"a": [2, 1, None, 2], "A": ["x", "y", "x", "a"]})
    numbers, groups = number_groups(keys)
    assert numbers.tolist() == [2, 0, 3, 1]
    assert groups.to_pylist() == [{"a": 1, "A": "y"}, {"a": 2, "A": "a"}, {"a": 2, "A": "x"}, {"a": None, "A": "x"}]
    numbers, groups = number_groups(group_keys(keys, ()))
    assert (numbers.tolist(), groups.num_rows) == ([0, 0, 0, 0], 1)
