"""Links that come, fail, are closed by hand and return, on Spark; and what `why` and `trace` tell of them."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import penstock as pk
from penstock.cli.main import app
from penstock.errors import QueryError
from penstock.runtime.board import Record

SCHEMA = {"ts": "int64"}
APPLICATION = """
import penstock as pk
net = pk.Network("links")
links = net.source(
    "links", pk.files("{folder}/links/*/*.parquet", follow=True, lanes="folder"), schema={{"ts": "int64"}},
    overdue="2 seconds",
)
control = net.source(
    "control", pk.files("{folder}/control/*.parquet", follow=True), schema={{"ts": "int64"}},
    progress=pk.heartbeat(every="200 ms", unit="s"),
)
pk.union(links, control).aggregate({{"n": "count(*)"}}, size=10, name="counts").output("counts")
"""


def deliver(folder: Path, *seconds: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{time.monotonic_ns()}"
    pq.write_table(pa.table({"ts": pa.array(seconds, pa.int64())}), hidden)
    hidden.rename(folder / f"{hidden.name[1:]}.parquet")


def command(name: str, application: Path, checkpoint: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, [name, str(application), *arguments, "--checkpoint", str(checkpoint)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.spark
@pytest.mark.usefixtures("spark_ready")
def test_a_link_fails_is_closed_by_hand_and_returns(tmp_path: Path) -> None:
    application, checkpoint = tmp_path / "app.py", tmp_path / "checkpoint"
    application.write_text(APPLICATION.format(folder=tmp_path))
    (tmp_path / "control").mkdir()
    deliver(tmp_path / "links" / "east", 1, 5, 11)
    deliver(tmp_path / "links" / "west", 2, 3)
    scope: dict[str, pk.Network] = {}
    exec(application.read_text(), scope)
    run = scope["net"].start(checkpoint=str(checkpoint))

    def counted(rows: int) -> Record:
        return run.wait_for(lambda r: "links" in r.inputs and r.inputs["links"].read == rows, 60)

    try:
        counted(5)
        run.wait_for(lambda record: bool(record.traces), 30)
        # Control is silent and speaks by heartbeats: the window waits for the link that is behind, and for it alone.
        assert [w.culprits for w in run.waiting()] == [(("links", "west"),)]
        time.sleep(2.1)
        assert {f.shard for f in run.failures()} == {"east", "west"}
        said = command("why", application, checkpoint)
        assert "waits for input 'links', shard 'west', which stands at 3" in said
        assert "shard 'west' of input 'links' has failed" in said
        with pytest.raises(QueryError, match="no open shard 'north'"):
            run.close_shard("links", "north")

        run.close_shard("links", "west")
        run.wait_for(lambda record: record.outputs["counts"] == 1, 30)
        assert run.read("counts").to_pylist() == [{"ts": 0, "n": 4}]
        assert "it was closed, and nobody waits for it" in command("why", application, checkpoint)
        assert set(run.progress()["links"]) == {"", "east"}

        # It returns: the input stands at 11, so 9 is late, and the link holds windows back again.
        deliver(tmp_path / "links" / "west", 9, 12, 30)
        counted(8)
        assert run.result.late("links")["ts"].to_pylist() == [9]
        assert {f.shard for f in run.failures()} == {"east"}
        assert run.progress()["links"]["west"] == {"ts": 30}

        # A link that nobody knew of, below and above where the input stands.
        deliver(tmp_path / "links" / "north", 10, 13)
        counted(10)
        assert run.result.late("links")["ts"].to_pylist() == [9, 10]

        trace = run.traces()[-1]
        assert (trace.kind, trace.input) == ("heartbeat", "control")
        assert [hop.place for hop in trace.hops] == ["intake", "counts", "outlet"]
        moments = [moment for hop in trace.hops for moment in (hop.arrived, hop.left)]
        assert moments == sorted(moments)
        assert trace.made <= moments[0]
        shown = command("trace", application, checkpoint)
        assert "heartbeat" in shown
        assert "selectivity" in shown

        # The one that is furthest behind now is closed from the command line: [10, 20) leaves, at the mark of west.
        deliver(tmp_path / "links" / "north", 25)
        run.wait_for(lambda record: record.inputs["links"].read == 11, 60)
        assert [w.culprits for w in run.waiting()] == [(("links", "east"),)]
        assert "is closed with the next batch" in command("close", application, checkpoint, "links", "east")
        run.wait_for(lambda record: record.outputs["counts"] == 2, 30)
        assert run.read("counts").to_pylist() == [{"ts": 0, "n": 4}, {"ts": 10, "n": 3}]
    finally:
        run.stop()
