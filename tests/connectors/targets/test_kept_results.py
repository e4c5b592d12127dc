"""Results that are kept: in order, whole, in few files, and no more of them than was asked for."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.algebra.marks import Marks
from penstock.connectors.targets import kept_results
from penstock.connectors.targets.kept_results import FAN, SETTLED, KeptResults, Results
from penstock.errors import QueryError, WorldError
from penstock.storage.folder import Folder

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])


def tuples(*stamps):
    return pa.table({"ts": list(stamps), "k": [f"k{ts}" for ts in stamps]}, schema=SCHEMA)


@pytest.fixture
def scratch(tmp_path):
    folder = Folder(str(tmp_path / "checkpoint" / "out"))
    Results().check("out", SCHEMA, folder)
    return folder


def post(kept, scratch, batch, *parts, **marks):
    staged = [Results().stage(batch, part, table, scratch) for part, table in enumerate(parts)]
    kept.post(batch, [one for one in staged if one is not None], Marks(marks))


def all_of(scratch):
    kept = KeptResults(scratch)
    return kept.table(kept.batches())


def test_results_come_in_order_of_batch_and_part(scratch):
    kept = KeptResults(scratch)
    post(kept, scratch, 9, tuples(1, 2), tuples())
    post(kept, scratch, 10, tuples(5), tuples(6))
    assert all_of(scratch) == tuples(1, 2, 5, 6)


def test_results_of_nothing_have_the_schema(scratch):
    assert all_of(scratch) == SCHEMA.empty_table()


def test_results_posted_again_are_not_doubled(scratch):
    for _ in range(2):
        post(KeptResults(scratch), scratch, 3, tuples(1), ts=5)
    assert [(b.batch, b.rows, b.marks) for b in KeptResults(scratch).batches()] == [(3, 1, Marks({"ts": 5}))]


def test_a_batch_that_has_nothing_when_it_is_done_again_leaves_nothing(scratch):
    kept = KeptResults(scratch)
    post(kept, scratch, 3, tuples(1))
    post(kept, scratch, 3)
    assert all_of(scratch) == tuples()


def test_results_refuse_another_schema_on_restart(scratch):
    with pytest.raises(QueryError, match="'k' is int64, was string"):
        Results().check("out", pa.schema([("ts", pa.int64()), ("k", pa.int64())]), scratch)


def test_results_refuse_a_checkpoint_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WorldError, match="Not a directory"):
        Results().check("out", SCHEMA, Folder(str(tmp_path / "file" / "out")))


def test_many_batches_lie_in_few_files(scratch):
    kept = KeptResults(scratch)
    batches, most = FAN * 5 + 3, 0
    for batch in range(batches):
        post(kept, scratch, batch, tuples(batch), ts=batch)
        most = max(most, len(scratch.names()))
    assert most <= 2 * (FAN + SETTLED) + 12
    assert all_of(scratch) == tuples(*range(batches))
    found = KeptResults(scratch).batches()
    assert [(b.batch, b.rows, b.marks.of("ts")) for b in found] == [(n, 1, n) for n in range(batches)]
    # Another life of the run goes on where this one ends.
    post(KeptResults(scratch), scratch, batches, tuples(batches))
    assert all_of(scratch) == tuples(*range(batches + 1))


def test_merged_units_are_merged_again(scratch, monkeypatch):
    monkeypatch.setattr(kept_results, "FAN", 3)
    kept = KeptResults(scratch)
    for batch in range(60):
        post(kept, scratch, batch, tuples(batch, batch))
    assert any(name.startswith("kept-3-") for name in scratch.names())
    assert all_of(scratch) == tuples(*(n for batch in range(60) for n in (batch, batch)))


def test_a_large_part_is_not_copied(scratch, monkeypatch):
    monkeypatch.setattr(kept_results, "FAN", 4)
    monkeypatch.setattr(kept_results, "MERGED_BYTES", 2_000)
    kept = KeptResults(scratch)
    for batch in range(25):
        post(kept, scratch, batch, tuples(*range(500)) if batch == 1 else tuples(batch))
    assert scratch.exists("part-00000001-0000.arrow")
    assert not scratch.exists("part-00000002-0000.arrow")
    assert all_of(scratch).num_rows == 524


@pytest.mark.parametrize("keep", [1, 3_000, 20_000])
def test_the_oldest_leave_when_there_is_no_room(scratch, keep):
    kept = KeptResults(scratch, keep)
    for batch in range(100):
        post(kept, scratch, batch, tuples(batch))
    gone = KeptResults(scratch).forgotten()
    assert 0 < gone < 100
    assert all_of(scratch) == tuples(*range(gone, 100))
    assert sum(scratch.size(name) for name in scratch.names() if name.endswith(".arrow")) <= max(keep, 1_000)


def test_what_was_forgotten_is_counted_once(scratch):
    kept = KeptResults(scratch, 1)
    for batch in range(3):
        post(kept, scratch, batch, tuples(batch))
    assert kept.forgotten() == 2
    # A crash between the word and the deed has left a unit that no longer counts.
    post(KeptResults(scratch), scratch, 1, tuples(1))
    assert all_of(scratch) == tuples(2)
    post(KeptResults(scratch, 1), scratch, 3, tuples(3))
    assert (KeptResults(scratch).forgotten(), all_of(scratch)) == (3, tuples(3))


def test_going_back_forgets_what_was_left_behind_a_batch(scratch):
    kept = KeptResults(scratch)
    for batch in range(6):
        post(kept, scratch, batch, tuples(batch))
    Results().stage(7, 0, tuples(99), scratch)
    KeptResults(scratch).forget_after(3)
    assert all_of(scratch) == tuples(0, 1, 2, 3)
    assert not [name for name in scratch.names() if name.startswith(("part-00000004", "part-00000007"))]


def test_a_flipped_bit_in_a_part_or_a_unit_is_noticed(scratch):
    post(KeptResults(scratch), scratch, 0, tuples(1, 2, 3))
    for name in ("part-00000000-0000.arrow", "kept-0-00000000-00000000.json"):
        whole = scratch.read(name).to_pybytes()
        for at in range(0, len(whole), 11):
            changed = bytearray(whole)
            changed[at] ^= 4
            scratch.write(name, bytes(changed))
            with pytest.raises(WorldError, match=rf"{name} (is damaged|was written by a newer)"):
                all_of(scratch)
        for length in (0, len(whole) // 2):
            scratch.write(name, whole[:length])
            with pytest.raises(WorldError, match=rf"{name} is damaged"):
                all_of(scratch)
        scratch.write(name, whole)


def test_a_part_that_is_gone_is_told(scratch):
    post(KeptResults(scratch), scratch, 0, tuples(1))
    scratch.delete("part-00000000-0000.arrow")
    with pytest.raises(WorldError, match=r"part-00000000-0000.arrow is missing"):
        all_of(scratch)


@pytest.mark.parametrize("keep", [0, -1, True, "much", "0 MB"])
def test_what_is_no_room_is_refused(keep):
    with pytest.raises(QueryError, match="is no size"):
        kept_results.results(keep)


def test_room_may_be_said_in_words():
    assert kept_results.results("10 MB") == Results(10_000_000)


@pytest.mark.parametrize("keep", [20_000, 100_000])
def test_lists_count_too_so_that_punctuation_alone_does_not_grow(scratch, keep):
    kept, seen = KeptResults(scratch, keep), []
    for batch in range(1_200):
        post(kept, scratch, batch, *([tuples(batch)] if batch % 3 == 0 else []), ts=batch)
        seen.append(sum(size for _, size in scratch.files()))
    # A unit of slack: the newest is there before the oldest has left; and what is neither tuples nor lists.
    assert max(seen) <= keep + 4_000
    assert min(seen[600:]) >= keep * (1 - 1.2 / kept_results.LARGEST)
    assert len(scratch.names()) <= 400
    gone = KeptResults(scratch).forgotten()
    assert all_of(scratch) == tuples(*range(3 * gone, 1_200, 3))


def test_settled_units_can_be_let_go(scratch):
    kept = KeptResults(scratch)
    for batch in range(40):
        post(kept, scratch, batch, tuples(batch))
    settled = kept.settled(39)
    assert [unit.last for unit, _ in settled] == list(range(24))
    assert all(size > 500 for _, size in settled)
    kept.forget_to(9)
    assert all_of(scratch) == tuples(*range(10, 40))
    assert KeptResults(scratch).forgotten() == 10
