"""An archive of Spark's classes, from which the embedded JVM starts in half of the time.

Java reads thousands of classes from Spark's archives, checks and links them, every time it starts. It can keep them,
ready for use, in a file. The first session on a machine has that file made, by a process of the lowest priority
(`archive_builder.py`); sessions that start later use it. It lies in the user's cache, and is of use only to the same
Java with the same Spark at the same path, so its folder is named after all of that, and has the home that Spark runs
in, whose path is a part of it, too.

Nothing depends on it. Where it cannot be made, or does not fit, the JVM starts as it always did.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from penstock.spark.declared import configuration
from penstock.spark.home import can_be_linked, link_home

VARIABLE: Final = "PENSTOCK_CLASS_ARCHIVE"
"""The environment variable that says `off` if no archive is to be used or made."""
_LAYOUT: Final = 1
"""Goes up when archives of earlier versions of Penstock are of no use."""
_ODD: Final = re.compile(r"[^\w@%+=,./ -]")
"""What may mean something else in a class path or among the options of a JVM."""
QUIET: Final = "-Xlog:disable -Xlog:all=warning:stderr"
"""Java says on standard output, which is the user's, if an archive does not fit."""


@dataclass(frozen=True)
class ClassArchive:
    """The folder of the archive for one Spark and one Java."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def file(self) -> Path:
        return self.folder / "classes.jsa"

    @property
    def failure(self) -> Path:
        """Says why there is no archive, and never will be."""
        return self.folder / "failed"

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to build any more."""
        return self.file.exists() or self.failure.exists()

    @property
    def options(self) -> str:
        """What the JVM is told; nothing before there is an archive."""
        try:
            os.utime(self.file)  # says when it was of use
        except OSError:
            return ""
        return f'"-XX:SharedArchiveFile={self.file}" {QUIET}'

    def give_up(self, reason: str) -> None:
        with contextlib.suppress(OSError):
            self.failure.write_text(f"{reason}\n")
            self.file.unlink(missing_ok=True)

    def build_later(self) -> None:
        """Have it made when this process has ended, or has run for a while."""
        with contextlib.suppress(OSError):
            builder = subprocess.Popen(
                [sys.executable, "-m", "penstock.spark.archive_builder", "--later", str(self.folder)],
                stdin=subprocess.PIPE,  # closed when this process ends
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
            # Who is not waited for stays in the list of processes when it has ended.
            threading.Thread(target=builder.wait, name="archive-builder", daemon=True).start()


def class_archive(environment: Mapping[str, str] = os.environ) -> ClassArchive | None:
    """The archive for the Spark and the Java that a session of this process would start; None if there can be none."""
    if environment.get(VARIABLE, "").lower() == "off" or "SPARK_HOME" in environment or not can_be_linked():
        return None
    conf = configuration()
    if conf.is_dir() and any(conf.iterdir()):  # would be the first on the class path, and Java archives no folders
        return None
    try:
        version, key = _identity(environment)
        cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"
        folder = cache / f"spark-{pyspark.__version__}-java-{version}-{key}"
        if _ODD.search(str(folder)) or not folder.is_absolute():
            return None
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = ClassArchive(folder)
        if not (_is_ours(cache) and _is_ours(folder)):
            return None
        _provide_home(found)
    except (OSError, RuntimeError):  # no Java, no home of the user, no room, no rights
        return None
    return found


def _identity(environment: Mapping[str, str]) -> tuple[str, str]:
    """The version of Java, and a digest of all that an archive depends on."""
    given = environment.get("JAVA_HOME")
    java = os.path.join(given, "bin", "java") if given else shutil.which("java")
    if java is None:
        raise FileNotFoundError("java")
    java = os.path.realpath(java)
    release = (Path(java).parents[1] / "release").read_text()
    version = re.search(r'^JAVA_VERSION="([\w.+-]+)"', release, re.MULTILINE)
    installed = Path(pyspark.__file__).parent
    parts = [str(_LAYOUT), java, release, pyspark.__version__, str(installed)]
    for jar in sorted(os.scandir(installed / "jars"), key=lambda entry: entry.name):
        found = jar.stat()
        parts.append(f"{jar.name} {found.st_size} {found.st_mtime_ns}")
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return (version.group(1) if version else "unknown"), digest[:12]


def _is_ours(folder: Path) -> bool:
    """Whether nobody else can write to it: the JVM takes what is there for code."""
    found = folder.stat()
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _provide_home(archive: ClassArchive) -> None:
    """Make the home under another name, so that whoever finds it finds all of it."""
    if archive.home.exists():
        return
    made = Path(tempfile.mkdtemp(prefix="home-", dir=archive.folder))
    link_home(made)
    try:
        made.rename(archive.home)
    except OSError:  # somebody else was first
        shutil.rmtree(made, ignore_errors=True)
        if not archive.home.exists():
            raise
