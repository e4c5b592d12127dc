"""What all tests share: one Spark session, and the settings of hypothesis."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

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

# CI must say the same thing twice, so it draws no random examples; HYPOTHESIS_PROFILE=search looks for new ones.
_SLOW_MACHINE = [HealthCheck.too_slow]
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=30, suppress_health_check=_SLOW_MACHINE)
settings.register_profile("search", deadline=None, max_examples=1000, suppress_health_check=_SLOW_MACHINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever needs the shared Spark session runs in one process, so that there is one session.

    Benchmarks start processes of their own. What takes long begins first, so that nobody waits for it at the end.
    """
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    for item in items:
        if "bench" in item.path.parts:
            continue
        if item.get_closest_marker("spark") or "spark_ready" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Groups of tests must show in their names, or every process starts a Spark session of its own."""
    if getattr(session.config.option, "loadgroup", False):
        alone = [i.nodeid for i in session.items if i.get_closest_marker("xdist_group") and "@" not in i.nodeid]
        if alone:
            raise pytest.UsageError(
                f"pytest-xdist does not group tests, such as {alone[0]}: is this pytest too new for it?"
            )


# A session of a test is over before code that is compiled to the utmost pays for it.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

if "PYTEST_XDIST_WORKER" in os.environ:
    # Worker processes ignore Ctrl-C, and so would every process that a test starts: but some tests are about it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def spark_ready() -> Iterator[Any]:
    """The Spark session of the suite: starting one takes seconds, so there is one."""
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
