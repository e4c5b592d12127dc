"""A home for embedded Spark in which its Python processes start fast.

Spark puts `$SPARK_HOME/python/lib/pyspark.zip` in front of the path of every Python process it starts, and Python keeps
no compiled modules of an archive: each process compiles pyspark anew, which takes half a second, and a query starts
several. So the embedded JVM gets a home of links to the installed pyspark, in which that name leads to the installed
package instead of the archive.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyspark

from penstock.storage.temporary import TemporaryFolder

_ARCHIVE = "pyspark.zip"


def quick_home() -> TemporaryFolder | None:
    """Links to the installed pyspark; None where it is not installed as a package with an archive beside it."""
    installed = Path(pyspark.__file__).parent
    libraries = installed / "python" / "lib"
    if "SPARK_HOME" in os.environ or not (libraries / _ARCHIVE).exists():
        return None
    home = TemporaryFolder("penstock-spark-home-")
    base = Path(home.path)
    for name in ("bin", "jars"):
        (base / name).symlink_to(installed / name)
    if (installed / "conf").is_dir():
        (base / "conf").symlink_to(installed / "conf")
    (base / "python" / "lib").mkdir(parents=True)
    for library in libraries.iterdir():
        target = installed.parent if library.name == _ARCHIVE else library
        (base / "python" / "lib" / library.name).symlink_to(target)
    return home
