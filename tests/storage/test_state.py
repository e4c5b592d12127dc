"""State in versions: what a batch leaves behind for the next, and what it lets go of."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.algebra.ticks import BEGINNING
from penstock.errors import WorldError
from penstock.storage.disk import finish_forgetting
from penstock.storage.folder import Folder
from penstock.storage.state import SNAPSHOT_FILES, State


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path / "state"))


def tuples(*values: int) -> pa.Table:
    return pa.table({"v": pa.array(values, pa.int64())})


def values(state: State, slot: int, part: str = "partial") -> list[list[int]]:
    return [chunk["v"].to_pylist() for chunk in state.slots("box").chunks(slot, part)]


def versions(folder: Folder) -> list[int]:
    finish_forgetting()
    return sorted(int(name.split(".")[0]) for name in folder.names())


def content(folder: Folder, version: int) -> bytes:
    return bytes(folder.read(f"{version:08d}.state").to_pybytes())


def test_a_batch_finds_what_the_batch_before_it_left(folder: Folder) -> None:
    first = State(folder, 0)
    slots = first.slots("box")
    assert slots.get_mark() == BEGINNING
    slots.append(-3, "partial", tuples(1, 2))
    slots.append(-3, "partial", tuples(3))
    slots.append(7, "h0", tuples(4))
    slots.set_mark(42)
    first.memo["sent"] = {"a": 1}
    first.save()

    second = State(folder, 1)
    assert second.slots("box").numbers() == [-3, 7]
    assert values(second, -3) == [[1, 2], [3]]
    assert values(second, 7, "h0") == [[4]]
    assert (second.slots("box").count(-3, "partial"), second.slots("box").rows()) == (2, 4)
    assert second.slots("box").get_mark() == 42
    assert second.memo == {"sent": {"a": 1}}
    assert second.slots("other").numbers() == []


def test_slots_are_replaced_and_dropped(folder: Folder) -> None:
    first = State(folder, 0)
    for slot in (1, 2):
        first.slots("box").append(slot, "partial", tuples(slot))
    first.save()
    second = State(folder, 1)
    second.slots("box").replace(1, "partial", tuples(9, 9))
    second.slots("box").drop(2)
    second.slots("box").drop(99)
    second.save()
    third = State(folder, 2)
    assert third.slots("box").numbers() == [1]
    assert values(third, 1) == [[9, 9]]


def test_a_batch_that_runs_again_writes_the_same_bytes(folder: Folder) -> None:
    def batch_1() -> bytes:
        state = State(folder, 1)
        state.slots("box").append(5, "partial", tuples(1, 2, 3))
        state.slots("box").drop(4)
        state.save()
        return content(folder, 1)

    before = State(folder, 0)
    before.slots("box").append(4, "partial", tuples(0))
    before.slots("box").append(6, "partial", tuples(6))
    before.save()
    assert batch_1() == batch_1()


def test_a_version_writes_only_what_changed(folder: Folder) -> None:
    state = State(folder, 0)
    state.slots("box").append(0, "partial", tuples(*range(10_000)))
    state.save()
    state = State(folder, 1)
    state.slots("box").append(1, "partial", tuples(1))
    state.save()
    assert len(content(folder, 1)) < len(content(folder, 0)) / 10
    assert values(State(folder, 2), 0) == [list(range(10_000))]


def test_the_version_before_stays_until_the_batch_after_has_written(folder: Folder) -> None:
    # Until Spark has committed batch n, it may run again from version n - 1; if that is damaged, n - 1 from n - 2.
    for batch in range(4):
        state = State(folder, batch)
        state.slots("box").replace(0, "partial", tuples(batch))
        state.save()
        assert versions(folder) == list(range(max(0, batch - 2), batch + 1))
        assert values(State(folder, batch + 1), 0) == [[batch]]
    # Run batch 3 once more: version 2 is still whole.
    assert values(State(folder, 3), 0) == [[2]]


def test_a_chunk_that_lives_keeps_its_file(folder: Folder) -> None:
    for batch in range(6):
        state = State(folder, batch)
        if batch == 1:
            state.slots("box").append(0, "partial", tuples(77))
        state.save()
    assert versions(folder) == [1, 3, 4, 5]
    assert values(State(folder, 6), 0) == [[77]]


def test_many_old_files_become_one_snapshot(folder: Folder) -> None:
    last = SNAPSHOT_FILES + 10
    most = 0
    for batch in range(last + 1):
        state = State(folder, batch)
        state.slots("box").append(batch, "partial", tuples(batch))
        state.save()
        most = max(most, len(versions(folder)))
    assert most <= SNAPSHOT_FILES + 3
    assert len(versions(folder)) < 15
    opened = State(folder, last + 1)
    assert [values(opened, slot) for slot in opened.slots("box").numbers()] == [[[b]] for b in range(last + 1)]


def test_a_snapshot_can_be_written_again_from_the_version_before(folder: Folder) -> None:
    for batch in range(SNAPSHOT_FILES + 1):
        state = State(folder, batch)
        state.slots("box").append(batch, "partial", tuples(batch))
        state.save()

    def snapshot() -> bytes:
        state = State(folder, SNAPSHOT_FILES + 1)
        state.save()
        return content(folder, SNAPSHOT_FILES + 1)

    assert snapshot() == snapshot()


def test_a_missing_version_is_told_not_guessed(folder: Folder) -> None:
    State(folder, 0).save()
    with pytest.raises(WorldError, match=r"state version 6 is missing: .*/00000006.state") as missing:
        State(folder, 7)
    assert "goes back to the last batch that is whole" in str(missing.value.hint)


def three_versions(folder: Folder) -> None:
    for batch in range(3):
        state = State(folder, batch)
        state.slots("box").append(batch, "partial", tuples(*range(50)))
        state.save()


def test_one_flipped_bit_is_noticed_wherever_it_is(folder: Folder) -> None:
    three_versions(folder)
    for version in (1, 2):
        whole = content(folder, version)
        # Nobody reads the manifest of an older version.
        for at in range(0, whole.index(b'{"batch"') if version == 1 else len(whole), 7):
            changed = bytearray(whole)
            changed[at] ^= 1 << at % 8
            folder.write(f"{version:08d}.state", bytes(changed))
            with pytest.raises(WorldError, match=rf"0000000{version}.state (is damaged|was written by a newer)"):
                State(folder, 3).verify()
        folder.write(f"{version:08d}.state", whole)
    State(folder, 3).verify()


def test_a_file_that_is_cut_short_is_told_by_its_name(folder: Folder) -> None:
    three_versions(folder)
    for version in (1, 2):
        whole = content(folder, version)
        needed = whole.index(b'{"batch"') if version == 1 else len(whole)
        for length in (0, 1, 19, 20, needed // 2, needed - 1):
            folder.write(f"{version:08d}.state", whole[:length])
            with pytest.raises(WorldError, match=rf"0000000{version}.state is damaged"):
                State(folder, 3).verify()
        folder.write(f"{version:08d}.state", whole)


def test_a_late_attempt_of_an_older_batch_leaves_what_is_newer_alone(folder: Folder) -> None:
    late = None
    for batch in range(6):
        state = State(folder, batch)
        if batch == 3:
            late = State(folder, batch)
            late.slots("box").replace(0, "partial", tuples(batch))
        state.slots("box").replace(0, "partial", tuples(batch))
        state.save()
    before = {version: content(folder, version) for version in versions(folder)}
    assert late is not None
    late.save()
    assert {version: content(folder, version) for version in before} == before
    assert values(State(folder, 6), 0) == [[5]]


def test_what_every_box_holds_can_be_weighed(folder: Folder) -> None:
    state = State(folder, 0)
    state.slots("small").append(1, "partial", tuples(1))
    state.slots("large").append(1, "partial", tuples(*range(500)))
    state.slots("large").append(2, "held", tuples(*range(500)))
    assert state.sizes() == {"small": (1, 8), "large": (1000, 8000)}
    state.save()
    after = State(folder, 1)
    sizes = after.sizes()
    assert {box: rows for box, (rows, _) in sizes.items()} == {"small": 1, "large": 1000}
    # As it lies in the file: the tuples, and what says how they are laid out.
    assert 8000 < sizes["large"][1] < 10_000
    after.slots("large").drop(1)
    assert after.sizes()["large"][0] == 500
