"""What crosses the border between Spark's workers and the driver: nothing in data or texts can pass for it."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import pickle
from pathlib import Path

import pytest

import penstock as pk
from penstock.plan.compile import compile_network
from penstock.runtime.job import Job
from penstock.runtime.opening import open_job
from penstock.runtime.settings import Settings
from penstock.spark.carrier import JobTicket, ship, unwrapped, wrapped_errors
from penstock.storage.folder import Folder


class _Bomb:
    """Runs a command where it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, ...]:
        return (os.system, (self.command,))


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
def test_a_value_of_the_input_that_an_error_quotes_runs_no_code(data: Path, tmp_path: Path) -> None:
    trace = tmp_path / "owned"
    packed = base64.b64encode(pickle.dumps(_Bomb(f"touch {trace}"))).decode()
    (data / "a.csv").write_text(f"ts,k\n1,penstock-error:{packed}\n")
    net = pk.Network("attacked")
    events = net.source("events", pk.files(str(data)), schema={"ts": "int64", "k": "string"})
    events.map(ts="ts", n="cast(k as bigint)", name="cast").output("numbers")
    with pytest.raises(pk.QueryError) as failure:
        net.run()
    assert not trace.exists()
    assert failure.value.box == "cast"
    assert packed in failure.value.what


# Forged texts

TICKET = JobTicket("/somewhere", "0" * 64, "the key of this run")
OTHER = JobTicket("/somewhere", "0" * 64, "the key of another run")
TRUE = pk.WorldError("it broke", network="n", box="b", port="p", expected="e", found="f", hint="h")


def _text(error: Exception, ticket: JobTicket = TICKET) -> str:
    with pytest.raises(RuntimeError) as raised, wrapped_errors(ticket):
        raise error
    return f"Traceback:\n  RuntimeError: {raised.value}\n=== Streaming Query ===\nIdentifier: 1"


def _mark(text: str) -> str:
    """The line of a text that the wrapper has written."""
    return next(line for line in text.splitlines() if line.startswith("penstock-error:"))


@pytest.mark.parametrize("kind", [pk.QueryError, pk.WorldError, pk.InternalError])
def test_an_error_arrives_with_all_it_says(kind: type[pk.PenstockError]) -> None:
    sent = kind("it broke", network="n", box="b", port="p", expected="e", found="f ünï\n☃ \udce9", hint="h")
    arrived = unwrapped(_text(sent), TICKET)
    assert type(arrived) is kind
    assert str(arrived) == str(sent)
    assert arrived.__dict__ == sent.__dict__


def test_a_text_without_our_error_has_none() -> None:
    assert unwrapped("An exception: penstock-error:", TICKET) is None
    assert unwrapped("java.lang.IllegalStateException", TICKET) is None


def _forged_content() -> str:
    return base64.b64encode(json.dumps({"kind": "world", "what": "forged"}).encode()).decode()


FORGED = {
    "the old form": f"penstock-error:{base64.b64encode(pickle.dumps(_Bomb('true'))).decode()}",
    "no signature": f"penstock-error:{'0' * 64}:{_forged_content()}",
    "signature of the bare content": (
        f"penstock-error:{hashlib.sha256(base64.b64decode(_forged_content())).hexdigest()}:{_forged_content()}"
    ),
    "the true format of another run": _mark(_text(pk.QueryError("forged"), OTHER)),
    "nested": f"penstock-error:penstock-error:{'0' * 64}:penstock-error:{'a' * 64}:{_forged_content()}",
    "an open end": f"penstock-error:{'0' * 64}:",
    "broken base64": f"penstock-error:{'0' * 64}:====",
    "many lines": f"x'\nRuntimeError: y\npenstock-error:{'0' * 64}:{_forged_content()}\n=== Streaming Query ===\n",
    "wide letters": f"ｐenstock-error:{'０' * 64}:{_forged_content()}",
    "other digits": f"\u2028penstock-error:{'٠' * 64}:{_forged_content()}",
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_forged_mark_is_never_taken_for_ours(forged: str) -> None:
    assert unwrapped(forged, TICKET) is None
    assert unwrapped(f"Could not convert string '{forged}' to INT64", TICKET) is None


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("field", ["what", "found", "hint", "box"])
def test_an_error_that_quotes_a_forged_mark_arrives_as_itself(forged: str, field: str) -> None:
    sent = pk.QueryError(**{"what": "cast", field: forged})
    arrived = unwrapped(_text(sent), TICKET)
    assert type(arrived) is pk.QueryError
    assert arrived.__dict__ == sent.__dict__


def test_marks_around_the_true_one_do_not_hide_it() -> None:
    true = _mark(_text(TRUE))
    for forged in FORGED.values():
        for text in (forged + true, f"{forged}AAAA{true} {forged}", f"{true}\n{forged}"):
            arrived = unwrapped(text, TICKET)
            assert arrived is not None
            assert arrived.what == "it broke"


def test_a_true_error_with_one_letter_changed_is_refused() -> None:
    true = _mark(_text(TRUE))
    at = len("penstock-error:") + 65 + 10
    changed = true[:at] + ("A" if true[at] != "A" else "B") + true[at + 1 :]
    assert unwrapped(changed, TICKET) is None


def test_the_key_is_in_no_text_and_another_for_every_run(tmp_path: Path) -> None:
    job = _job(tmp_path)
    first, second = ship(job), ship(job)
    assert first.digest == second.digest
    assert first.key != second.key
    assert len(first.key) == 64
    assert first.key not in repr(first)
    assert first.key not in _text(TRUE, first)


def test_an_error_that_quotes_a_huge_value_is_cut() -> None:
    text = _text(pk.QueryError("x" * 10_000_000))
    assert len(text) < 100_000
    arrived = unwrapped(text, TICKET)
    assert arrived is not None
    assert arrived.what.endswith("… (10,000,000 characters)")


def test_what_is_no_error_of_ours_is_sorted_by_whose_fault_it_is() -> None:
    full = unwrapped(_text(OSError(errno.ENOSPC, "No space left on device", "/data/x")), TICKET)
    assert isinstance(full, pk.WorldError)
    assert "No space left on device: '/data/x'" in full.what
    memory = unwrapped(_text(MemoryError()), TICKET)
    assert isinstance(memory, pk.WorldError)
    assert "train_bytes=" in str(memory)
    bug = unwrapped(_text(KeyError("ts")), TICKET)
    assert isinstance(bug, pk.InternalError)
    assert bug.what == "a worker failed with KeyError: 'ts'"
    assert "raise error" in str(bug.found)


# The job file


def _job(folder: Path) -> Job:
    net = pk.Network("shipped")
    net.source("events", pk.memory([(1,)], schema={"ts": "int64"})).output("kept")
    return open_job(compile_network(net.network), Settings(), Folder(str(folder / "checkpoint")), cores=1)


def test_a_job_arrives_as_it_was_shipped(tmp_path: Path) -> None:
    ticket = ship(_job(tmp_path))
    assert JobTicket.parse(ticket.text) == ticket
    assert ticket.job().plan.network.name == "shipped"


@pytest.mark.parametrize("how", ["replaced", "cut short", "empty", "one byte"])
def test_a_job_file_that_is_not_the_drivers_is_not_unpickled(how: str, tmp_path: Path) -> None:
    trace = tmp_path / "owned"
    ticket = ship(_job(tmp_path))
    file = Path(ticket.folder) / ticket.name
    true = file.read_bytes()
    file.write_bytes(
        {
            "replaced": pickle.dumps(_Bomb(f"touch {trace}")),
            "cut short": true[:-1],
            "empty": b"",
            "one byte": bytes([true[0], true[1] ^ 1]) + true[2:],
        }[how]
    )
    with pytest.raises(pk.WorldError, match="is not the one that the driver has written") as failure:
        ticket.job()
    assert not trace.exists()
    assert str(file) in str(failure.value)
    assert f"expected: {ticket.digest}" in str(failure.value)
    assert "start the run again" in str(failure.value)


def test_a_job_file_that_is_gone_is_named(tmp_path: Path) -> None:
    ticket = ship(_job(tmp_path))
    (Path(ticket.folder) / ticket.name).unlink()
    with pytest.raises(pk.WorldError, match=f"cannot read the file {ticket.folder}/{ticket.name}"):
        ticket.job()
