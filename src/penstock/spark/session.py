"""The Spark session that Penstock runs in: embedded and tuned by default, or the one that is there.

All settings here are defaults, but for two that answers depend on. What the user or the machine's owner has said of
Spark wins, wherever it was said: to `spark-submit`, in `spark-defaults.conf`, in the variables that Spark reads.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from penstock.algebra.expressions.kernel_memory import VARIABLE as KERNEL_MEMORY
from penstock.errors import WorldError
from penstock.spark.allocators import ENVIRONMENT as WORKER_ENVIRONMENT
from penstock.spark.allocators import keep_freed_memory
from penstock.spark.class_archive import ClassArchive, class_archive
from penstock.spark.declared import declared_settings
from penstock.spark.home import quick_home
from penstock.spark.warm_start import WarmStart
from penstock.storage.temporary import TemporaryFolder

DEFAULT_MASTER: Final = "local[*]"
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
"""The variable by which `spark-submit` tells a program where its JVM is."""
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"

# What a micro-batch costs before any data is processed was measured with `penstock bench floor`.
_SETTINGS: Final = {
    "spark.app.name": "penstock",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Unix sockets to the Python workers save a third of a small batch compared with TCP on loopback.
    "spark.python.unix.domain.socket.enabled": "true",
    # Spark's log writes fork `chmod` on a local disk; vfork makes that cheap.
    _JAVA_OPTIONS: "-Djdk.lang.Process.launchMechanism=VFORK",
    "spark.shuffle.compress": "false",
    "spark.python.daemon.module": "penstock.spark.daemon",
}
_LOCAL_SETTINGS: Final = {
    # On one machine nobody else needs to reach the driver; on a cluster the workers do.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # The JVM plans batches, and Python works on tuples: to compile Spark to the utmost took half of the JVM's time in
    # the first minutes, and brought nothing later.
    _JAVA_OPTIONS: f"{_SETTINGS[_JAVA_OPTIONS]} -XX:TieredStopAtLevel=1",
}
_SOCKETS: Final = "spark.python.unix.domain.socket.dir"
_LONGEST_SOCKET_FOLDER: Final = 60
"""The path of a socket has 107 characters at most, and Spark's names of sockets 42."""
_CARRIED: Final = (KERNEL_MEMORY,)
_DRIVER_MEMORY: Final = {"SPARK_DRIVER_MEMORY": "1g"}
"""As a variable, because Spark prefers whatever else says how much the JVM may take."""
_FIXED_SETTINGS: Final = {
    # A partition is a bucket: Spark must not join small ones together.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
_registering: Final = threading.Lock()
_QUERY_SETTINGS: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.pollingDelay": "5ms",
    "spark.sql.streaming.numRecentProgressUpdates": "100",
}


def get_session(master: str | None = None) -> SparkSession:
    """The active session, or a new embedded one on `master`."""
    _forget_dead_jvm()
    active = SparkSession.getActiveSession() or _default_session()
    if active is None:
        active = _submitted_session(master) if _GATEWAY in os.environ else _embedded_session(master)
    for key, value in _QUERY_SETTINGS.items():
        if active.conf.get(key, None) is None:
            active.conf.set(key, value)
    for key, value in _FIXED_SETTINGS.items():
        active.conf.set(key, value)
    _run_our_python(active.sparkContext)
    _carry_environment(active.sparkContext)
    return active


def _embedded_session(master: str | None) -> SparkSession:
    """A session in a JVM that this process starts."""
    said = declared_settings()
    chosen = master or os.environ.get("PENSTOCK_MASTER") or said.get("spark.master") or DEFAULT_MASTER
    settings = _ours(chosen, said)
    sockets = _private_sockets() if _is_local(chosen) and _SOCKETS not in said else None
    if sockets is not None:
        settings[_SOCKETS] = sockets.path
    # Workers must run the interpreter and the packages of the driver.
    os.environ.setdefault("PYSPARK_PYTHON", said.get("spark.pyspark.python", sys.executable))
    warm = WarmStart() if _is_local(chosen) and os.environ["PYSPARK_PYTHON"] == sys.executable else None
    archive = class_archive() if _is_local(chosen) and _JAVA_OPTIONS not in said else None
    if archive is None or not _launch_archived_jvm(settings, archive):
        _launch_jvm(settings, quick_home() if _is_local(chosen) else None)
    session = _made(chosen, settings)
    if (gateway := SparkContext._gateway) is not None:
        gateway.penstock_sockets, gateway.penstock_warm = sockets, warm  # as long as the JVM lives
    session.sparkContext.setLogLevel("OFF")
    _write_no_checksums(session)
    keep_freed_memory()
    if archive is not None and not archive.is_settled:
        archive.build_later()
    return session


def _write_no_checksums(session: SparkSession) -> None:
    """Let Hadoop write Spark's logs on a local disk without a checksum file beside each of them.

    For every file that it writes there Hadoop starts a process to set its permissions, which takes as long as a stage.
    Nothing trusts those logs: the board knows, with checksums of its own, how every batch was planned.
    """
    java: Any = session.sparkContext._jvm
    settings = session.sparkContext._jsc.hadoopConfiguration()
    java.org.apache.hadoop.fs.FileSystem.getLocal(settings).setWriteChecksum(False)


def _private_sockets() -> TemporaryFolder | None:
    """A folder for the sockets to the Python workers, which obey whoever can connect: nobody else may enter it."""
    folder = TemporaryFolder("penstock-sockets-")
    return folder if len(folder.path) <= _LONGEST_SOCKET_FOLDER else None


def _submitted_session(master: str | None) -> SparkSession:
    """A session in the JVM of `spark-submit`, which runs this program: what it was told is in its properties."""
    _launch_jvm({}, None)
    said = dict(SparkConf().getAll())
    chosen = master or said.get("spark.master") or os.environ.get("PENSTOCK_MASTER") or DEFAULT_MASTER
    return _made(chosen, _ours(chosen, said))


def _made(master: str, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _ours(master: str, said: Mapping[str, str]) -> dict[str, str]:
    """Our settings, where nobody else has said anything."""
    local = _LOCAL_SETTINGS if _is_local(master) else {}
    return {key: value for key, value in {**_SETTINGS, **local, **_QUERY_SETTINGS}.items() if key not in said}


def _run_our_python(context: SparkContext) -> None:
    """On this machine workers run the driver's interpreter, also if its virtual environment is not activated.

    On a cluster the path of an interpreter may be another, so there a session that others have made is left as it is.
    """
    said = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if not said and _is_local(str(context.master)):
        context.pythonExec = sys.executable


def _carry_environment(context: SparkContext) -> None:
    """Workers, wherever they run, obey the variables that the driver has."""
    for name in _CARRIED:
        # Not by `getConf()`, which copies all settings one by one.
        value = os.environ.get(name) or context._conf.get(f"spark.executorEnv.{name}", None)
        if value is not None:
            context.environment[name] = value
        else:
            context.environment.pop(name, None)


@contextlib.contextmanager
def warm_planning(context: SparkContext) -> Iterator[None]:
    """The processes that plan what is registered meanwhile start warm, if this process has started the JVM."""
    warm = getattr(SparkContext._gateway, "penstock_warm", None)
    if not isinstance(warm, WarmStart):  # a gateway of others makes a member of the JVM of any name
        yield
        return
    with _registering:
        python, context.pythonExec = context.pythonExec, warm.executable
        try:
            yield
        finally:
            context.pythonExec = python


def parallelism(master: str | None = None) -> int:
    """How many tasks the session runs at a time."""
    return max(1, int(get_session(master).sparkContext.defaultParallelism))


def shared_cores(master: str | None = None) -> int:
    """How many tasks the session runs at a time on cores that are this process's, too; 1 if they run elsewhere."""
    return parallelism(master) if _is_local(get_session(master).sparkContext.master or "") else 1


def _launch_archived_jvm(settings: Mapping[str, str], archive: ClassArchive) -> bool:
    """Start the JVM from an archive of classes; if it does not come up, nobody uses that archive again."""
    options = archive.options
    try:
        _launch_jvm({**settings, _JAVA_OPTIONS: f"{settings[_JAVA_OPTIONS]} {options}".strip()}, archive.home)
    except WorldError as failure:
        if not options:
            raise
        archive.give_up(f"a JVM did not start from it: {failure}")
        return False
    return True


def _launch_jvm(settings: Mapping[str, str], home: TemporaryFolder | Path | None) -> None:
    """Start the JVM in a process group of its own: Ctrl-C at the terminal then reaches only the driver, which stops it.

    What the JVM says on standard error goes to a file, which is shown if it does not come up.
    """
    if SparkContext._gateway is not None:
        return
    handle, name = tempfile.mkstemp(prefix="penstock-spark-", suffix=".log")
    atexit.register(_remove, name)
    with open(handle, "w") as log, _environment(home):
        try:
            gateway = launch_gateway(SparkConf().setAll(list(settings.items())), {"process_group": 0, "stderr": log})
        except Exception as failure:
            said = Path(name).read_text(errors="replace").strip()
            raise WorldError(
                "Spark's JVM did not start",
                expected="Java 17 or newer, on the PATH or at JAVA_HOME",
                found=said[-2000:] or str(failure),
                hint="install a Java runtime, for example Debian's openjdk-17-jre-headless",
            ) from failure
    SparkContext._ensure_initialized(gateway=gateway)
    gateway.penstock_home = home  # the JVM reads it as long as it lives


@contextlib.contextmanager
def _environment(home: TemporaryFolder | Path | None) -> Iterator[None]:
    """What the JVM and the Python processes that it starts, and nobody else, find in their environment."""
    path = home.path if isinstance(home, TemporaryFolder) else home
    wanted = _DRIVER_MEMORY | WORKER_ENVIRONMENT | ({"SPARK_HOME": str(path)} if path is not None else {})
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _remove(name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name)


def _forget_dead_jvm() -> None:
    """If the JVM of this process has died, let the next session start another."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None or process.poll() is None:
        return
    with SparkContext._lock:
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = None


def _default_session() -> SparkSession | None:
    session: SparkSession | None = SparkSession._instantiatedSession
    if session is None or session.sparkContext._jsc is None:
        return None
    return session
