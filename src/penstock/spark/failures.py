"""What Spark's failures mean, in plain words: the outside world's are told from bugs, and no plan is dumped on anybody.

An error of ours comes back as itself. Everything else is judged by what the JVM says, which is a fixed set of phrases
of Java, Hadoop and the operating system; a failure that matches none of them is shown as Spark words it.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException

from penstock.errors import InternalError, PenstockError, WorldError
from penstock.spark.carrier import JobTicket, unwrapped

_DUMP: Final = re.compile(r"\n=== Streaming Query ===.*", re.DOTALL)
_FRAME: Final = re.compile(r'^(\s+at .*|\s+\.\.\. \d+ more|  File ".*|    .*|\s*\^+)$')
_CAUSE: Final = re.compile(r"^(?:Caused by: |: )?(?:[\w.$]+(?:Exception|Error|Throwable): )+")
_PATH: Final = re.compile(r"(?:^|[\s'\"]|file:)(/[^\s:()'\"]+)")
_AGAIN: Final = "start the run again: it goes on from its checkpoint"
_KILLED: Final = (
    "if the system ended it for want of memory (dmesg says so), take smaller trains (train_bytes=) or fewer tasks; "
    f"{_AGAIN}"
)
_JVM_ENDS: Final = 5.0
"""Seconds that a JVM may take to be gone after its connection is."""


@dataclass(frozen=True)
class _Meaning:
    """A kind of failure: how Spark words it, and what we say; {place} is the file that it names, or the checkpoint."""

    phrases: str
    what: str
    hint: str
    expected: str | None = None


# In this order: a full disk also breaks pipes, and a worker that dies leaves its peers without an answer.
_MEANINGS: Final = (
    _Meaning(
        r"No space left on device|Disk quota exceeded|File too large",
        "no space is left on a disk that the run writes to",
        f"make room there, then {_AGAIN}",
        "room at {place}, and where Spark keeps temporary files (spark.local.dir)",
    ),
    _Meaning(
        r"Read-only file system|Permission denied|AccessDenied|AccessControlException",
        "Spark cannot write to {place}",
        f"make the folder writable for the user who runs Spark, then {_AGAIN}",
    ),
    _Meaning(
        r"Checksum error|ChecksumException|Incomplete log file|[Mm]alformed log|MALFORMED_LOG|Failed to read log file"
        r"|UnsupportedLogVersion|[Ll]og file was malformed|(?:JsonParse|MismatchedInput|Mapping)Exception"
        r"|offsets/\d+ does not exist|BATCH_METADATA_NOT_FOUND",
        "Spark's own log in the checkpoint cannot be read: {place}",
        "bring the whole checkpoint back from a copy, or start with a new one",
        "the file as Spark has written it",
    ),
    _Meaning(
        r"OutOfMemoryError|Java heap space|GC overhead limit",
        "Spark's JVM has no memory left",
        "give it more, for example with PYSPARK_SUBMIT_ARGS='--driver-memory 4g pyspark-shell', "
        f"or take smaller trains (train_bytes=); then {_AGAIN}",
    ),
    _Meaning(
        r"Python worker exited unexpectedly|Python worker failed to connect|EOFException|Broken pipe|Connection reset"
        r"|Connection refused|(?:Stream|Socket) closed|ClosedChannelException|PYTHON_WORKER_EXITED|exit code 137",
        "a Python process of Spark has died",
        _KILLED,
        "the workers and the planner to live as long as the run",
    ),
)


@contextlib.contextmanager
def explained(network: str, checkpoint: str, ticket: JobTicket | None = None) -> Iterator[None]:
    """Turn the failures of Spark within into errors of ours."""
    try:
        yield
    except (Py4JError, ConnectionError, CapturedException) as failure:
        meaning = explanation(failure, network, checkpoint, ticket)
        # Spark's own words, with its plan, help nobody but us.
        raise meaning from failure if isinstance(meaning, InternalError) else None


def explanation(failure: Exception, network: str, checkpoint: str, ticket: JobTicket | None) -> PenstockError:
    """The error that a failure of Spark means."""
    text = str(failure)
    ours = unwrapped(text, ticket) if ticket is not None else None
    if ours is not None:
        return ours
    if (ended := _ended_jvm(failure)) is not None:
        return WorldError("Spark's JVM has died", network=network, found=ended, hint=_KILLED)
    said = _said(text)
    for meaning in _MEANINGS:
        # The last line is the root cause.
        if (line := next((at for at in reversed(said) if re.search(meaning.phrases, at)), None)) is not None:
            place = next(iter(_PATH.findall(line)), checkpoint)
            return WorldError(
                meaning.what.format(place=place),
                network=network,
                expected=meaning.expected and meaning.expected.format(place=place),
                found=_CAUSE.sub("", line) or line,
                hint=meaning.hint,
            )
    cause = next((at for at in reversed(said) if at.startswith("Caused by: ")), said[0])
    return InternalError(f"Spark ended the run: {_CAUSE.sub('', cause)}", network=network, found="\n".join(said))


def _said(text: str) -> list[str]:
    """The lines of a failure that say something: no plan, no stack."""
    lines = [line.rstrip() for line in _DUMP.sub("", text).splitlines()]
    return [line for line in lines if line and not _FRAME.match(line)] or ["nothing that Spark would say"]


def _ended_jvm(failure: Exception) -> str | None:
    """How the JVM has ended, if it has."""
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    broken = isinstance(failure, Py4JNetworkError | ConnectionError) or type(failure) is Py4JError
    if not broken:
        return None
    if process is None:
        return "no connection to it"
    with contextlib.suppress(subprocess.TimeoutExpired):
        code = process.wait(_JVM_ENDS)
        return f"it was killed by signal {-code}" if code < 0 else f"it ended with exit code {code}"
    return None
