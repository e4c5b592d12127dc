"""Changing a run in another process, and what its network was before: `penstock change`, `penstock versions`."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from penstock.api import Network
from penstock.runtime.versions import Version

_LOOK_SECONDS = 0.1


def change_run(console: Console, net: Network, checkpoint: str, discard: list[str], seconds: float) -> None:
    """Ask a run to go on with a network, and wait until it does."""
    deadline = time.monotonic() + seconds
    with console.status(f"asking the run in {checkpoint}"):
        before = net.look_at_versions(checkpoint)[-1].number
        version = net.change(checkpoint, discard=discard, seconds=seconds)
        if version.number == before:
            console.print(f"the run has this network already: version {version.number}", highlight=False)
            return
        version = in_effect(net, checkpoint, version, deadline)
    console.print(f"version {version.number} of the network runs {since(version)}: {told(version)}", highlight=False)


def in_effect(net: Network, checkpoint: str, version: Version, deadline: float) -> Version:
    """A version, when it has taken effect or it has got late."""
    while version.batch is None and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        version = net.look_at_versions(checkpoint)[version.number - 1]
    return version


def since(version: Version) -> str:
    """From when on a version is in effect, in words."""
    return f"since batch {version.batch}" if version.batch is not None else "with its next batch"


def show_versions(console: Console, versions: list[Version]) -> None:
    """A line for each version."""
    shown = Table(title="versions of the network", title_justify="left")
    for column in ("version", "since batch", "at", "what has changed"):
        shown.add_column(column)
    for version in versions:
        batch = "not yet" if version.batch is None else f"{version.batch:,}"
        shown.add_row(str(version.number), batch, _time(version.at), told(version))
    console.print(shown)


def told(version: Version) -> str:
    """What has changed with a version, in words."""
    parts = (
        ("new", version.added),
        ("gone", version.removed),
        ("changed", [key for key in version.changed if key not in version.discarded]),
        ("changed and begun anew", version.discarded),
    )
    # What the plan adds by itself, such as the outputs of late tuples, goes without saying.
    shown = [(what, [key for key in keys if "!" not in key]) for what, keys in parts]
    words = ["arranged by the optimizer"] if version.arrangement else []
    words += [f"{what}: {', '.join(keys)}" for what, keys in shown if keys]
    return "; ".join(words) or ("the first" if version.number == 1 else "the order of its boxes")


def _time(at: int | None) -> str:
    return "" if not at else datetime.fromtimestamp(at / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
