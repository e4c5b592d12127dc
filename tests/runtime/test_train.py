"""Trains: tuples as rows, and which bucket they go to."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime import train as train_module
from penstock.runtime.train import buckets_of, from_batches, to_batch, train


def test_a_train_survives_the_way_through_a_row() -> None:
    tuples = pa.table({"k": ["x", None], "v": pa.array([1, 2], pa.int8())})
    (row,) = from_batches([to_batch(train(2, 1, "counts", "partial", "intake 0000", 7, tuples))])
    assert (row.stage, row.bucket, row.order) == (2, 1, ("counts", "partial", "intake 0000", 7))
    assert row.tuples().equals(tuples)


@given(
    keys=st.lists(st.tuples(st.sampled_from([None, "x", "y", "z"]), st.sampled_from([None, 1, 2])), max_size=40),
    buckets=st.integers(1, 7),
)
def test_a_group_is_in_one_bucket_and_no_tuple_is_lost(keys: list[tuple[str | None, int | None]], buckets: int) -> None:
    texts, numbers = zip(*keys, strict=True) if keys else ((), ())
    tuples = pa.table(
        {"k": pa.array(texts, pa.string()), "j": pa.array(numbers, pa.int64()), "n": list(range(len(keys)))}
    )
    homes: dict[tuple[object, ...], set[int]] = defaultdict(set)
    seen = []
    for bucket, part in buckets_of(tuples, ["k", "j"], buckets):
        assert 0 <= bucket < buckets
        rows = part.to_pylist()
        assert [r["n"] for r in rows] == sorted(r["n"] for r in rows), "tuples of a bucket keep their order"
        seen += [r["n"] for r in rows]
        for row in rows:
            homes[row["k"], row["j"]].add(bucket)
    assert sorted(seen) == list(range(len(keys)))
    assert all(len(home) == 1 for home in homes.values())


def test_the_global_group_lives_in_bucket_0() -> None:
    tuples = pa.table({"k": ["x", "y"]})
    assert [bucket for bucket, _ in buckets_of(tuples, [], 5)] == [0]


@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    keys=st.lists(st.sampled_from([None, "x", "y", "z"]), min_size=30, max_size=30),
    buckets=st.integers(2, 4),
)
def test_how_tuples_are_cut_into_chunks_makes_no_difference(
    lengths: list[int], keys: list[str | None], buckets: int
) -> None:
    chunks, at = [], 0
    for length in lengths:
        chunks.append(
            pa.table(
                {"k": pa.array(keys[at : at + length], pa.string()), "n": pa.array(range(at, at + length), pa.int64())}
            )
        )
        at += length
    tuples = pa.concat_tables(chunks)
    whole = dict(buckets_of(tuples, ["k"], buckets))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_module, "CHUNK_ROWS", 0)
        assert dict(buckets_of(tuples, ["k"], buckets)) == whole
        patch.setattr(train_module, "FEW_BUCKETS", 0)
        assert dict(buckets_of(tuples, ["k"], buckets)) == whole


@given(
    keys=st.lists(st.tuples(st.sampled_from([None, "x", "y", "z"]), st.sampled_from([None, "a", "b"])), max_size=40),
    cut=st.integers(0, 40),
    buckets=st.integers(2, 5),
)
def test_codes_go_where_their_texts_go(keys: list[tuple[str | None, str | None]], cut: int, buckets: int) -> None:
    texts, others = zip(*keys, strict=True) if keys else ((), ())
    plain = pa.table(
        {"k": pa.array(texts, pa.string()), "j": pa.array(others, pa.string()), "n": list(range(len(keys)))}
    )
    pieces = [piece.set_column(0, "k", piece.column("k").dictionary_encode()) for piece in (plain[:cut], plain[cut:])]
    coded = pa.concat_tables(pieces)
    for by in (["k"], ["j", "k"]):
        found = {bucket: own.cast(plain.schema) for bucket, own in buckets_of(coded, by, buckets)}
        assert found == dict(buckets_of(plain, by, buckets))


@pytest.mark.parametrize("index", [pa.int32(), pa.int8()], ids=["room for all", "no room for all"])
def test_dictionaries_of_chunks_are_the_same_in_a_process_and_in_bytes(index: pa.DataType) -> None:
    kind = pa.dictionary(index, pa.string())
    chunks = [pa.array([f"{number} {at}" for at in range(100)]).dictionary_encode().cast(kind) for number in range(2)]
    row = train(1, 0, "box", "part", "intake 0000", 0, pa.table({"k": pa.chunked_array(chunks)}))
    (packed,) = from_batches([to_batch(row)])
    here, there = row.tuples().column("k"), packed.tuples().column("k")
    assert here.to_pylist() == [text for chunk in chunks for text in chunk.to_pylist()]
    assert [chunk.dictionary for chunk in here.chunks] == [chunk.dictionary for chunk in there.chunks]
    assert [chunk.indices for chunk in here.chunks] == [chunk.indices for chunk in there.chunks]
