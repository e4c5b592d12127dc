"""What the environment says about Spark before its JVM runs: our own settings are only for what it does not say.

Spark reads the same places by itself when it starts, but what is handed to it from a program wins over them. So they
are looked at first: `spark-defaults.conf`, the variable `PYSPARK_SUBMIT_ARGS`, and the system properties in
`SPARK_SUBMIT_OPTS`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyspark

_DEFAULTS: Final = "spark-defaults.conf"
_PROPERTY: Final = re.compile(r"\s*(spark\.[^\s=:]+)(?:\s*[=:]\s*|\s+)(.*)")
_OPTIONS: Final = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}


def configuration() -> Path:
    """The folder of Spark's configuration files; it need not be there."""
    if (given := os.environ.get("SPARK_CONF_DIR")) is not None:
        return Path(given)
    home = os.environ.get("SPARK_HOME")
    return (Path(home) if home is not None else Path(pyspark.__file__).parent) / "conf"


def declared_settings() -> dict[str, str]:
    """The settings that somebody has made for every Spark application that is started from here."""
    options = list(_options(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))))
    file = next((Path(value) for key, value in reversed(options) if key == "--properties-file"), None)
    system = re.findall(r"-D(spark\.[^\s=]+)=(\S*)", os.environ.get("SPARK_SUBMIT_OPTS", ""))
    said = [(key, value) for key, value in options if key.startswith("spark.")]
    return dict([*_properties(file or configuration() / _DEFAULTS), *system, *said])


def _properties(file: Path) -> Iterator[tuple[str, str]]:
    if file.is_file():
        for line in file.read_text(errors="replace").splitlines():
            if (found := _PROPERTY.fullmatch(line)) is not None:
                yield found.group(1), found.group(2).strip()


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """The options of `spark-submit` that are settings, by the names of the settings."""
    parts = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    for name, value in pairwise(parts):
        if name in ("--conf", "-c"):
            key, _, setting = value.partition("=")
            yield key, setting
        elif name in _OPTIONS:
            yield _OPTIONS[name], value
        elif name == "--properties-file":
            yield name, value
