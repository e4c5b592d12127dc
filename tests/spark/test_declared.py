"""What the environment says about Spark, and that it wins."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from penstock.spark import session
from penstock.spark.declared import declared_settings


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))


def test_nothing_is_declared_by_itself() -> None:
    assert declared_settings() == {}


def test_options_of_spark_submit_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS",
        "--master local[3] --driver-memory=700m --conf spark.ui.enabled=true --conf 'spark.app.name=my job'"
        " -c spark.x=a=b --conf=spark.y=2 --verbose pyspark-shell",
    )
    assert declared_settings() == {
        "spark.master": "local[3]",
        "spark.driver.memory": "700m",
        "spark.ui.enabled": "true",
        "spark.app.name": "my job",
        "spark.x": "a=b",
        "spark.y": "2",
    }


def test_options_win_over_system_properties_and_those_over_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.no 1\nspark.master  spark://host:7077 \nspark.a=1\n spark.b: 1\nspark.c 1\nother 1\n"
    )
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xss4m -Dspark.b=2 -Dspark.c=2")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.c=3 pyspark-shell")
    assert declared_settings() == {
        "spark.master": "spark://host:7077",
        "spark.a": "1",
        "spark.b": "2",
        "spark.c": "3",
    }
    (tmp_path / "mine.conf").write_text("spark.mine 1\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {tmp_path}/mine.conf pyspark-shell")
    assert "spark.mine" in declared_settings()
    assert "spark.a" not in declared_settings()


def test_an_embedded_session_gets_our_settings_only_where_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.shuffle.compress true\nspark.driver.host me\n")
    ours = session._ours("local[1]", declared_settings())
    assert "spark.shuffle.compress" not in ours
    assert "spark.driver.host" not in ours
    assert ours["spark.driver.bindAddress"] == "127.0.0.1"
    assert ours["spark.app.name"] == "penstock"
    assert "spark.driver.bindAddress" not in session._ours("spark://host:7077", {})


# Sessions, each in a process of its own

QUICK_JVM = os.environ["SPARK_SUBMIT_OPTS"]
"""What the tests tell every JVM, which is nothing of Spark's settings."""

SCRIPT = """
import json, os, sys
{before}
import penstock as pk
from penstock.spark.session import get_session

net = pk.Network("submitted")
net.source("events", pk.memory([(1,)], schema={{"ts": "int64"}})).map(ts="ts + 1").output("kept")
rows = net.run()["kept"].to_pylist()
session = get_session()
context = session.sparkContext
told = dict(context.getConf().getAll())
told["rows"] = rows
told["heap"] = context._jvm.java.lang.Runtime.getRuntime().maxMemory() // 2**20
told["python"] = context.pythonExec
told["adaptive"] = session.conf.get("spark.sql.adaptive.enabled")
told["polling"] = session.conf.get("spark.sql.streaming.pollingDelay")
told["worker"] = context.parallelize([0], 1).map(lambda _: __import__("sys").executable).first()
print("TOLD " + json.dumps(told), flush=True)
"""


def _told(command: list[str], script: Path, *, before: str = "", **environment: str) -> dict[str, Any]:
    """What the session of a process says, which finds no Python of ours on its PATH."""
    script.write_text(SCRIPT.format(before=before))
    path = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if not (Path(p) / "penstock").exists())
    kept = {k: v for k, v in os.environ.items() if k not in ("PYSPARK_PYTHON", "PENSTOCK_MASTER")}
    done = subprocess.run(
        [*command, str(script)],
        env={**kept, "PATH": path, "SPARK_SUBMIT_OPTS": QUICK_JVM, **environment},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    line = next((at for at in done.stdout.splitlines() if at.startswith("TOLD ")), None)
    assert line is not None, done.stdout + done.stderr
    told: dict[str, Any] = json.loads(line.removeprefix("TOLD "))
    return told


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_what_spark_submit_says_wins(tmp_path: Path) -> None:
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    options = ["--master", "local[1]", "--driver-memory", "700m", "--conf", "spark.sql.streaming.pollingDelay=7ms"]
    told = _told(
        [submit, *options], tmp_path / "app.py", PYSPARK_DRIVER_PYTHON=sys.executable, PENSTOCK_MASTER="local[2]"
    )
    assert told["rows"] == [{"ts": 2}]
    assert told["spark.master"] == "local[1]"
    assert told["spark.driver.memory"] == "700m"
    assert 600 < told["heap"] <= 700
    assert told["spark.app.name"] == "app.py"
    assert told["polling"] == "7ms"
    assert told["spark.python.daemon.module"] == "penstock.spark.daemon"
    assert told["adaptive"] == "false", "buckets are partitions, so this one is not for others to say"
    assert told["python"] == told["worker"] == sys.executable


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_session_that_is_there_runs_the_interpreter_of_the_driver(tmp_path: Path) -> None:
    before = "from pyspark.sql import SparkSession; SparkSession.builder.master('local[1]').getOrCreate()"
    told = _told([sys.executable], tmp_path / "app.py", before=before)
    assert told["rows"] == [{"ts": 2}]
    assert told["python"] == told["worker"] == sys.executable


@pytest.mark.spark
def test_nobody_else_can_reach_the_sockets_of_the_workers(spark_ready: Any) -> None:
    """A worker unpickles what it is sent, from whoever can connect."""
    folder = Path(spark_ready.sparkContext.getConf().get("spark.python.unix.domain.socket.dir"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert spark_ready.sparkContext.parallelize([1, 2], 2).map(lambda at: at + 1).collect() == [2, 3]
    assert list(folder.glob(".*.sock"))
