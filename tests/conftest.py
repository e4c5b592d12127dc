"""What all tests share: a Spark session in every process that needs one, and the settings of hypothesis."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.thoroughness import tries

ROOT = Path(__file__).resolve().parents[1]

# Spark's Python workers import a function by its module's name, so they must find src and tests as pytest does.
_WORKER_PATH = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(part for part in _WORKER_PATH if part)

# Runs sign the plans of their networks: with a key of the tests, not with one in the home of whoever runs them.
os.environ.setdefault("PENSTOCK_KEY", "a key for tests")

# Runs enter a catalog: one of the tests, which is gone with them. Worker processes share it.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["PENSTOCK_HOME"] = tempfile.mkdtemp(prefix="penstock-tests-")
    atexit.register(shutil.rmtree, os.environ["PENSTOCK_HOME"], ignore_errors=True)

# JVMs start from the archive of classes that `make` has made for the tests; none is made beside them.
_CACHE = ROOT / ".venv" / "cache"
if _CACHE.is_dir():
    os.environ["XDG_CACHE_HOME"] = str(_CACHE)
else:
    os.environ["PENSTOCK_CLASS_ARCHIVE"] = "off"

# CI must say the same thing twice, so it draws no random examples; HYPOTHESIS_PROFILE=search looks for new ones.
_SLOW_MACHINE = [HealthCheck.too_slow]
settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=tries(30), suppress_health_check=_SLOW_MACHINE
)
settings.register_profile("search", deadline=None, max_examples=1000, suppress_health_check=_SLOW_MACHINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


_SESSIONS = 2
"""How many processes have a Spark session of their own: both cores of a small machine are busy with them to the end."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever needs the shared Spark session runs in one of few processes, so that there are few sessions.

    Benchmarks start processes of their own. What takes long begins first, so that nobody waits for it at the end.
    """
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    needing = [item for item in items if _needs_session(item)]
    groups = _spread(Counter(str(item.path) for item in needing))
    for item in needing:
        item.add_marker(pytest.mark.xdist_group(groups[str(item.path)]))


def _needs_session(item: pytest.Item) -> bool:
    if "bench" in item.path.parts:
        return False
    return item.get_closest_marker("spark") is not None or "spark_ready" in getattr(item, "fixturenames", ())


def _spread(tests: Mapping[str, int]) -> dict[str, str]:
    """The group of every module: the tests of one stay together, and all groups have about as many."""
    sizes = dict.fromkeys((f"spark-{number}" for number in range(_SESSIONS)), 0)
    groups = {}
    for module, count in sorted(tests.items(), key=lambda entry: (-entry[1], entry[0])):
        groups[module] = min(sizes, key=lambda name: sizes[name])
        sizes[groups[module]] += count
    return groups


def pytest_collection_finish(session: pytest.Session) -> None:
    """Groups of tests must show in their names, or every process starts a Spark session of its own."""
    if getattr(session.config.option, "loadgroup", False):
        alone = [i.nodeid for i in session.items if i.get_closest_marker("xdist_group") and "@" not in i.nodeid]
        if alone:
            raise pytest.UsageError(
                f"pytest-xdist does not group tests, such as {alone[0]}: is this pytest too new for it?"
            )


# A session of a test is over before code that is compiled to the utmost, collectors with threads of their own, or a
# second look at the classes of Spark pay for it.
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
os.environ.setdefault("SPARK_SUBMIT_OPTS", _QUICK_JVM)

if "PYTEST_XDIST_WORKER" in os.environ:
    # Worker processes ignore Ctrl-C, and so would every process that a test starts: but some tests are about it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def spark_ready() -> Iterator[Any]:
    """The Spark session of this process: starting one takes seconds, so tests share it."""
    from penstock.spark.session import get_session

    session = get_session()
    yield session
    session.stop()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An empty folder for input files, apart from what a run writes beside it."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder
