"""Folders of part files: what readers see, when, and what replays do to it."""

import datetime as dt
import json
import os
import pickle

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from penstock.connectors.targets.part_files import csv, jsonl, parquet
from penstock.errors import QueryError, WorldError
from penstock.storage.folder import Folder

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])
EVERY = pytest.mark.parametrize("make", [parquet, csv, jsonl])


def tuples(*stamps):
    return pa.table({"ts": list(stamps), "k": [f"k{ts}" for ts in stamps]}, schema=SCHEMA)


@pytest.fixture
def out(tmp_path):
    return str(tmp_path / "out")


@pytest.fixture
def scratch(tmp_path):
    return Folder(str(tmp_path / "checkpoint" / "out"))


def stage(target, scratch, batch, *parts):
    worker = pickle.loads(pickle.dumps(target))
    staged = [worker.stage(batch, part, table, scratch) for part, table in enumerate(parts)]
    return [one for one in staged if one is not None]


def visible(out):
    return sorted(name for name in os.listdir(out) if not name.startswith(("_", ".")))


def stamps(out):
    """All the ts values that readers see, in order of file names."""
    found = []
    for name in visible(out):
        path = f"{out}/{name}"
        if name.endswith(".parquet"):
            found += pq.read_table(path)["ts"].to_pylist()
        else:
            found += [row[0] for row in duckdb.sql(f"SELECT ts FROM '{path}'").fetchall()]
    return found


@EVERY
def test_nothing_is_visible_before_the_commit(make, out, scratch):
    target = make(out)
    target.check("out", SCHEMA, scratch)
    receipts = stage(target, scratch, 0, tuples(1), tuples(2))
    assert visible(out) == []
    assert ds.dataset(out, format="parquet").files == []
    target.commit(0, receipts, scratch)
    assert stamps(out) == [1, 2]


@EVERY
def test_names_follow_batch_and_part(make, out, scratch):
    target = make(out)
    target.check("out", SCHEMA, scratch)
    for batch in (9, 10, 100):
        target.commit(batch, stage(target, scratch, batch, tuples(batch), tuples(), tuples(batch + 1)), scratch)
    assert [name[:18] for name in visible(out)] == [
        f"part-{batch:08d}-{part:04d}" for batch in (9, 10, 100) for part in (0, 2)
    ]
    assert stamps(out) == [9, 10, 10, 11, 100, 101]


@EVERY
def test_a_batch_staged_and_committed_again_appears_once(make, out, scratch):
    target = make(out)
    target.check("out", SCHEMA, scratch)
    receipts = stage(target, scratch, 3, tuples(1), tuples(2))
    target.commit(3, receipts, scratch)
    target.commit(3, receipts, scratch)
    assert stage(target, scratch, 3, tuples(1), tuples(2)) == receipts
    target.commit(3, receipts, scratch)
    assert stamps(out) == [1, 2]
    assert os.listdir(f"{out}/_staging") == []


@EVERY
def test_a_crash_in_the_middle_of_a_commit_loses_and_doubles_nothing(make, out, scratch):
    target = make(out)
    target.check("out", SCHEMA, scratch)
    receipts = stage(target, scratch, 0, tuples(1), tuples(2))
    (first,) = receipts[0].files
    os.rename(f"{out}/_staging/{first.name}.staged", f"{out}/{first.name}")  # as far as the commit came
    restarted = make(out)
    restarted.check("out", SCHEMA, scratch)
    restarted.commit(0, stage(restarted, scratch, 0, tuples(1), tuples(2)), scratch)
    assert stamps(out) == [1, 2]


@EVERY
def test_what_an_earlier_life_staged_is_cleared(make, out, scratch):
    target = make(out)
    target.check("out", SCHEMA, scratch)
    stage(target, scratch, 0, tuples(1), tuples(2), tuples(3))  # lost: the batch was then cut into two parts
    target.commit(0, stage(target, scratch, 0, tuples(1), tuples(2, 3)), scratch)
    assert stamps(out) == [1, 2, 3]
    assert os.listdir(f"{out}/_staging") == []


@EVERY
def test_files_that_a_consumer_took_away_do_not_come_back(make, out, scratch):
    target = make(out)
    target.check("out", SCHEMA, scratch)
    receipts = stage(target, scratch, 0, tuples(1))
    target.commit(0, receipts, scratch)
    os.unlink(f"{out}/{visible(out)[0]}")
    target.commit(0, receipts, scratch)
    target.commit(0, stage(target, scratch, 0, tuples(1)), scratch)
    assert visible(out) == []


@EVERY
def test_a_new_run_refuses_a_folder_that_holds_parts(make, out, scratch, tmp_path):
    target = make(out)
    target.check("out", SCHEMA, scratch)
    target.commit(0, stage(target, scratch, 0, tuples(1)), scratch)
    target.check("out", SCHEMA, scratch)  # a restart is welcome
    with pytest.raises(QueryError, match="already holds 1 part files") as caught:
        target.check("out", SCHEMA, Folder(str(tmp_path / "another")))
    assert "mode='append'" in str(caught.value)


@EVERY
def test_runs_that_append_do_not_overwrite_each_other(make, out, scratch, tmp_path):
    for number, place in enumerate((scratch, Folder(str(tmp_path / "another")))):
        target = make(out, mode="append")
        target.check("out", SCHEMA, place)
        target.commit(0, stage(target, place, 0, tuples(number)), place)
    assert sorted(stamps(out)) == [0, 1]


@EVERY
def test_a_checkpoint_begun_anew_is_another_run(make, out, scratch):
    for _ in range(2):
        target = make(out, mode="append")
        target.check("out", SCHEMA, scratch)
        target.commit(0, stage(target, scratch, 0, tuples(1)), scratch)
        scratch.delete_all()
    assert stamps(out) == [1, 1]


@EVERY
def test_a_place_that_cannot_be_written_is_refused_at_the_start(make, tmp_path, scratch):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below", "/proc/penstock"):
        with pytest.raises(WorldError) as caught:
            make(str(path)).check("flows", SCHEMA, scratch)
        assert str(path) in caught.value.what
        assert caught.value.found
        assert caught.value.box == "flows"


def test_parquet_in_another_schema_is_refused(out, scratch, tmp_path):
    target = parquet(out)
    target.check("out", SCHEMA, scratch)
    target.commit(0, stage(target, scratch, 0, tuples(1)), scratch)
    with pytest.raises(QueryError, match=r"'n' \(int64\) is new"):
        parquet(out, mode="append").check("out", SCHEMA.append(pa.field("n", pa.int64())), Folder(str(tmp_path / "b")))


def test_parquet_keeps_arrow_types(out, scratch):
    table = pa.table(
        {
            "u": pa.array([2**64 - 1], pa.uint64()),
            "naive": pa.array([1], pa.timestamp("ns")),
            "zoned": pa.array([1], pa.timestamp("ms", "Europe/Paris")),
            "nested": pa.array([[{"a": 1}]], pa.list_(pa.struct([("a", pa.int8())]))),
        }
    )
    target = parquet(out)
    target.check("out", table.schema, scratch)
    target.commit(0, stage(target, scratch, 0, table), scratch)
    assert pq.read_table(out) == table


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", None])
def test_parquet_is_compressed_as_told(out, scratch, compression):
    target = parquet(out, compression=compression)
    target.check("out", SCHEMA, scratch)
    target.commit(0, stage(target, scratch, 0, tuples(*range(1000))), scratch)
    (name,) = visible(out)
    found = pq.read_metadata(f"{out}/{name}").row_group(0).column(0).compression
    assert found == (compression or "uncompressed").upper()


@pytest.mark.parametrize(("compression", "suffix"), [(None, ".csv"), ("gzip", ".csv.gz"), ("zstd", ".csv.zst")])
def test_csv_round_trip(out, scratch, compression, suffix):
    table = pa.table({"ts": [1, None], "k": ['say "hi",\nthere', ""], "f": [0.1, None]})
    target = csv(out, compression=compression)
    target.check("out", table.schema, scratch)
    target.commit(0, stage(target, scratch, 0, table), scratch)
    (name,) = visible(out)
    assert name.endswith(suffix)
    options = pacsv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    parsing = pacsv.ParseOptions(newlines_in_values=True)
    with pa.input_stream(f"{out}/{name}", compression=compression) as file:
        assert pacsv.read_csv(file, parse_options=parsing, convert_options=options) == table


def test_csv_header_and_times(out, scratch):
    table = pa.table(
        {
            "naive": pa.array([dt.datetime(2024, 1, 2, 3, 4, 5, 6)], pa.timestamp("us")),
            "zoned": pa.array([0], pa.timestamp("s", "Europe/Paris")),
        }
    )
    for header in (True, False):
        target = csv(f"{out}/{header}", header=header)
        place = scratch.child(str(header))
        target.check("out", table.schema, place)
        target.commit(0, stage(target, place, 0, table), place)
        (name,) = visible(f"{out}/{header}")
        with open(f"{out}/{header}/{name}") as file:
            lines = file.read().splitlines()
        assert lines == ['"naive","zoned"'] * header + ["2024-01-02 03:04:05.000006,1970-01-01 00:00:00Z"]


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (csv, pa.list_(pa.int64())),
        (csv, pa.binary()),
        (csv, pa.struct([("a", pa.int64())])),
        (jsonl, pa.binary()),
        (jsonl, pa.list_(pa.large_binary())),
    ],
)
def test_types_that_text_cannot_hold_are_refused_at_the_start(make, kind, out, scratch):
    with pytest.raises(QueryError, match=r"cannot hold these columns(.|\n)*'bad' is"):
        make(out).check("out", pa.schema([("ts", pa.int64()), ("bad", kind)]), scratch)


def lines_of(table, out, scratch, **options):
    target = jsonl(out, **options)
    target.check("out", table.schema, scratch)
    target.commit(0, stage(target, scratch, 0, table), scratch)
    (name,) = visible(out)
    compression = {"gz": "gzip", "zst": "zstd"}.get(name.rsplit(".")[-1])
    with pa.input_stream(f"{out}/{name}", compression=compression) as file:
        return file.read().decode().splitlines()


def test_json_lines_hold_every_kind_of_value(out, scratch):
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 6)
    table = pa.table(
        {
            "n": pa.array([2**63, None], pa.uint64()),
            "N": pa.array(['a "quote"\nand é', None]),
            "it's": pa.array([True, None]),
            "f": pa.array([float("nan"), -0.5]),
            "naive": pa.array([moment, None], pa.timestamp("us")),
            "zoned": pa.array([moment, None], pa.timestamp("ms", "Europe/Paris"), safe=False),
            "day": pa.array([dt.date(2024, 1, 2), None]),
            "list": pa.array([[1, None], None], pa.list_(pa.int8())),
            "times": pa.array([[moment, None], []], pa.list_(pa.timestamp("us"))),
            "struct": pa.array(
                [{"at": moment, "x": None}, None], pa.struct([("at", pa.timestamp("s")), ("x", pa.int8())])
            ),
            "word": pa.array(["p", None]).dictionary_encode(),
            "nothing": pa.nulls(2),
        }
    )
    first, second = map(json.loads, lines_of(table, out, scratch))
    assert first == {
        "n": 2**63,
        "N": 'a "quote"\nand é',
        "it's": True,
        "f": None,
        "naive": "2024-01-02T03:04:05.000006",
        "zoned": "2024-01-02T03:04:05.000Z",
        "day": "2024-01-02",
        "list": [1, None],
        "times": ["2024-01-02T03:04:05.000006", None],
        "struct": {"at": "2024-01-02T03:04:05", "x": None},
        "word": "p",
        "nothing": None,
    }
    assert second == dict.fromkeys(first) | {"f": -0.5, "times": []}


def test_json_lines_of_a_slice_are_those_of_its_rows(out, scratch):
    nested = pa.array([[i, i + 1] if i % 3 else None for i in range(10)], pa.list_(pa.timestamp("s")))
    table = pa.table({"ts": range(10), "l": nested}).slice(4, 3)
    expected = [{"ts": 4, "l": ["1970-01-01T00:00:04", "1970-01-01T00:00:05"]}]
    expected += [{"ts": 5, "l": ["1970-01-01T00:00:05", "1970-01-01T00:00:06"]}, {"ts": 6, "l": None}]
    assert [json.loads(line) for line in lines_of(table, out, scratch)] == expected


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
def test_many_json_lines_keep_their_order(out, scratch, compression):
    table = pa.table({"ts": range(300_000)})
    lines = lines_of(table, out, scratch, compression=compression)
    assert lines == [f'{{"ts":{ts}}}' for ts in range(300_000)]


@EVERY
def test_options_are_checked_when_they_are_given(make, out):
    with pytest.raises(QueryError, match="unknown compression 'rar'"):
        make(out, compression="rar")
    with pytest.raises(QueryError, match="unknown mode 'overwrite'"):
        make(out, mode="overwrite")
