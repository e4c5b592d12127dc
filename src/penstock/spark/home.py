"""A home for embedded Spark in which its Python processes start fast.

Spark puts `$SPARK_HOME/python/lib/pyspark.zip` in front of the path of every Python process it starts, and Python keeps
no compiled modules of an archive: each process compiles pyspark anew, which takes half a second, and a query starts
several. So the embedded JVM gets a home of links to the installed pyspark, in which that name leads to the installed
package instead of the archive.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pyspark

from penstock.storage.temporary import TemporaryFolder

_ARCHIVE: Final = "pyspark.zip"


def can_be_linked() -> bool:
    """Whether pyspark is installed as a package with an archive beside it, and nobody has named another Spark."""
    return "SPARK_HOME" not in os.environ and (_installed() / "python" / "lib" / _ARCHIVE).exists()


def quick_home() -> TemporaryFolder | None:
    """Links to the installed pyspark, for this process alone; None if there is nothing to link to."""
    if not can_be_linked():
        return None
    home = TemporaryFolder("penstock-spark-home-")
    link_home(Path(home.path))
    return home


def link_home(base: Path) -> None:
    """Fill an empty folder with links to the installed pyspark."""
    installed = _installed()
    for name in ("bin", "jars"):
        (base / name).symlink_to(installed / name)
    if (installed / "conf").is_dir():
        (base / "conf").symlink_to(installed / "conf")
    (base / "python" / "lib").mkdir(parents=True)
    for library in (installed / "python" / "lib").iterdir():
        target = installed.parent if library.name == _ARCHIVE else library
        (base / "python" / "lib" / library.name).symlink_to(target)


def _installed() -> Path:
    return Path(pyspark.__file__).parent
