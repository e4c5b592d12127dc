"""Make the archive of Spark's classes: `python -m penstock.spark.archive_builder`.

A JVM runs a small network and writes down, as it ends, which classes it has used. Another must run the same from that
file before it gets its name. If either fails, that is written down instead, and nobody tries again.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from penstock.spark.class_archive import QUIET, VARIABLE, ClassArchive, class_archive

_PATIENCE_SECONDS: Final = 60.0
"""How long a process may go on before the archive is made beside it: by then what it starts with is done."""
_TIMEOUT_SECONDS: Final = 600.0
_UNUSED_SECONDS: Final = 90 * 24 * 3600.0
NOTHING_WRITTEN: Final = "Java has written no archive"
"""What some builds of Java do: those without an archive of their own classes."""
_NOT_INHERITED: Final = ("SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
_NOT_INHERITED_PREFIXES: Final = ("PYSPARK_", "PENSTOCK_")


def build(archive: ClassArchive) -> None:
    """Make the archive, unless somebody has done so, has failed to, or is about to."""
    with open(archive.folder / "building", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        if archive.is_settled:
            return
        _remove_unused(archive)
        made = archive.folder / "classes.new"
        made.unlink(missing_ok=True)
        failure = _train(archive, f"-XX:ArchiveClassesAtExit={made}")
        failure = failure or ("" if made.exists() else NOTHING_WRITTEN)
        failure = failure or _train(archive, f"-XX:SharedArchiveFile={made}")
        if failure:
            made.unlink(missing_ok=True)
            archive.give_up(failure)
            return
        with open(made, "rb") as written:
            os.fsync(written.fileno())
        made.rename(archive.file)


def _train(archive: ClassArchive, option: str) -> str:
    """Run a small network in a JVM with this option; why that failed, or nothing."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in _NOT_INHERITED and not name.startswith(_NOT_INHERITED_PREFIXES)
    }
    with tempfile.TemporaryDirectory(prefix="penstock-classes-") as scratch:
        ours = {
            VARIABLE: "off",
            "SPARK_HOME": str(archive.home),  # the class path of the archive
            "SPARK_SUBMIT_OPTS": f'"{option}" {QUIET}',
            "PENSTOCK_HOME": scratch,
            "PENSTOCK_KEY": "of nobody",
        }
        try:
            done = subprocess.run(
                [sys.executable, "-m", "penstock.spark.archive_training"],
                env=inherited | ours,
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "it took too long"
    return "" if done.returncode == 0 else (done.stderr.strip()[-2000:] or f"it ended with {done.returncode}")


def _remove_unused(archive: ClassArchive) -> None:
    """Remove archives of a Spark or a Java that nobody has used for months: they are large."""
    for other in archive.folder.parent.glob("spark-*/classes.jsa"):
        if other.stat().st_mtime < time.time() - _UNUSED_SECONDS:
            shutil.rmtree(other.parent, ignore_errors=True)


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--later"]:
        os.nice(19)
        select.select([sys.stdin], [], [], _PATIENCE_SECONDS)
        build(ClassArchive(Path(arguments[1])))
    elif (archive := class_archive()) is None:
        print("no archive of classes can be made here", file=sys.stderr)
    else:
        build(archive)
        print(archive.file if archive.file.exists() else f"there is no archive: see {archive.failure}")


if __name__ == "__main__":
    main(sys.argv[1:])
