"""The first result of a fresh process: `python -m penstock_bench.shapes_first PEER DATA OUT SCRATCH`.

What is timed is the process: from its start to the line that says that its query is through. Its engine is loaded
inside, as a user's program would load it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from penstock_bench.contract import OURS
from penstock_bench.shapes_cells import CATCH_UP, cell
from penstock_bench.throughput import Engine

DONE: Final = "done"
GOODBYE_SECONDS: Final = 30.0


class Fresh:
    """A peer that is started anew for every run."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._begun: list[subprocess.Popen[str]] = []

    def open(self, scratch: Path) -> None:
        self._scratch = scratch

    def run(self, data: Path, out: Path) -> None:
        own = self._scratch / f"process-{len(self._begun)}"
        own.mkdir()
        arguments = [self._peer, str(data), str(out), str(own)]
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock_bench.shapes_first", *arguments], stdout=subprocess.PIPE, text=True
        )
        self._begun.append(process)
        assert process.stdout is not None
        if not any(line.strip() == DONE for line in process.stdout):
            raise RuntimeError(
                f"the process of {self._peer} ended with code {process.wait()} before its query was done"
            )

    def close(self) -> None:
        for process in self._begun:
            process.wait(GOODBYE_SECONDS)


def main(peer: str, data: str, out: str, scratch: str) -> None:
    engine = _engine(peer)
    engine.open(Path(scratch))
    engine.run(Path(data), Path(out))
    print(DONE, flush=True)
    engine.close()


def _engine(peer: str) -> Engine:
    if peer == OURS:
        from penstock_bench.our_shapes import Shape

        return Shape(cell("first-result"), CATCH_UP)
    from penstock_bench.native_shapes import Shape as Native

    return Native(cell("first-result"), CATCH_UP, peer)


if __name__ == "__main__":
    main(*sys.argv[1:])
