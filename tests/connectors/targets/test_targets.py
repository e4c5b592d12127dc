"""Console and callback; and what all targets share: receipts, writers, replays."""

import json
import pickle

import pyarrow as pa
import pytest

from penstock.connectors.targets.callback import callback
from penstock.connectors.targets.console import console
from penstock.connectors.targets.target import Markers, Receipt, StagedFile, check_fit, enrol, writer
from penstock.errors import InternalError, QueryError, WorldError
from penstock.storage.folder import Folder

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])


def tuples(*stamps):
    return pa.table({"ts": list(stamps), "k": [f"k{ts}" for ts in stamps]}, schema=SCHEMA)


@pytest.fixture
def scratch(tmp_path):
    return Folder(str(tmp_path / "checkpoint" / "out"))


def deliver(target, scratch, batch, *parts):
    """What the outlet does with one batch: parts are staged by workers, from a pickled copy of the target."""
    worker = pickle.loads(pickle.dumps(target))
    staged = [worker.stage(batch, part, table, scratch) for part, table in enumerate(parts)]
    receipts = [Receipt.from_json(json.loads(json.dumps(one.to_json()))) for one in staged if one is not None]
    target.commit(batch, receipts, scratch)
    return receipts


def test_a_receipt_survives_json():
    receipt = Receipt(
        3, 1, (StagedFile("a", 2, 9, (("k", None), ("l", "x")), '{"numRecords": 2}'), StagedFile("b", 1, 4))
    )
    assert Receipt.from_json(json.loads(json.dumps(receipt.to_json()))) == receipt
    assert (receipt.rows, receipt.bytes) == (3, 13)


def test_a_writer_is_drawn_once_for_each_checkpoint(scratch, tmp_path):
    assert enrol("out", SCHEMA, scratch) is True
    first = writer(scratch)
    assert enrol("out", SCHEMA, scratch) is False
    assert writer(scratch) == first
    assert first.output == "out"
    scratch.delete_all()
    enrol("out", SCHEMA, scratch)
    assert writer(scratch).token != first.token, "a checkpoint begun anew at the same place is another run"


def test_staging_before_the_check_is_our_bug(scratch):
    with pytest.raises(InternalError, match="was not checked"):
        writer(scratch)


def test_a_misfit_lists_every_difference():
    wanted = pa.schema([("ts", pa.int64()), ("k", pa.int32()), ("n", pa.int64())])
    with pytest.raises(QueryError) as caught:
        check_fit("out", "the folder x", wanted, pa.schema([("k", pa.string()), ("ts", pa.int64()), ("m", pa.bool_())]))
    assert caught.value.found == "'n' (int64) is new; 'm' (bool) is missing; 'k' is int32, was string"
    assert caught.value.box == "out"


def test_the_order_of_columns_is_no_difference():
    check_fit("out", "x", SCHEMA, pa.schema(list(reversed(list(SCHEMA)))))


def test_console_prints_output_batch_and_tuples_once(scratch, capsys):
    target = console(limit=2)
    target.check("flows", SCHEMA, scratch)
    for _ in range(2):
        deliver(target, scratch, 7, tuples(1, 2), tuples(3, 4))
    printed = capsys.readouterr().out
    assert printed.count("flows, batch 7") == 1
    assert "k1" in printed
    assert "k2" in printed
    assert "k3" not in printed
    assert "and 2 more tuples" in printed


def test_console_shows_nulls_and_brackets_as_they_are(scratch, capsys):
    target = console()
    target.check("flows", SCHEMA, scratch)
    deliver(target, scratch, 0, pa.table({"ts": [None], "k": ["[red]x[/red]"]}, schema=SCHEMA))
    printed = capsys.readouterr().out
    assert "NULL" in printed
    assert "[red]x[/red]" in printed


def test_console_is_silent_without_tuples(scratch, capsys):
    target = console()
    target.check("flows", SCHEMA, scratch)
    deliver(target, scratch, 0, tuples())
    assert capsys.readouterr().out == ""


def test_callback_gets_a_batch_at_once_and_in_part_order(scratch):
    got = []
    target = callback(lambda table, batch: got.append((batch, table)))
    target.check("out", SCHEMA, scratch)
    deliver(target, scratch, 0, tuples(1), tuples(2, 3))
    deliver(target, scratch, 1, tuples())
    deliver(target, scratch, 2, tuples(4))
    assert got == [(0, tuples(1, 2, 3)), (2, tuples(4))]


def test_callback_is_not_called_again_on_replay(scratch):
    got = []
    target = callback(got.append)
    target.check("out", SCHEMA, scratch)
    receipts = deliver(target, scratch, 4, tuples(1))
    target.commit(4, receipts, scratch)  # Spark commits again
    deliver(target, scratch, 4, tuples(1))  # the whole batch runs again
    restarted = callback(got.append)
    restarted.check("out", SCHEMA, scratch)
    deliver(restarted, scratch, 4, tuples(1))
    assert got == [tuples(1)]


def test_callback_that_fails_is_named_and_called_again(scratch):
    calls = []

    def refuse(table):
        calls.append(table)
        if len(calls) == 1:
            raise ConnectionError("nobody there")

    target = callback(refuse)
    target.check("alerts", SCHEMA, scratch)
    with pytest.raises(QueryError, match="box 'alerts': the callback failed on batch 5") as caught:
        deliver(target, scratch, 5, tuples(1))
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert caught.value.found == "ConnectionError: nobody there"
    deliver(target, scratch, 5, tuples(1))
    assert calls == [tuples(1), tuples(1)]


def test_callback_leaves_no_files_behind(scratch):
    target = callback(lambda table: None)
    target.check("out", SCHEMA, scratch)
    deliver(target, scratch, 0, tuples(1), tuples(2))
    assert not [name for name in scratch.names() if name.startswith("part-")]


@pytest.mark.parametrize(
    ("function", "takes_batch"),
    [
        (lambda table: None, False),
        (lambda table, batch: None, True),
        (lambda table, number: None, True),
        (lambda table, verbose=False: None, False),
        (lambda table, batch=None: None, True),
        (lambda *arguments: None, True),
        ([].append, False),
    ],
)
def test_the_signature_says_whether_the_batch_is_wanted(function, takes_batch):
    assert callback(function).takes_batch is takes_batch


@pytest.mark.parametrize("function", [lambda: None, lambda a, b, c: None, lambda table, *, must: None])
def test_a_callback_of_another_shape_is_refused(function):
    with pytest.raises(QueryError, match="takes a table"):
        callback(function)


def test_a_callback_must_be_callable():
    with pytest.raises(QueryError, match="must be callable"):
        callback(42)


def test_the_function_stays_where_the_user_is(scratch):
    lock = __import__("threading").Lock()  # cannot be pickled
    target = callback(lambda table: lock.acquire())
    worker = pickle.loads(pickle.dumps(target))
    worker.check("out", pa.schema({"x": pa.int64()}), scratch)
    receipt = worker.stage(0, 0, pa.table({"x": [1]}), scratch)
    with pytest.raises(InternalError, match="on a worker"):
        worker.commit(0, [receipt], scratch)


def test_a_damaged_marker_is_told_by_its_name(scratch):
    markers = Markers(scratch)
    assert markers.last() == -1
    for batch in (3, 4, 9):
        markers.put(batch)
        assert markers.last() == batch
    name = "committed-00000009"
    whole = scratch.read(name).to_pybytes()
    for damage in (b"", whole[:-3], whole.replace(b"9", b"8", 1)):
        scratch.write(name, damage)
        with pytest.raises(WorldError, match=r"committed-00000009 is damaged(.|\n)*delete it"):
            markers.last()


def test_a_damaged_writer_is_told_by_its_name(scratch):
    enrol("out", SCHEMA, scratch)
    scratch.write("writer.json", b"")
    with pytest.raises(WorldError, match=r"out/writer.json is damaged(.|\n)*an empty file"):
        writer(scratch)


def test_a_marker_that_is_put_late_leaves_a_newer_one_alone(scratch):
    markers = Markers(scratch)
    markers.put(5)
    markers.put(4)
    assert markers.last() == 5
