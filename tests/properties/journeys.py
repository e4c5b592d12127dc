"""Runs of one network whose batches take different ways, and what they leave behind, batch by batch."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import penstock as pk
from penstock.runtime.board import Record
from penstock.runtime.settings import EXCHANGE, EXPRESS
from penstock.storage.state import KEPT_VERSIONS

WAY_OF = {"local": "penstock.runtime.local.way_of", "spark": "penstock.spark.run.way_of"}


@dataclass(frozen=True)
class Journey:
    """A run, and what it had left after each of its batches."""

    result: pk.Result
    plans: list[str]
    """What the offset of every batch comes to."""
    left: list[dict[str, bytes]]
    """The files of state and of kept results, by their names."""


def journey(net: pk.Network, checkpoint: Path, engine: str, **options: Any) -> Journey:
    plans: list[str] = []
    left: list[dict[str, bytes]] = []

    def look(record: Record) -> None:
        plans.append(record.digest)
        left.append(dict(_files(checkpoint)))

    result = net.run(engine, checkpoint=str(checkpoint), durability="process", on_batch=look, **options)
    return Journey(result, plans, left)


@contextmanager
def by_every_way(
    build: Callable[[], pk.Network], ways: Sequence[str], engine: str = "local", **options: Any
) -> Iterator[Journey]:
    """Run a network all the express way, all by exchange, and each batch as drawn; compare all that they leave.

    On Spark it also runs with all batches read by tasks, none by the driver. `ways` are those of the first batch, of
    the second, and so on, and then from the beginning again. The clocks of the inputs must be scripted, or the runs
    would differ by the time. Gives the journey whose ways are drawn.
    """
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        straight = {way: journey(build(), Path(folder, way), engine, way=way, **options) for way in (EXPRESS, EXCHANGE)}
        if engine == "spark":
            with pytest.MonkeyPatch.context() as nothing_left:
                nothing_left.setattr("penstock.spark.run.Shares.take", lambda *_: None)
                straight["read by tasks"] = journey(build(), Path(folder, "tasks"), engine, way=EXPRESS, **options)
        taken: list[str] = []

        def drawn(job: Any, offset: Any, before: Record) -> str:
            taken.append(ways[(before.batch + 1) % len(ways)])
            return taken[-1]

        patch.setattr(WAY_OF[engine], drawn)
        mixed = journey(build(), Path(folder, "mixed"), engine, **options)
        assert len(taken) == len(mixed.left), "every batch is asked once how it travels"
        for way, other in straight.items():
            same(mixed, other, f"{taken}, and {way}")
        yield mixed


def same(one: Journey, other: Journey, told: str) -> None:
    """Both runs have planned the same batches, and left the same after each of them."""
    assert one.plans == other.plans, f"{told}: other batches"
    for batch, (ours, theirs) in enumerate(zip(one.left, other.left, strict=True)):
        only_one = {name for name in ours.keys() ^ theirs.keys() if not _may_linger(name, batch)}
        assert not only_one, f"{told}, batch {batch}: {only_one}"
        differing = [name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]]
        assert not differing, f"{told}, batch {batch}: {differing}"


def _files(checkpoint: Path) -> Iterator[tuple[str, bytes]]:
    for folder in ("state", "outlet"):
        for path in sorted((checkpoint / folder).rglob("*")):
            # Who writes an output has a name that is drawn for every checkpoint.
            if path.is_file() and path.name != "writer.json":
                with contextlib.suppress(FileNotFoundError):  # forgotten in this moment
                    yield str(path.relative_to(checkpoint)), path.read_bytes()


def _may_linger(name: str, batch: int) -> bool:
    """Whether it is state that nobody needs any more: it is forgotten at leisure."""
    return name.startswith("state/") and int(Path(name).stem) <= batch - KEPT_VERSIONS
