"""The archive of classes that the embedded JVM starts from: where it is, who makes it, and that nothing needs it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from penstock.errors import WorldError
from penstock.spark import archive_builder, class_archive, session
from penstock.spark.class_archive import ClassArchive

RUNNING = """
import penstock as pk

net = pk.Network("net")
net.source("in", pk.memory([(1, 2)], schema={"ts": "int64", "v": "int64"})).output("out")
print(net.run()["out"].to_pylist())
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, in which archives may be."""
    for name in (class_archive.VARIABLE, "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def archive(cache: Path) -> ClassArchive:
    found = class_archive.class_archive()
    assert found is not None
    return found


def trained(archive: ClassArchive, option: str) -> str:
    """As if a JVM had run with this option."""
    name, _, file = option.partition("=")
    if name == "-XX:ArchiveClassesAtExit":
        Path(file).write_bytes(b"classes")
    else:
        assert Path(file).read_bytes() == b"classes"
    return ""


# Where it is


def test_its_folder_is_the_users_alone_and_has_a_home_of_spark(cache: Path, archive: ClassArchive) -> None:
    assert archive.folder.parent == cache / "penstock"
    assert archive.folder.stat().st_mode & 0o777 == 0o700
    assert (archive.home / "bin" / "spark-submit").exists()
    assert (archive.home / "python" / "lib" / "pyspark.zip" / "pyspark" / "__init__.py").exists()
    assert class_archive.class_archive() == archive
    assert {at.name for at in archive.folder.iterdir()} == {"home"}


def test_another_java_has_another_archive(
    archive: ClassArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java"
    (java / "bin").mkdir(parents=True)
    (java / "bin" / "java").touch()
    (java / "release").write_text('IMPLEMENTOR="me"\nJAVA_VERSION="21.0.9"\n')
    monkeypatch.setenv("JAVA_HOME", str(java))
    other = class_archive.class_archive()
    assert other is not None
    assert "-java-21.0.9-" in other.folder.name
    (java / "release").write_text('IMPLEMENTOR="you"\nJAVA_VERSION="21.0.9"\n')
    another = class_archive.class_archive()
    assert another is not None
    assert len({archive.folder, other.folder, another.folder}) == 3


def test_there_is_none_where_it_cannot_be_or_is_not_wanted(
    cache: Path, archive: ClassArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_with(name: str, value: object) -> bool:
        with monkeypatch.context() as changed:
            changed.setenv(name, str(value))
            return class_archive.class_archive() is None

    (tmp_path / "file").touch()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").touch()
    assert none_with(class_archive.VARIABLE, "off")
    assert none_with("SPARK_HOME", tmp_path)
    assert none_with("SPARK_CONF_DIR", tmp_path / "conf")
    assert none_with("JAVA_HOME", tmp_path)
    assert none_with("XDG_CACHE_HOME", tmp_path / "file")
    assert none_with("XDG_CACHE_HOME", tmp_path / "a:b")
    assert none_with("XDG_CACHE_HOME", "cache")
    assert class_archive.class_archive() == archive
    for folder in (archive.folder, archive.folder.parent):
        folder.chmod(0o777)
        assert class_archive.class_archive() is None
        folder.chmod(0o700)


# Who makes it


def test_it_is_there_when_another_jvm_has_started_from_it(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_builder, "_train", trained)
    assert (archive.options, archive.is_settled) == ("", False)
    archive_builder.build(archive)
    assert archive.file.read_bytes() == b"classes"
    assert archive.options.startswith(f'"-XX:SharedArchiveFile={archive.file}"')
    assert archive.is_settled


@pytest.mark.parametrize("option", ["-XX:ArchiveClassesAtExit", "-XX:SharedArchiveFile"])
def test_a_failure_is_written_down_and_nobody_tries_again(
    option: str, archive: ClassArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(archive: ClassArchive, asked: str) -> str:
        trained(archive, asked)
        return "no more room" if asked.startswith(option) else ""

    monkeypatch.setattr(archive_builder, "_train", failing)
    archive_builder.build(archive)
    assert archive.failure.read_text() == "no more room\n"
    assert archive.is_settled
    assert {at.name for at in archive.folder.iterdir()} == {"home", "building", "failed"}
    monkeypatch.setattr(archive_builder, "_train", trained)
    archive_builder.build(archive)
    assert not archive.file.exists()


def test_a_jvm_that_cannot_start_is_a_failure(cache: Path) -> None:
    nowhere = ClassArchive(cache)
    cache.mkdir()
    archive_builder.build(nowhere)
    assert "Spark's JVM did not start" in nowhere.failure.read_text()


def test_one_builds_at_a_time(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_builder, "_train", trained)
    with open(archive.folder / "building", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        archive_builder.build(archive)
        assert not archive.is_settled
    archive_builder.build(archive)
    assert archive.is_settled


def test_archives_that_nobody_uses_any_more_are_removed(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_builder, "_train", trained)
    for name in ("spark-old", "spark-used"):
        (archive.folder.parent / name).mkdir()
        (archive.folder.parent / name / "classes.jsa").touch()
    os.utime(archive.folder.parent / "spark-old" / "classes.jsa", (0, 0))
    archive_builder.build(archive)
    assert {at.name for at in archive.folder.parent.iterdir()} == {"spark-used", archive.folder.name}


def test_a_builder_waits_until_its_process_has_ended(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[ClassArchive] = []
    monkeypatch.setattr(archive_builder, "build", built.append)
    monkeypatch.setattr(os, "nice", lambda more: None)
    reader, writer = os.pipe()
    with open(reader) as told:
        monkeypatch.setattr(sys, "stdin", told)
        monkeypatch.setattr(archive_builder, "_PATIENCE_SECONDS", 600.0)
        os.close(writer)
        archive_builder.main(["--later", str(archive.folder)])
    assert built == [archive]


def test_a_session_has_it_made_once(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    processes: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(arguments: list[str], **options: Any) -> subprocess.Popen[bytes]:
        started.append((arguments[1:], options["start_new_session"]))
        processes.append(popen([sys.executable, "-c", "pass"], **options))
        return processes[0]

    monkeypatch.setattr(subprocess, "Popen", start)
    archive.build_later()
    deadline = time.monotonic() + 20
    while processes[0].returncode is None:  # set by who waits for it: it does not stay in the list of processes
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert started == [(["-m", "penstock.spark.archive_builder", "--later", str(archive.folder)], True)]


# Nothing needs it


@pytest.mark.spark
def test_the_session_of_the_tests_has_started_from_it(spark_ready: Any) -> None:
    found = class_archive.class_archive()
    if found is None:
        pytest.skip("no archive was made for the tests: make test does")
    if found.failure.exists() and archive_builder.NOTHING_WRITTEN in found.failure.read_text():
        pytest.skip("this Java makes no archives")
    gateway = SparkContext._gateway
    assert gateway is not None
    assert str(found.file) in Path(f"/proc/{gateway.proc.pid}/maps").read_text()


def test_a_jvm_that_does_not_start_from_it_starts_without(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(settings: dict[str, str], home: Path) -> None:
        raise WorldError("Spark's JVM did not start")

    monkeypatch.setattr(session, "_launch_jvm", launch)
    settings = {"spark.driver.extraJavaOptions": "-Da=b"}
    with pytest.raises(WorldError):  # it was not the archive's fault
        session._launch_archived_jvm(settings, archive)
    assert not archive.is_settled
    archive.file.write_bytes(b"classes")
    assert not session._launch_archived_jvm(settings, archive)
    assert not archive.file.exists()
    assert "a JVM did not start from it" in archive.failure.read_text()


def test_an_archive_that_does_not_fit_is_passed_over_in_silence(archive: ClassArchive, tmp_path: Path) -> None:
    archive.file.write_bytes(b"no classes" * 1000)
    done = subprocess.run([sys.executable, "-c", RUNNING], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[{'ts': 1, 'v': 2}]\n", "")
