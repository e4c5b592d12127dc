"""The versions of a network, in the checkpoint of its run.

```
 versions/00000002.json     what every part of the network was, since when it is the same, and what has changed
          00000002.plan     the plan, pickled and signed: for batches that are done again by a later process
```

A batch runs the version that its offset names. A part of the network (an input, a box, an output) that is the same in
two versions keeps what it holds; its *birth* is the version since which it has been the same. Versions take effect one
after the other, each for one batch at least.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from penstock.algebra.box import Box, Output, Port, Stateful
from penstock.algebra.hidden import SEQ
from penstock.algebra.network import Network
from penstock.algebra.source import Source
from penstock.connectors.targets.kept_results import Results
from penstock.errors import QueryError, WorldError
from penstock.plan.compile import compile_network
from penstock.plan.plan import Arrangement, Plan, Step
from penstock.runtime.job import Inherited, written_schema
from penstock.storage.folder import Folder
from penstock.storage.sealed import RESTORE, read_sealed, write_sealed
from penstock.storage.signing import digest, is_signed, sign

INPUT: Final = "input"
BOX: Final = "box"
OUTPUT: Final = "output"
_SUFFIX: Final = ".json"
_PLAN: Final = ".plan"
_ARRIVAL_ORDER: Final = re.compile(rf"{SEQ}(, )?")

Dumps = Callable[[Plan], bytes]
"""How a plan is pickled, with the functions that it refers to."""


@dataclass(frozen=True)
class Part:
    """What there is to know of an input, a box or an output, to tell whether it is the same as before."""

    text: str
    """All that it is; what it holds fits another part only if the texts are the same."""
    holds: str = ""
    """What would be lost with it: nothing, for a box without state."""
    stage: int = 0
    birth: int = 1


@dataclass(frozen=True)
class Version:
    """One version of a network."""

    number: int
    fingerprint: str
    stages: int
    parts: Mapping[str, Part]
    """By role and name, such as "box counts"."""
    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    changed: Sequence[str] = ()
    discarded: Sequence[str] = ()
    """Of those that have changed, the ones that held something, which is gone."""
    batch: int | None = None
    """The first batch that ran it; None if none has yet."""
    at: int | None = None
    """The clock reading of that batch, in microseconds since the epoch."""
    plan: str = ""
    """The file with the plan, pickled; nothing if it is not kept."""
    signature: str = ""
    attached: Sequence[Mapping[str, Any]] = ()
    """The queries that are attached, and the copies that have joined: name, at, since, share, outputs."""
    declared: str = ""
    """The fingerprint of the network as the user has described it, where the optimizer has arranged it."""
    arrangement: Sequence[Mapping[str, str]] = ()
    """What the optimizer has done to it, step by step."""

    def is_of(self, plan: Plan) -> bool:
        """Whether this is a version of the network that a plan is of, however it is arranged."""
        return self._of == (declared_fingerprint(plan) or fingerprint(plan))

    @property
    def _of(self) -> str:
        return self.declared or self.fingerprint

    @property
    def steps(self) -> Arrangement:
        return tuple(Step(str(step["rewrite"]), str(step["box"])) for step in self.arrangement)

    @property
    def births(self) -> dict[str, int]:
        return {key: part.birth for key, part in self.parts.items()}

    def inherited_by(self, later: Version) -> Inherited:
        """What a later version takes over from this one."""
        kept = {
            key.removeprefix(f"{BOX} "): self.parts[key].stage
            for key, part in later.parts.items()
            if key.startswith(f"{BOX} ") and part.birth < later.number and self.parts[key].stage
        }
        return Inherited(self.stages, kept, self._of == later._of)

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Version:
        return Version(**{**document, "parts": {key: Part(**part) for key, part in document["parts"].items()}})


def first_version(plan: Plan) -> Version:
    return _arranged(Version(1, fingerprint(plan), plan.stages, _parts(plan), attached=_attached(plan)), plan)


def _arranged(version: Version, plan: Plan) -> Version:
    steps = [asdict(step) for step in plan.arrangement]
    return replace(version, declared=declared_fingerprint(plan), arrangement=steps)


def next_version(before: Version, plan: Plan, discard: Iterable[str] = ()) -> Version:
    """The version that follows; refused if something would be lost that `discard` does not name."""
    parts, number, named = _parts(plan), before.number + 1, set(discard)
    changed = [key for key, part in parts.items() if key in before.parts and _differs(before.parts[key], part)]
    lost = [key for key in changed if before.parts[key].holds]
    _check_named(named, lost, {**before.parts, **parts})
    refused = [key for key in lost if _name(key) not in named]
    if refused:
        raise QueryError(
            "the change would lose what parts of the network hold",
            network=plan.network.name,
            expected="\n".join(f"{key}: {before.parts[key].text}" for key in refused),
            found="\n".join(f"{key}: {parts[key].text} (would lose {before.parts[key].holds})" for key in refused),
            hint="leave them as they were, give what is new another name, or say that it may be lost: "
            f"discard={sorted({_name(key) for key in refused})}",
        )
    anew = set(lost)
    births = {key: before.parts[key].birth if key in before.parts and key not in anew else number for key in parts}
    version = Version(
        number,
        fingerprint(plan),
        plan.stages,
        {key: replace(part, birth=births[key]) for key, part in parts.items()},
        [key for key in parts if key not in before.parts],
        [key for key in before.parts if key not in parts],
        changed,
        lost,
        attached=_attached(plan),
    )
    return _arranged(version, plan)


def _attached(plan: Plan) -> list[dict[str, Any]]:
    queries = plan.declared.attached if plan.declared is not None else ()
    return [
        {
            "name": q.name,
            "at": list(q.at) or [q.to],
            "since": q.since,
            "share": q.share,
            "outputs": list(q.outputs),
        }
        for q in queries
    ]


def _differs(before: Part, after: Part) -> bool:
    """Whether a part is another one. Tuples get their arrival order when they leave a box: whether somebody reads it
    changes nothing of what the box holds."""
    return _ARRIVAL_ORDER.sub("", before.text) != _ARRIVAL_ORDER.sub("", after.text)


def _check_named(named: set[str], lost: Sequence[str], parts: Mapping[str, Part]) -> None:
    for name in sorted(named - {_name(key) for key in lost}):
        known = any(_name(key) == name for key in parts)
        raise QueryError(
            f"discard= names '{name}', " + ("which loses nothing by this change" if known else "which there is not"),
            expected=f"one of {', '.join(sorted({_name(key) for key in lost}))}" if lost else "no name at all",
        )


def _name(key: str) -> str:
    return key.split(" ", 1)[1]


def _parts(plan: Plan) -> dict[str, Part]:
    return {key: _part(plan, box) for box in plan.network.boxes for key in _keys(plan, box)}


def _keys(plan: Plan, box: Box) -> list[str]:
    """Boxes that stand in for some of the user's are known by their names."""
    if isinstance(box, Output | Source):
        return [key_of(box)]
    return [f"{BOX} {name}" for name in plan.stands_for(box)]


def key_of(box: Box) -> str:
    """How a part of a network is known in versions: a box and an output may have the same name."""
    return f"{INPUT if isinstance(box, Source) else OUTPUT if isinstance(box, Output) else BOX} {box.name}"


def _part(plan: Plan, box: Box) -> Part:
    if isinstance(box, Output):
        return Part(_columns(written_schema(box)), "kept results" if isinstance(box.target, Results) else "its schema")
    told = f"{box.kind} {box.describe()} -> {_columns(box.schema(0))}"
    if isinstance(box, Source):
        return Part(told, "its position")
    if not isinstance(box, Stateful):
        return Part(told)
    inputs = box.inputs[:1] if box.inputs_come_and_go else box.inputs
    taken = "; ".join(_columns(port.schema) for port in inputs)
    # State holds the columns that somebody reads: another reader may need others.
    read = [sorted(plan.columns.get(Port(box, index).name, ())) for index in range(len(box.ports))]
    needed = "; ".join(", ".join(columns) for columns in read)
    return Part(f"{told}, from {taken}, of which are read {needed}", "its state", plan.stage_of[box.name])


def _columns(schema: Any) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def declared_fingerprint(plan: Plan) -> str:
    """The fingerprint of the network as the user has described it; nothing if it is run like that."""
    if not plan.arrangement or plan.declared is None:
        return ""
    return fingerprint(compile_network(plan.declared, plan.architecture))


def fingerprint(plan: Plan) -> str:
    """What a version depends on: every box with its inputs, and its stage. Where outputs go may change."""
    lines = [
        f"{b.kind} {b.name} ({', '.join(p.name for p in b.inputs)}) "
        f"{'' if isinstance(b, Output) else b.describe()} {plan.stage_of.get(b.name, '')} {b.schema(0)}"
        for b in plan.network.boxes
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Versions:
    """The versions that a checkpoint knows. `run` is its name, which signatures are made for."""

    folder: Folder
    run: str
    dumps: Dumps | None = field(default=None, compare=False)

    def numbers(self) -> list[int]:
        return sorted(int(n.removesuffix(_SUFFIX)) for n in self.folder.names() if n.endswith(_SUFFIX))

    def at(self, number: int) -> Version:
        name = f"{number:08d}{_SUFFIX}"
        if not self.folder.exists(name):
            raise WorldError(f"version {number} of the network is missing in {self.folder.path}", hint=RESTORE)
        return Version.from_json(read_sealed(self.folder, name))

    def all(self) -> list[Version]:
        return [self.at(number) for number in self.numbers()]

    def put(self, version: Version, plan: Plan | None = None) -> None:
        """Remember a version, and its plan if it can be pickled."""
        if plan is not None and self.dumps is not None:
            # Without a key, only a batch that was begun with an earlier version, and not done, is refused later.
            with contextlib.suppress(WorldError):
                version = self._with_plan(version, self.dumps(plan))
        write_sealed(self.folder, f"{version.number:08d}{_SUFFIX}", asdict(version))
        for name in self._plans(version.number):
            if name != version.plan:
                self.folder.delete(name)

    def _with_plan(self, version: Version, content: bytes) -> Version:
        signature = sign(self._purpose(version.number), content)
        name = f"{version.number:08d}-{digest(content)[:16]}{_PLAN}"
        self.folder.write(name, content)
        return replace(version, plan=name, signature=signature)

    def begun(self, number: int, batch: int, at: int) -> None:
        """Remember when a version took effect."""
        version = self.at(number)
        if version.batch != batch:
            write_sealed(self.folder, f"{number:08d}{_SUFFIX}", asdict(replace(version, batch=batch, at=at)))

    def withdraw(self, number: int) -> None:
        """Forget a version that no batch has run."""
        self.folder.delete(f"{number:08d}{_SUFFIX}")
        for name in self._plans(number):
            self.folder.delete(name)

    def forget_plans(self, before: int) -> None:
        """Delete the plans of versions that no batch can ask for any more; what they were is still told."""
        for name in self.folder.names():
            if name.endswith(_PLAN) and int(name.split("-")[0]) < before:
                self.folder.delete(name)

    def plan(self, number: int) -> Plan:
        """The plan of a version; refused unless this user has written it."""
        return self._plan(
            number,
            f"a batch was planned with version {number} of the network, and is not done yet",
            f"start the run with the network as it was in version {number}, "
            "or as the user, or with the key, that it was started with",
        )

    def network_with_queries(self, number: int) -> Network | None:
        """The network of a version to which queries are attached; None if there are none."""
        attached = self.at(number).attached
        if not attached:
            return None
        names = ", ".join(f"'{query['name']}'" for query in attached)
        hint = "look at the run, or start it, as the user, or with the key, that it was started with"
        return self._plan(number, f"queries are attached to the network: {names}", hint).declared

    def _plan(self, number: int, why: str, hint: str) -> Plan:
        version = self.at(number)
        known = version.plan in self._plans(number)
        content = self.folder.read(version.plan).to_pybytes() if known else b""
        if not content or not is_signed(self._purpose(number), content, version.signature):
            raise WorldError(
                f"{why}; its plan in {self.folder.path} is " + ("signed by somebody else" if content else "missing"),
                expected="a plan with the signature of this user",
                hint=hint,
            )
        plan: Plan = pickle.loads(content)
        return plan

    def _plans(self, number: int) -> list[str]:
        return [n for n in self.folder.names() if n.startswith(f"{number:08d}-") and n.endswith(_PLAN)]

    def _purpose(self, number: int) -> str:
        return f"plan {number} of {self.run}"
