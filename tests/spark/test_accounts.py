"""Refused records, limits and broken promises on Spark: as on the local executor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as pk
from penstock.runtime.work import InputCount

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_ready")]

ROWS: list[Any] = [(3, "a"), (9, "a"), ("x", "a"), (7, "a"), (12, "a"), (4, "a"), (15, "a"), (16, "a")]


def network(**options: Any) -> pk.Network:
    net = pk.Network("net")
    source = net.source("in", pk.memory(ROWS, schema={"ts": "int64", "k": "string"}, train=2), **options)
    source.aggregate({"n": "count(*)"}, size=5, by="k").output("counts")
    net.source("quiet", pk.memory([], schema={"ts": "int64"})).output("quiet")
    return net


def test_the_record_is_that_of_the_local_executor_and_status_tells(tmp_path: Path) -> None:
    with pytest.warns(pk.PromiseWarning, match="input 'in' is out of order, and no progress= was given"):
        local = network().run("local", tasks=2)
    run = network().start(checkpoint=str(tmp_path / "run"))
    run.wait_for(lambda record: record.inputs["quiet"] == InputCount())  # before the first batch, too
    run.wait()
    status = run.status()
    assert run.result.record().disorder == local.record().disorder
    assert run.result.record().refusals == local.record().refusals
    assert status["refused"] == local.refused()
    (promise,) = status["promises"]
    assert (promise["largest"], promise["bound"], promise["suggestion"]) == (8, 0, "progress=pk.delayed(8)")
    assert run.promises() == local.promises()


def test_a_limit_ends_a_run_and_a_wider_one_goes_on(tmp_path: Path) -> None:
    options: dict[str, Any] = {"checkpoint": str(tmp_path / "run")}
    net = network(progress=pk.ordered())
    with pytest.raises(pk.WorldError, match="box 'in': 1 of 4 tuples were late, more than max_late allows") as ended:
        net.run(max_late=0, **options)
    assert ended.value.found is not None
    assert "progress=pk.delayed(2) would be kept" in ended.value.found
    kept = net.look(options["checkpoint"]).record()
    assert (kept.batch, kept.inputs["in"].late) == (1, 1)
    with pytest.raises(pk.WorldError, match="1 of 4 tuples were late"):
        net.start(max_late=0, **options)
    result = net.run(max_late=2, **options)
    assert result.record().inputs["in"] == InputCount(read=8, taken=5, late=2, refused=1)
    assert result["counts"].sort_by("ts").equals(network().run("local")["counts"].sort_by("ts"))


def test_a_dataframe_is_measured_against_the_batches_before(tmp_path: Path, data: Path) -> None:
    from penstock.spark.session import get_session

    for name, times in (("1", [5, 9]), ("2", [6, 12])):
        pq.write_table(pa.table({"ts": pa.array(times, pa.int64())}), data / f"{name}.parquet")
    frames = get_session(None).readStream.schema("ts long").option("maxFilesPerTrigger", 1).parquet(str(data))
    net = pk.Network("net")
    net.source("in", pk.dataframe(frames), progress=pk.ordered()).output("out")
    run = net.start(checkpoint=str(tmp_path / "run"))
    try:
        record = run.wait_for(lambda record: record.inputs["in"].read == 4)
    finally:
        run.stop()
    assert record.inputs["in"].late == 1
    (promise,) = run.promises()
    assert (promise.largest, promise.suggestion) == (3, "progress=pk.delayed(3)")
