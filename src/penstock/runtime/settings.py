"""How a network is run: what may differ between two runs without changing their answers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.errors import QueryError
from penstock.plan.plan import OUT_OF_ORDER, Plan
from penstock.runtime.limits import Limit, Most
from penstock.storage.sizes import Size, size_of

TRAIN_BYTES = 512 * 1024 * 1024
"""Of a batch that tasks of Spark's read, each a part of it; or that no box holds anything of."""
REDUCED_BYTES = 256 * 1024 * 1024
"""Of a batch that threads of the driver read, if boxes make partial results of it before anything else."""
CARRIED_BYTES = 128 * 1024 * 1024
"""The same if boxes take the tuples themselves: the driver has all of them at once, and what is made of them."""
REMEMBERED_BYTES = 64 * 1024 * 1024
"""The same if a box remembers every tuple beside: all of a train is then held twice."""
POWER = "power"
PROCESS = "process"
DURABILITIES = (POWER, PROCESS)
"""What a committed batch survives: the end of the machine, or only that of the process."""
AUTO = "auto"
EXPRESS = "express"
EXCHANGE = "exchange"
WAYS = (AUTO, EXPRESS, EXCHANGE)
"""How the rows of a batch get through the stages (`runtime/ways.py`)."""
REFUSE = "refuse"
OLDEST = "oldest"
WHEN_FULL = (REFUSE, OLDEST)
"""What happens when a run has taken up all that it may on disks (`runtime/budget.py`)."""

MOST_THREADS = 8
"""With more of them, the driver's threads would wait for the interpreter too often: it runs one at a time."""
OFF = "off"
ON = "on"
OPTIMIZE = (OFF, ON)
"""Whether boxes are arranged by what they cost while the network runs (`runtime/optimizer.py`)."""


@dataclass(frozen=True)
class Settings:
    """The size of a train bounds memory; buckets and tasks are the parallelism of stages and intake.

    Zero buckets or tasks mean that nobody has said how many: `resolved` decides. No `train_rows` means as many as
    `train_bytes` have room for; no `train_bytes` as many as suit the plan and who reads them (`Job.train_bytes`).
    """

    train_rows: int | None = None
    train_bytes: int | None = None
    buckets: int = 0
    tasks: int = 0
    durability: str = POWER
    threads: int = 1
    """Threads that the driver has for a batch: as many as Spark runs tasks, if these run on the driver's cores."""
    way: str = AUTO
    """How batches travel: by their size, or all of them the express way, or all by exchange."""
    optimize: str = OFF
    max_refused: Most | None = None
    max_late: Most | None = None
    """How many records of an input may be refused, and how many tuples late, before the run ends with an error."""
    keep: Size | None = None
    """How many bytes each output keeps whose tuples are kept, and each late and error stream, unless it says itself."""
    disk: Size | None = None
    """How much the run may take up on disks."""
    when_full: str = REFUSE

    def __post_init__(self) -> None:
        for name, least in (("train_rows", 1), ("train_bytes", 1), ("buckets", 0), ("tasks", 0)):
            if (given := getattr(self, name)) is not None and given < least:
                raise QueryError(f"{name} must be at least {max(1, least)}", found=str(given))
        for name in ("max_refused", "max_late"):
            if (limit := getattr(self, name)) is not None:
                Limit.of(name, limit)

        for name in ("keep", "disk"):
            if (size := getattr(self, name)) is not None:
                size_of(name, size)
        choices = (("durability", DURABILITIES), ("way", WAYS), ("optimize", OPTIMIZE), ("when_full", WHEN_FULL))
        for name, known in choices:
            if (given := getattr(self, name)) not in known:
                raise QueryError(f"unknown {name} {given!r}", expected=f"one of {', '.join(map(repr, known))}")

    @property
    def keep_bytes(self) -> int | None:
        return size_of("keep", self.keep) if self.keep is not None else None

    @property
    def disk_bytes(self) -> int | None:
        return size_of("disk", self.disk) if self.disk is not None else None

    def resolved(self, plan: Plan, cores: int) -> Settings:
        """One task for each core, and as many buckets where there are groups to share out."""
        if self.optimize == ON and plan.architecture != OUT_OF_ORDER:
            raise QueryError(
                f"optimize='on' does not go with architecture={plan.architecture!r}",
                network=plan.network.name,
                expected=f"architecture={OUT_OF_ORDER!r}, or optimize='off'",
            )
        stateful = [b for stage in range(1, plan.stages + 1) for b in plan.stateful(stage)]
        # Boxes without keys live in bucket 0: more buckets would only make every batch dearer.
        keyed = any(b.keys(slot) for b in stateful for slot in range(len(b.inputs)))
        buckets = cores if keyed else 1
        return replace(self, buckets=self.buckets or buckets, tasks=self.tasks or cores)
