"""Delta tables: a batch appears at once and exactly once, whoever else writes and however often it is replayed."""

import datetime as dt
import json
import os
import pickle
from decimal import Decimal

import deltalake
import duckdb
import pyarrow as pa
import pytest

from penstock.connectors.delta.declaration import delta
from penstock.connectors.delta.types import delta_type
from penstock.connectors.targets.target import Receipt
from penstock.errors import QueryError, WorldError
from penstock.storage.folder import Folder

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])


def tuples(*stamps):
    return pa.table({"ts": list(stamps), "k": [f"k{ts % 2}" for ts in stamps]}, schema=SCHEMA)


@pytest.fixture
def out(tmp_path):
    return str(tmp_path / "table")


@pytest.fixture
def scratch(tmp_path):
    return Folder(str(tmp_path / "checkpoint" / "out"))


def stage(target, scratch, batch, *parts):
    worker = pickle.loads(pickle.dumps(target))
    staged = [worker.stage(batch, part, table, scratch) for part, table in enumerate(parts)]
    return [Receipt.from_json(json.loads(json.dumps(one.to_json()))) for one in staged if one is not None]


def deliver(target, scratch, batch, *parts):
    target.commit(batch, stage(target, scratch, batch, *parts), scratch)


def read(out):
    return deltalake.DeltaTable(out).to_pyarrow_table().sort_by("ts")


def stamps(out):
    return read(out)["ts"].to_pylist()


def version(out):
    return deltalake.DeltaTable(out).version()


def test_a_batch_of_several_parts_is_one_transaction(out, scratch):
    target = delta(out)
    target.check("out", SCHEMA, scratch)
    receipts = stage(target, scratch, 0, tuples(1, 2), tuples(), tuples(3))
    assert stamps(out) == []
    target.commit(0, receipts, scratch)
    assert version(out) == 1
    assert read(out) == tuples(1, 2, 3)


def test_a_replay_of_a_committed_batch_changes_nothing(out, scratch):
    target = delta(out)
    target.check("out", SCHEMA, scratch)
    deliver(target, scratch, 2, tuples(1))
    for _ in range(2):
        deliver(target, scratch, 3, tuples(2), tuples(3))
    restarted = delta(out)
    restarted.check("out", SCHEMA, scratch)
    deliver(restarted, scratch, 3, tuples(2), tuples(3))
    assert stamps(out) == [1, 2, 3]
    assert version(out) == 2
    assert len(deltalake.DeltaTable(out).file_uris()) == len([n for n in os.listdir(out) if n.endswith(".parquet")])


def test_a_batch_staged_before_a_crash_is_committed_after_it(out, scratch):
    target = delta(out)
    target.check("out", SCHEMA, scratch)
    stage(target, scratch, 0, tuples(1))
    restarted = delta(out)
    restarted.check("out", SCHEMA, scratch)
    deliver(restarted, scratch, 0, tuples(1))
    assert stamps(out) == [1]


def test_empty_batches_make_no_transaction_and_do_not_confuse_replays(out, scratch):
    target = delta(out)
    target.check("out", SCHEMA, scratch)
    deliver(target, scratch, 0, tuples())
    deliver(target, scratch, 1, tuples(1))
    deliver(target, scratch, 2, tuples(), tuples())
    deliver(target, scratch, 2, tuples())
    deliver(target, scratch, 1, tuples(1))
    deliver(target, scratch, 3, tuples(2))
    assert stamps(out) == [1, 2]
    assert version(out) == 2


def test_a_committed_file_is_not_overwritten_by_other_bytes(out, scratch):
    target = delta(out)
    target.check("out", SCHEMA, scratch)
    deliver(target, scratch, 0, tuples(1))
    deliver(target, scratch, 0, tuples(1, 9))  # what another version of a library could write for the same batch
    assert stamps(out) == [1]


def test_runs_append_beside_each_other(out, scratch, tmp_path):
    another = Folder(str(tmp_path / "another"))
    for place in (scratch, another):
        delta(out).check("out", SCHEMA, place)
    for batch in range(3):
        deliver(delta(out), scratch, batch, tuples(batch))
        deliver(delta(out), another, batch, tuples(batch + 10))
    assert stamps(out) == [0, 1, 2, 10, 11, 12]


def test_a_checkpoint_begun_anew_is_another_run(out, scratch):
    for _ in range(2):
        delta(out).check("out", SCHEMA, scratch)
        deliver(delta(out), scratch, 0, tuples(1))
        scratch.delete_all()
    assert stamps(out) == [1, 1]


def interfere(monkeypatch, action):
    """Let someone else act between our look at the log and our transaction."""
    original, done = deltalake.DeltaTable.create_write_transaction, []

    def later(self, *arguments, **options):
        if not done:
            done.append(True)
            action()
        return original(self, *arguments, **options)

    monkeypatch.setattr(deltalake.DeltaTable, "create_write_transaction", later)


def test_a_concurrent_append_is_no_conflict(out, scratch, monkeypatch):
    target = delta(out)
    target.check("out", SCHEMA, scratch)
    interfere(monkeypatch, lambda: deltalake.write_deltalake(out, tuples(50), mode="append"))
    deliver(target, scratch, 0, tuples(1))
    assert stamps(out) == [1, 50]


def test_a_concurrent_change_of_the_table_is_retried(out, scratch, monkeypatch):
    target = delta(out)
    target.check("out", SCHEMA, scratch)
    interfere(
        monkeypatch,
        lambda: deltalake.DeltaTable(out).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"}),
    )
    deliver(target, scratch, 0, tuples(1))
    assert stamps(out) == [1]
    assert version(out) == 2


def test_the_same_batch_from_two_lives_of_a_run_at_once_is_written_once(out, scratch, monkeypatch):
    target = delta(out)
    target.check("out", SCHEMA, scratch)
    interfere(monkeypatch, lambda: deliver(target, scratch, 0, tuples(1)))
    deliver(target, scratch, 0, tuples(1))
    assert stamps(out) == [1]


def test_a_table_that_goes_away_is_the_worlds_fault(out, scratch):
    target = delta(out)
    target.check("flows", SCHEMA, scratch)
    receipts = stage(target, scratch, 0, tuples(1))
    Folder(out).delete_all()
    with pytest.raises(WorldError, match="cannot commit batch 0 to the Delta table") as caught:
        target.commit(0, receipts, scratch)
    assert caught.value.box == "flows"


def test_another_schema_is_refused_with_the_differences(out, scratch):
    deltalake.DeltaTable.create(out, pa.schema([("ts", pa.int64()), ("k", pa.int32()), ("x", pa.bool_())]))
    with pytest.raises(QueryError) as caught:
        delta(out).check("flows", SCHEMA, scratch)
    assert caught.value.found == "'x' (bool) is missing; 'k' is string, was int32"
    assert caught.value.box == "flows"


def test_another_partitioning_is_refused(out, scratch):
    deltalake.DeltaTable.create(out, SCHEMA, partition_by=["k"])
    with pytest.raises(QueryError, match=r"partition_by=\['k'\]"):
        delta(out).check("out", SCHEMA, scratch)


def test_a_table_with_constraints_is_refused(out, scratch):
    deltalake.write_deltalake(out, tuples(1))
    deltalake.DeltaTable(out).alter.add_constraint({"positive": "ts > 0"})
    with pytest.raises(QueryError, match=r"delta\.constraints\.positive"):
        delta(out).check("out", SCHEMA, scratch)


def test_a_not_null_column_is_refused_unless_ours_is_too(out, scratch):
    strict = pa.schema([pa.field("ts", pa.int64(), nullable=False), SCHEMA.field("k")])
    deltalake.DeltaTable.create(out, strict)
    with pytest.raises(QueryError, match="'ts' is NOT NULL"):
        delta(out).check("out", SCHEMA, scratch)
    delta(out).check("out", strict, scratch)


def test_mode_new_refuses_a_table_with_tuples_but_welcomes_its_own(out, scratch, tmp_path):
    target = delta(out, mode="new")
    target.check("out", SCHEMA, scratch)
    deliver(target, scratch, 0, tuples(1))
    target.check("out", SCHEMA, scratch)
    with pytest.raises(QueryError, match="already holds tuples"):
        target.check("out", SCHEMA, Folder(str(tmp_path / "another")))


@pytest.mark.parametrize("below", ["", "below"])
def test_a_place_that_cannot_be_written_is_refused_at_the_start(tmp_path, scratch, below):
    (tmp_path / "file").write_text("")
    path = str(tmp_path / "file" / below).rstrip("/")
    with pytest.raises(WorldError) as caught:
        delta(path).check("flows", SCHEMA, scratch)
    assert path in caught.value.what
    assert caught.value.found
    assert caught.value.box == "flows"


MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([255, None], pa.uint8()), pa.array([255, None], pa.int16())),
        (pa.array([2**32 - 1], pa.uint32()), pa.array([2**32 - 1], pa.int64())),
        (pa.array([2**64 - 1], pa.uint64()), pa.array([Decimal(2**64 - 1)], pa.decimal128(20, 0))),
        (pa.array([MOMENT], pa.timestamp("us")), pa.array([MOMENT], pa.timestamp("us"))),
        (pa.array([5], pa.timestamp("s")), pa.array([5_000_000], pa.timestamp("us"))),
        (pa.array([5000], pa.timestamp("ns", "Europe/Paris")), pa.array([5], pa.timestamp("us", "UTC"))),
        (pa.array([dt.date(2024, 1, 2)], pa.date64()), pa.array([dt.date(2024, 1, 2)], pa.date32())),
        (pa.array(["a", "b", None]).dictionary_encode(), pa.array(["a", "b", None])),
        (pa.array(["é"], pa.large_string()), pa.array(["é"])),
        (pa.array([b"ab"], pa.binary(2)), pa.array([b"ab"], pa.binary())),
        (pa.array([float("nan"), 0.5]), pa.array([float("nan"), 0.5])),
        (pa.array([[1, None], None], pa.list_(pa.uint8())), pa.array([[1, None], None], pa.list_(pa.int16()))),
        (pa.array([{"a": 1}], pa.struct([("a", pa.int8())])), pa.array([{"a": 1}], pa.struct([("a", pa.int8())]))),
        (
            pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())),
            pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())),
        ),
        (pa.nulls(2), pa.nulls(2, pa.string())),
    ],
    ids=lambda column: str(column.type),
)
def test_values_come_back_as_they_were_or_wider(out, scratch, column, expected):
    table = pa.table({"ts": range(len(column)), "v": column})
    target = delta(out)
    target.check("out", table.schema, scratch)
    deliver(target, scratch, 0, table)
    target.check("out", table.schema, scratch)  # its own table fits
    found = read(out)["v"].combine_chunks()
    assert found.type == expected.type
    assert repr(found.to_pylist()) == repr(expected.to_pylist())


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.duration("us"), pa.decimal256(50, 2), pa.list_(pa.time32("s"))])
def test_types_unknown_to_delta_are_refused_by_column(out, scratch, kind):
    with pytest.raises(QueryError, match="has no type for") as caught:
        delta(out).check("out", SCHEMA.append(pa.field("odd", kind)), scratch)
    assert caught.value.found == "in column odd"


def test_nanoseconds_are_kept_or_refused_never_cut(out, scratch):
    table = pa.table({"ts": pa.array([1], pa.timestamp("ns"))})
    target = delta(out)
    target.check("out", table.schema, scratch)
    with pytest.raises(QueryError, match="whole microseconds"):
        target.stage(0, 0, table, scratch)


def test_delta_types_are_their_own_delta_types():
    for kind in (pa.uint64(), pa.timestamp("s", "UTC"), pa.list_(pa.uint8()), pa.dictionary(pa.int8(), pa.string())):
        assert delta_type(delta_type(kind)) == delta_type(kind)


def test_partitions(out, scratch):
    table = pa.table(
        {
            "ts": [1, 2, 3, 4, 5],
            "k": ["b/ü =", None, "a", "b/ü =", "a"],
            "day": pa.array([dt.date(2024, 1, 1)] * 4 + [dt.date(2024, 1, 2)]),
        }
    )
    target = delta(out, partition_by=["k", "day"])
    target.check("out", table.schema, scratch)
    for _ in range(2):
        (receipt,) = stage(target, scratch, 0, table)
        target.commit(0, [receipt], scratch)
    assert [(dict(file.partition), file.rows) for file in receipt.files] == [
        ({"k": "a", "day": "2024-01-01"}, 1),
        ({"k": "a", "day": "2024-01-02"}, 1),
        ({"k": "b/ü =", "day": "2024-01-01"}, 2),
        ({"k": None, "day": "2024-01-01"}, 1),
    ]
    assert read(out).select(table.column_names) == table
    some = deltalake.DeltaTable(out).to_pyarrow_table(filters=[("k", "=", "b/ü =")])
    assert sorted(some["ts"].to_pylist()) == [1, 4]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([MOMENT], pa.timestamp("us")),
        pa.array([MOMENT], pa.timestamp("us", "UTC")),
        pa.array([True]),
        pa.array([-7], pa.int16()),
        pa.array([Decimal("1.50")], pa.decimal128(5, 2)),
    ],
    ids=lambda column: str(column.type),
)
def test_partition_values_of_any_type_come_back(out, scratch, column):
    table = pa.table({"ts": [1], "p": column})
    target = delta(out, partition_by="p")
    target.check("out", table.schema, scratch)
    deliver(target, scratch, 0, table)
    assert read(out).select(["ts", "p"]) == table


@pytest.mark.parametrize(
    ("by", "text"),
    [(["nope"], "one of ts, k"), (["ts", "k"], "all columns"), (["l"], "cannot be partitioned by 'l'")],
)
def test_partition_columns_are_checked(out, scratch, by, text):
    schema = SCHEMA if "l" not in by else SCHEMA.append(pa.field("l", pa.list_(pa.int8())))
    with pytest.raises(QueryError, match=text):
        delta(out, partition_by=by).check("out", schema, scratch)


def test_the_log_has_statistics_that_readers_can_trust(out, scratch):
    table = pa.table(
        {
            "ts": pa.array([3, None, 1], pa.int64()),
            "k": ["b", "a", "x" * 200],
            "at": pa.array([MOMENT, None, None], pa.timestamp("us", "UTC")),
            "f": [float("nan"), 1.0, 2.0],
            "none": pa.nulls(3, pa.int64()),
            "day": pa.array([dt.date(2024, 1, 2)] * 3),
        }
    )
    target = delta(out)
    target.check("out", table.schema, scratch)
    (receipt,) = stage(target, scratch, 0, table)
    assert json.loads(receipt.files[0].stats) == {
        "numRecords": 3,
        "minValues": {"ts": 1, "at": "2024-01-02T03:04:05.000006Z", "day": "2024-01-02"},
        "maxValues": {"ts": 3, "at": "2024-01-02T03:04:05.000006Z", "day": "2024-01-02"},
        "nullCount": {"ts": 1, "k": 0, "at": 2, "f": 0, "none": 3, "day": 0},
    }
    target.commit(0, [receipt], scratch)
    open_table = deltalake.DeltaTable(out)
    assert open_table.to_pyarrow_table(filters=[("ts", ">=", 3)])["k"].to_pylist() == ["b"]
    assert open_table.count() == 3


def test_other_engines_read_the_table(out, scratch):
    target = delta(out, partition_by="k")
    target.check("out", SCHEMA, scratch)
    for batch in range(3):
        deliver(target, scratch, batch, tuples(*range(batch * 10, batch * 10 + 10)))
    data = deltalake.DeltaTable(out).to_pyarrow_dataset()
    assert duckdb.arrow(data).aggregate("k, count(*), max(ts)", "k").order("k").fetchall() == [
        ("k0", 15, 28),
        ("k1", 15, 29),
    ]


@pytest.mark.parametrize("by", [[], ["k"]])
def test_small_files_are_merged_and_the_table_stays_the_same(out, scratch, by):
    target = delta(out, partition_by=by, compact=5)
    target.check("out", SCHEMA, scratch)
    before = deltalake.DeltaTable(out)
    for batch in range(23):
        deliver(target, scratch, batch, tuples(2 * batch, 2 * batch + 1))
        assert stamps(out) == list(range(2 * batch + 2))
    files = deltalake.DeltaTable(out).file_uris()
    assert len(files) <= 10
    assert len([n for n in os.listdir(out) if n.endswith(".parquet")]) > 23, "readers of an older version still read"
    assert before.to_pyarrow_table().num_rows == 0
    assert target.last_committed(scratch) == 22
    # A replay, also of a batch whose file was merged, changes nothing.
    for batch in (3, 22):
        deliver(target, scratch, batch, tuples(2 * batch, 2 * batch + 1))
    assert stamps(out) == list(range(46))
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet({files!r})").fetchall() == [(46,)]


def test_who_follows_the_table_sees_no_data_change_in_a_merge(out, scratch):
    target = delta(out, compact=3)
    target.check("out", SCHEMA, scratch)
    for batch in range(3):
        deliver(target, scratch, batch, tuples(batch))
    text = Folder(f"{out}/_delta_log").read(f"{version(out):020d}.json").to_pybytes()
    log = [json.loads(line) for line in text.splitlines()]
    changed = [entry[kind]["dataChange"] for entry in log for kind in ("add", "remove") if kind in entry]
    assert changed == [False] * 4


def test_a_table_is_left_alone_on_request(out, scratch):
    target = delta(out, compact=0)
    target.check("out", SCHEMA, scratch)
    for batch in range(6):
        deliver(target, scratch, batch, tuples(batch))
    assert len(deltalake.DeltaTable(out).file_uris()) == version(out) == 6
    with pytest.raises(QueryError, match="every so many transactions"):
        delta(out, compact=-1)


def test_the_log_does_not_grow_without_checkpoints(out, scratch):
    target = delta(out, compact=0)
    target.check("out", SCHEMA, scratch)
    for batch in range(101):
        deliver(target, scratch, batch, tuples(batch))
    assert any(name.endswith(".checkpoint.parquet") for name in os.listdir(f"{out}/_delta_log"))
    assert target.last_committed(scratch) == 100
