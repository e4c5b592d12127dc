"""One case of the simulation: a random network, struck by faults until it has come to its end, against the same network
left in peace.

The outcome must be *right* (every tuple of every output, late stream, error stream and account, once), or, where the
fault was one that nobody can repair, *refused* with an error that says what is wrong. Anything else is a defect.
"""

from __future__ import annotations

import errno
import io
import json
import pickle
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.algebra.expressions.kernel import Answers, remembering
from penstock.connectors.targets.kept_results import Results
from penstock.errors import QueryError, WorldError
from penstock.plan.plan import Plan
from penstock.runtime import agreement
from penstock.runtime.board import Board
from penstock.runtime.job import Job
from penstock.runtime.local import LocalExecutor
from penstock.runtime.opening import open_job
from penstock.runtime.result import Result
from penstock.runtime.settings import POWER, PROCESS, Settings
from penstock.runtime.shelf import Shelf
from penstock.simulation.disk import CrashError, SimulatedDisk, Strike, cut_power, end_process, fail_with
from penstock.simulation.networks import FORMS, OUTSIDE, Recipe, random_recipe
from penstock.simulation.spark_model import Attempt, SparkModel
from penstock.storage.disk import mount
from penstock.storage.folder import Folder
from penstock.storage.lease import PERIOD, holder_of

SCHEME: Final = "sim"
CHECKPOINT: Final = "sim://run"
MOST_LIVES: Final = 12
CASES_PER_NETWORK: Final = 24
FAULTS: Final = ("kill", "change", "power", "power", "full", "intruder", "takeover", "flip", "lose", "careless")
"""Ended processes; the same, or power cuts, while the network changes; power cuts; failing writes; a second process,
refused; one that takes over while the first one is stopped; a flipped bit and a lost file between two lives; power cuts
under durability="process"."""
_REFUSING: Final = frozenset({"flip", "lose", "careless"})
"""Faults after which a run may be refused."""


@dataclass(frozen=True)
class Outcome:
    """How a case ended."""

    seed: int
    fault: str
    engine: str
    lives: int
    refused: str | None
    """The error that said what is wrong, where one was allowed to."""
    wrong: str | None
    """What differs from the undisturbed run; None if nothing does."""


class DifferenceError(Exception):
    """A result that is not what it must be."""


@dataclass
class World:
    """What outlives a process: the disk, the clock, what callbacks have received, and tasks that come late."""

    random: Random
    recipe: Recipe
    engine: str
    durability: str = POWER
    clock: float = 1_000_000.0
    deliveries: dict[str, dict[int, list[dict[str, Any]]]] = field(default_factory=dict)
    late: list[Attempt] = field(default_factory=list)
    dead: set[int] = field(default_factory=set)
    lives: int = 0
    opening: bool = False
    """Whether a process is opening the checkpoint for the first time."""
    may_refuse: bool = False
    changes: tuple[tuple[int, int], ...] = ()
    """The batches after which the network takes another form, and which."""
    answers: Answers = field(default_factory=dict)
    """What the kernel has answered in other worlds with the same network."""

    def __post_init__(self) -> None:
        self.disk = SimulatedDisk(self.random)

    def deliver(self, output: str, batch: int, table: pa.Table) -> None:
        rows = table.to_pylist()
        before = self.deliveries.setdefault(output, {}).setdefault(batch, rows)
        if before != rows:
            raise DifferenceError(f"{output}: batch {batch} was delivered again with other tuples")

    def plan(self, form: int = 0) -> Plan:
        trains = (self.recipe.train, self.recipe.train + 3) if self.recipe.recut else (self.recipe.train,)
        return _plan(self.recipe, self.random.choice(trains), form)

    def form_after(self, batch: int) -> int:
        """The form that the network has when a batch is done."""
        return next((form for since, form in reversed(self.changes) if since <= batch), 0)


@dataclass
class Process:
    """One life: a process that runs the network until it ends or is ended; and the machine that a lease asks."""

    world: World
    number: int

    def now(self) -> float:
        return self.world.clock

    def sleep(self, seconds: float) -> None:
        self.world.clock += seconds

    def myself(self) -> tuple[str, int, float]:
        return "a", self.number, 0.0

    def is_dead(self, host: str, process: int, began: float) -> bool:
        return process in self.world.dead

    def run(self, most: int = 1000) -> bool:
        """Run batches, at most so many; whether the network has come to its end."""
        job, world = self.open(), self.world
        late = world.late
        executor = SparkModel(job, world.random, late) if world.engine == "spark" else LocalExecutor(job)
        for _ in range(most):
            record = executor.step()
            if record is None:
                executor.close()
                return True
            if world.form_after(record.batch) != world.form_after(record.batch - 1):
                Shelf.of(job).change(world.plan(world.form_after(record.batch)))
        executor.close()
        return False

    def open(self) -> Job:
        recipe = self.world.recipe
        settings = Settings(buckets=recipe.buckets, tasks=recipe.tasks, durability=self.world.durability)
        self.world.opening = self.number == 1
        if self.world.durability == PROCESS and not Folder(CHECKPOINT).exists("network.json"):
            # All of it is lost, which nobody has promised to prevent: this is another run, which delivers anew.
            self.world.deliveries.clear()
        form = self.world.form_after(Board(Folder(CHECKPOINT).child("board")).newest())
        plan = self.world.plan(form)
        job = open_job(
            plan, settings, Folder(CHECKPOINT), 2, surroundings=self, dumps=_named if self.world.changes else None
        )
        self.world.opening = False
        return job


def begin(world: World) -> Process:
    world.lives += 1
    world.clock += 1.0
    return Process(world, world.lives)


@dataclass(frozen=True)
class Peace:
    """A network, and what comes of it when nobody disturbs it."""

    recipe: Recipe
    engine: str
    answer: dict[str, Any]
    operations: int
    answers: Answers


@lru_cache(maxsize=4)
def _in_peace(seed: int) -> Peace:
    random = Random(seed)
    world = World(random, random_recipe(random), random.choice(("spark", "spark", "local")))
    with _inhabited(world):
        begin(world).run()
        return Peace(world.recipe, world.engine, _answer(world), world.disk.operations, world.answers)


def fault_of(seed: int) -> str:
    """The kind of fault that a case is about."""
    return FAULTS[Random(seed).randrange(len(FAULTS))]


def run_case(seed: int) -> Outcome:
    """Run one case; the same seed gives the same case, and `CASES_PER_NETWORK` seeds in a row share a network."""
    peace, random = _in_peace(seed // CASES_PER_NETWORK), Random(seed)
    fault = fault_of(seed)
    durability = PROCESS if fault == "careless" else POWER
    world = World(random, peace.recipe, peace.engine, durability, answers=peace.answers)
    if fault == "change":
        batches = sorted(random.sample(range(6), 3))
        world.changes = tuple((batch, random.randrange(FORMS)) for batch in batches)
    refused = wrong = None
    with _inhabited(world):
        try:
            _disturb(world, fault, peace.operations)
            wrong = _compare(peace.answer, _answer(world))
        except DifferenceError as difference:
            wrong = str(difference)
        except (WorldError, QueryError) as error:
            refused = str(error)
            wrong = None if fault in _REFUSING or world.may_refuse else f"refused: {error}"
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
            if fault == "careless" and isinstance(error, pa.ArrowInvalid | json.JSONDecodeError):
                refused, wrong = wrong, None  # an output that was never synced, and that no reader takes for whole
    return Outcome(seed, fault, peace.engine, world.lives, refused, wrong)


def _disturb(world: World, fault: str, operations: int) -> None:
    """Life after life, with strikes at random moments, until the network has come to its end."""
    random, disk = world.random, world.disk
    strikes_left = random.randint(1, 4)
    while world.lives < MOST_LIVES:
        process = begin(world)
        if strikes_left:
            strikes_left -= 1
            disk.strikes = {disk.operations + random.randrange(max(1, operations)): _strike(world, fault)}
        try:
            if process.run():
                return
        except CrashError:
            pass
        except WorldError as error:
            if not _is_expected(fault, error):
                raise
        world.dead.add(process.number)
        disk.strikes = {}
        if fault in ("flip", "lose") and strikes_left:
            _damage(world, fault)
    if not begin(world).run():
        raise DifferenceError("the network does not come to its end")


def _strike(world: World, fault: str) -> Strike:
    match fault:
        case "change":
            return world.random.choice((end_process, cut_power))
        case "power":
            # What an ended process has not synced can be lost with a later one.
            return world.random.choice((cut_power, cut_power, end_process))
        case "careless":
            return cut_power
        case "full":
            return fail_with(world.random.choice((errno.ENOSPC, errno.EIO)))
        case "intruder":
            return lambda disk: _intrude(world)
        case "takeover":
            return lambda disk: _take_over(world)
    return end_process


def _is_expected(fault: str, error: WorldError) -> bool:
    """Whether a run may end with this error, to be started again."""
    text = str(error)
    if fault == "full":
        return "No space left" in text or "Input/output error" in text
    return fault == "takeover" and ("has lost the checkpoint" in text or "is in use by" in text)


def _intrude(world: World) -> None:
    """Another process wants the checkpoint: it is refused, and changes nothing."""
    holder = holder_of(Folder(CHECKPOINT))
    other = begin(world)
    try:
        other.open()
    except WorldError as error:
        if "is in use by process" in str(error):
            return
        raise DifferenceError(f"an intruder was refused for another reason: {error}") from error
    if holder is not None and not holder.released:
        raise DifferenceError("an intruder was let in")
    world.dead.add(other.number)  # nobody held the checkpoint yet, or any more


def _take_over(world: World) -> None:
    """The process is stopped for so long that another one takes the checkpoint, works, and is gone again."""
    world.clock += 2 * PERIOD
    # Names that are given once, by a process that has lost the checkpoint while it gave them, cannot be told from true
    # ones where there are no locks. What they lead to is refused.
    world.may_refuse |= world.opening
    other = begin(world)
    other.run(world.random.choice((0, 1, 2, 1000)))
    if world.random.random() < 0.5:
        world.clock += 2 * PERIOD


def _damage(world: World, fault: str) -> None:
    """A bit of a file in the checkpoint flips, or a file is lost, while nobody looks."""
    disk = world.disk
    names = sorted(n for n, f in disk.names_now.items() if n.startswith("/run/") and f.content and "/." not in n)
    if not names:
        return
    name = world.random.choice(names)
    if fault == "lose":
        disk.delete(name)
        return
    content = bytearray(disk.names_now[name].content)
    content[world.random.randrange(len(content))] ^= 1 << world.random.randrange(8)
    disk.write(name, [bytes(content)], lasting=True)


def _answer(world: World) -> dict[str, Any]:
    """Everything that a run has to show for itself."""
    plan = world.plan()
    job = Job(plan, Settings(), Folder(CHECKPOINT))
    result, record = Result(job), Result(job).record()
    answer: dict[str, Any] = {}
    for output in plan.network.outputs:
        if isinstance(output.target, Results):
            answer[output.name] = result[output.name].to_pylist()
        elif output.name in world.deliveries:
            answer[output.name] = [row for _, rows in sorted(world.deliveries[output.name].items()) for row in rows]
        else:
            answer[output.name] = _rows_of(Folder(f"{OUTSIDE}/{output.name}"))
    answer["accounts"] = [{name: vars(count) for name, count in sorted(record.inputs.items())}]
    answer["ended"] = [record.ended]
    return answer if not world.recipe.recut else {name: Counter(map(str, rows)) for name, rows in answer.items()}


def _rows_of(folder: Folder) -> list[Any]:
    rows: list[Any] = []
    for name in folder.names():
        if name.endswith(".jsonl"):
            rows += [json.loads(line) for line in folder.read(name).to_pybytes().splitlines()]
        elif name.endswith(".parquet"):
            rows += pq.read_table(io.BytesIO(folder.read(name).to_pybytes())).to_pylist()
    return rows


def _compare(expected: dict[str, Any], found: dict[str, Any]) -> str | None:
    for name, rows in expected.items():
        if found.get(name) != rows:
            return f"{name}: expected {rows}, found {found.get(name)}"
    return None


_here: list[World] = []
"""The world that callbacks deliver to: plans are made once for a network, and used in many worlds."""


@contextmanager
def _inhabited(world: World) -> Iterator[None]:
    mount(SCHEME, world.disk)
    _here.append(world)
    quiet, agreement.LOG.disabled = agreement.LOG.disabled, True
    try:
        with remembering(world.answers):
            yield
    finally:
        agreement.LOG.disabled = quiet
        _here.pop()


@lru_cache(maxsize=24)
def _plan(recipe: Recipe, train: int, form: int) -> Plan:
    plan = recipe.plan(train, lambda output, batch, table: _here[-1].deliver(output, batch, table), form)
    _names[id(plan)] = (recipe, train, form)
    return plan


_names: dict[int, tuple[Recipe, int, int]] = {}
"""What a plan was made of, to find it again: a plan with callbacks of this process cannot be pickled."""


def _named(plan: Plan) -> bytes:
    return pickle.dumps(_Named(*_names[id(plan)]))


@dataclass(frozen=True)
class _Named:
    """Stands for a plan in a pickle."""

    recipe: Recipe
    train: int
    form: int

    def __reduce__(self) -> tuple[object, ...]:
        return _plan, (self.recipe, self.train, self.form)
