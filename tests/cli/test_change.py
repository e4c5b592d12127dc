"""`penstock change` and `penstock versions`: a run is changed from outside while it runs on Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import penstock as pk
from penstock.cli.application import load
from penstock.cli.main import app
from penstock.storage.signing import is_signed, key_file, sign

APPLICATION = """
import penstock as pk

net = pk.Network("sensors")
readings = net.source("readings", pk.files({data!r}, follow=True), schema={{"ts": "int64", "v": "int64"}})
readings.aggregate({{"n": "count(*)"}}, on="ts", size={size}, name="counts").output("counts")
{more}
"""
HIGHEST = "readings.aggregate({'m': 'max(v)'}, on='ts', size=10, name='highest').output('highest')"


def _application(folder: Path, name: str, data: Path, *, size: int = 10, more: str = "") -> str:
    file = folder / f"{name}.py"
    file.write_text(APPLICATION.format(data=str(data), size=size, more=more))
    return str(file)


def _say(data: Path, number: int) -> None:
    lines = [json.dumps({"ts": number * 10 + i, "v": i}) for i in range(10)]
    (data / f".{number}").write_text("\n".join(lines) + "\n")
    (data / f".{number}").rename(data / f"{number}.jsonl")


def _penstock(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def _text(result: Result) -> str:
    return re.sub(r"[\s│┃]+", " ", result.output)


@pytest.mark.spark
def test_a_run_is_changed_from_outside(tmp_path: Path, data: Path, spark_ready: object) -> None:
    checkpoint = str(tmp_path / "run")
    first = _application(tmp_path, "first", data)
    second = _application(tmp_path, "second", data, more=HIGHEST)
    third = _application(tmp_path, "third", data, size=20, more=HIGHEST)
    _say(data, 0)
    run = load(Path(first), None).start(checkpoint=checkpoint)
    try:
        run.wait_for(lambda record: record.batch >= 0)
        changed = _penstock("change", second, "--checkpoint", checkpoint)
        assert changed.exit_code == 0, changed.output
        assert "version 2 of the network runs since batch 1: new: box highest, output highest" in _text(changed)
        assert "the run has this network already" in _text(_penstock("change", second, "--checkpoint", checkpoint))

        refused = _penstock("change", third, "--checkpoint", checkpoint)
        assert refused.exit_code == 2
        assert "the change would lose what parts of the network hold" in _text(refused)
        assert "discard=['counts']" in _text(refused)
        discarded = _penstock("change", third, "--checkpoint", checkpoint, "--discard", "counts")
        assert "version 3 of the network runs since batch 2: changed and begun anew: box counts" in _text(discarded)
        for number in (1, 2, 3):
            _say(data, number)
        run.wait_for(lambda record: record.inputs["readings"].read == 40)
        with pytest.raises(pk.QueryError, match="inputs that are Spark DataFrames cannot come or go"):
            _with_a_frame(run, spark_ready, data)
    finally:
        result = run.stop()
    assert [(row["ts"], row["m"]) for row in result["highest"].to_pylist()] == [(10, 9), (20, 9)]
    # The window that was open at the change begins anew, with what comes after it.
    assert [(row["ts"], row["n"]) for row in result["counts"].to_pylist()] == [(0, 10)]
    assert [version.batch for version in run.versions()] == [0, 1, 2]

    shown = _text(_penstock("versions", third, "--checkpoint", checkpoint))
    assert "new: box highest, output highest" in shown
    assert "changed and begun anew: box counts" in shown
    nobody = _penstock("change", first, "--checkpoint", checkpoint)
    assert nobody.exit_code == 2
    assert "no run uses the checkpoint" in _text(nobody)


def _with_a_frame(run: pk.Run, session: object, data: Path) -> None:
    net = pk.Network("sensors")
    frame = session.readStream.schema("ts long, v long").json(str(data))  # type: ignore[attr-defined]
    net.source("readings", pk.dataframe(frame), on="ts", progress=pk.ordered()).output("copy")
    run.change(net, discard=["readings"])


def test_a_run_that_does_not_exist_is_told_of(tmp_path: Path, data: Path) -> None:
    first = _application(tmp_path, "first", data)
    for command in ("change", "versions"):
        told = _penstock(command, first, "--checkpoint", str(tmp_path / "nothing"))
        assert told.exit_code == 2
        assert "there is no run in" in _text(told)


def test_a_key_is_made_for_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_KEY")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    signature = sign("a purpose", b"content")
    assert key_file() == tmp_path / "config" / "penstock" / "key"
    assert key_file().stat().st_mode & 0o777 == 0o600
    assert is_signed("a purpose", b"content", signature)
    assert not is_signed("another purpose", b"content", signature)
    assert not is_signed("a purpose", b"other content", signature)
    key_file().chmod(0o640)
    with pytest.raises(pk.WorldError, match="is not for this user alone"):
        sign("a purpose", b"content")
